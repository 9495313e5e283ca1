//! Serves the Ignition configs of new machines: an HTTPS server without rights in the cluster, for
//! providers that take fewer bytes of user data than a config has. The user data then is a *stub*,
//! which has the server's address, its CA and the token of the pool.
//!
//! Input: a directory as Kubernetes mounts a Secret, with the server's certificate and, for each
//! pool, its config and hashes of its tokens. Output: a pool's config, to a request with a token of
//! that pool; to any other token or pool, the same 503. The parts that a controller needs to write that
//! Secret are here too, and pure but for random keys.
//!
//! Invariants: the server has no plain token. Whatever a peer sends has limits of size, time and
//! rate. There is no Kubernetes client in this crate.
//!
//! | file | does |
//! | --- | --- |
//! | `token` | a pool's tokens, made of a key and a period; their hashes |
//! | `authority` | the CA, and the certificates that it issues |
//! | `stub` | the small config that fetches the other one |
//! | `served` | the keys of the mounted Secret, and who gets which config |
//! | `directory` | reads the mounted directory, again and again |
//! | `tls` | TLS 1.3 with the certificate of that moment |
//! | `connections` | how many connections a peer may have, and which give way to new ones |
//! | `respond` | requests → answers |
//! | `server` | listens and serves, with limits of size and time |

mod authority;
mod connections;
mod directory;
mod respond;
mod served;
mod server;
mod stub;
mod tls;
mod token;

pub use authority::{Authority, AuthorityError, CertificateInfo, ServingCertificate};
pub use directory::DirectoryError;
pub use served::{CERTIFICATE, CERTIFICATE_INFO, PRIVATE_KEY, config_key, pool_of, tokens_key};
pub use server::{Limits, ListenError, Server};
pub use stub::{STUB_VERSION, stub};
pub use token::{Period, Token, TokenKey, TokenKeyError, accepted_tokens};
