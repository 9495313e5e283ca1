//! Fetches what a config refers to, as Ignition 2.24 fetches it on a node.
//!
//! In come [`Reference`](mosb_ignition::Reference)s; out come bytes, as the server sent them:
//! nothing is decoded, unpacked or verified here. Facts of Ignition (`internal/resource/http.go`,
//! `url.go`) that hold here too: 200 and 204 are the only good answers; redirects are followed
//! without the config's headers; the config's proxy, timeouts and authorities count; an answer may
//! take 10 seconds to begin; what failed with 5xx or on the network is result again after 0.2
//! seconds, doubled up to 5. What differs:
//!
//! - There is always an end: `--timeout` for each reference, 10 redirects, a bounded body.
//! - 408, 425 and 429 are result again too, with `Retry-After`; so is a body that was cut.
//! - Without a proxy in the config, the variables of the environment count; without `--ca`, the
//!   system's authorities and the config's.
//!
//! The invariant: a header of `--http-headers-file` goes to its host only, by https or to this
//! machine only, and never on after a redirect to another host. No message and no `Debug` output
//! holds a header's value, or user, password and query of a URL.

mod attempt;
mod error;
mod fetcher;
mod headers;

pub use error::{Asked, Error};
pub use fetcher::{Fetcher, Options, offline};
pub use headers::HostHeaders;
