//! Fetches the references of a config, as Ignition 2.24 fetches them on a node.
//!
//! Input: [`Reference`](mosb_ignition::Reference)s. Output: bytes, as the server sent them; nothing
//! is decoded, unpacked or verified here. As in Ignition (`internal/resource/http.go`, `url.go`),
//! 200 and 204 are the only good responses; redirects are followed without the config's headers;
//! the config's proxy, timeouts and authorities apply; a response may take 10 seconds to begin; 5xx
//! and network errors are retried after 0.2 seconds, doubled up to 5. What differs:
//!
//! - Everything is bounded: `--timeout` for each reference, 10 redirects, the size of a body.
//! - 408, 425 and 429 are retried too, with `Retry-After`; so is an incomplete body.
//! - Without a proxy in the config, the variables of the environment apply; without `--ca`, the
//!   system's authorities and the config's.
//!
//! Invariant: a header of `--http-headers-file` is sent to its host only, only by https or to this
//! machine, and not after a redirect to another host. No message and no `Debug` output holds a
//! header's value, or user, password and query of a URL.

mod attempt;
mod error;
mod fetcher;
mod headers;

pub use error::{Asked, Error};
pub use fetcher::{Fetcher, Options, offline};
pub use headers::HostHeaders;
