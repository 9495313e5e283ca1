//! Embeds everything that a config refers to.
//!
//! Input: a [`Document`](super::Document) and the contents that are fetched so far ([`Contents`]).
//! Output: the document without remote references, or the list of references to fetch
//! ([`Resolution::Needs`]). The caller fetches them, adds the responses to the contents and calls
//! again until the document is complete. The result therefore doesn't depend on when, or how often,
//! something was fetched.
//!
//! [`configs`] resolves `ignition.config.merge` and `.replace` as Ignition 2.24 does
//! (`internal/exec/config_fetcher.go`): each referenced config is resolved itself, then merged over
//! the config, one after the other; `replace` discards the whole config that has it. [`contents`]
//! embeds contents of files, parts to append, certificate authorities and key files, byte for byte
//! as they were served: `compression` and `verification.hash` remain with the same meaning;
//! `httpHeaders` are removed, as they are invalid with a data URL.
//!
//! The invariant: embedded contents match `verification`, can be unpacked, and have a bounded size;
//! no message and no `Debug` output contains a header's value, a password or query of a URL, or
//! contents.
//!
//! # Settings of a fetch
//! Ignition uses the proxy, timeouts and authorities of the current config. For contents, that is
//! the merged config. For referenced configs, it is first the config with the reference, then,
//! after each fetch, the config merged so far; see [`configs`]. Authorities don't apply to their
//! own fetches.
//!
//! # Codes
//! Codes of problems in [`Error::Invalid`](super::Error::Invalid), in addition to those of the crate.
//!
//! | code | problem |
//! | --- | --- |
//! | `unsupported-source` | `s3`, `gs`, `tftp`, `arn`: not fetched while rendering |
//! | `bad-source` | no URL that can be fetched, no source at all, a header without a value |
//! | `bad-timeout` | a timeout below zero |
//! | `wrong-hash`, `bad-gzip`, `contents-too-large` | the response doesn't match the config |
//! | `bad-authority` | a certificate authority that isn't PEM |
//! | `bad-referenced-config` | a referenced config that is not JSON |
//! | `other-family` | spec 3 refers to spec 2, or the reverse |
//! | `circular-reference`, `deep-reference`, `many-references` | a chain of references that is circular or too long |

mod check;
mod configs;
mod contents;
mod reference;
mod settings;
mod source;

#[cfg(test)]
mod tests;

pub use configs::{Resolved, configs};
pub use contents::contents;
pub use reference::{Contents, Reference, Request};
pub use settings::{Proxy, Settings};
pub use source::without_credentials;

/// The most bytes of one response. A rendered config has at most 1.5 MiB; a larger one is rejected
/// later.
pub const MAX_RESPONSE_SIZE: u64 = 8 << 20;

/// The most bytes of all responses for one rendering.
pub const MAX_TOTAL_SIZE: u64 = 64 << 20;

/// The most references of one rendering. Configs have a few; a fetch may take a minute, eight run
/// at once.
pub const MAX_REFERENCES: usize = 512;

/// The result of a step.
#[derive(Debug, Clone, PartialEq)]
pub enum Resolution<T> {
    Done(T),
    /// Fetch each of these once, then call again.
    Needs(Vec<Reference>),
}
