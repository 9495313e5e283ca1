//! What `mosb serve-ignition` needs beside the configs of pools: its CA, its certificate, the key of
//! which tokens are made; and the removal of pools that have no user data any more.
//!
//! Input: the endpoint of the settings, the MachineOSConfigs with user data, and two Secrets that an
//! administrator made. Output: the content of these Secrets. Configs and tokens of a pool are written
//! with its user data ([`user_data`](crate::user_data)).
//!
//! Invariant: the key of the CA and that of the tokens are in mosb's namespace, and the server mounts
//! neither.
//!
//! | file | does |
//! | --- | --- |
//! | `evaluate` | snapshot → lookups or writes, and why |
//! | `secrets` | which Secrets these are, and why one can't be used |
//! | `server_keys` | the CA and the token key in their Secret |

mod evaluate;
mod secrets;
mod server_keys;

#[cfg(test)]
mod tests;

pub use evaluate::evaluate;
pub use secrets::{NO_SERVER, TOO_LARGE, authority_secret, server_secret, unusable, usable};
pub use server_keys::ServerKeys;
