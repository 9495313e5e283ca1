//! What `mosb serve-ignition` needs beside the configs of pools: its CA, its certificate, the key of
//! which tokens are made; and the removal of pools that have no user data any more.
//!
//! Input: the endpoint of the settings, the MachineOSConfigs with user data, and two Secrets that an
//! administrator made. Output: the content of these Secrets. Configs and tokens of a pool are written
//! with its user data ([`user_data`](crate::user_data)).
//!
//! Invariant: the key of the CA and that of the tokens are in mosb's namespace, and the server mounts
//! neither. Only Secrets with our label are written.
//!
//! | file | does |
//! | --- | --- |
//! | `secrets` | which Secrets these are, and why one can't be used |
//! | `server_keys` | the CA and the token key in their Secret |
//! | `snapshot`, `observe` | the input of a decision; cache → snapshot |
//! | `decide` | snapshot → lookups or actions |
//! | `reconciler` | gives these functions to the driver, makes keys and certificates |

mod decide;
mod observe;
mod reconciler;
mod secrets;
mod server_keys;
mod snapshot;

#[cfg(test)]
mod tests;

pub use reconciler::IgnitionServerReconciler;
pub use secrets::{Unusable, authority_secret, server_secret, unusable, usable};
pub use server_keys::ServerKeys;
