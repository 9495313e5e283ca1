//! From a config that lies in pieces, here and on servers, to one that holds everything itself.
//!
//! In come a [`Document`](super::Document) and what was fetched so far ([`Contents`]); out comes the document without
//! anything remote in it, or the list of what must be fetched first ([`Resolution::Needs`]). Nothing is fetched here:
//! the caller fetches, puts the answers into the contents and asks again, until it is done. So the result is the
//! same whether something was fetched now, earlier, or twice.
//!
//! [`configs`] resolves `ignition.config.merge` and `.replace` as Ignition 2.24 does (`internal/exec/config_fetcher.go`):
//! each referenced config is resolved itself, then merged onto what is there, one after the other; `replace` discards
//! the whole config that says it. [`contents`] embeds the contents of files, what is appended to them, certificate
//! authorities and key files, byte for byte as they were served: `compression` and `verification.hash` stay and mean
//! what they meant, `httpHeaders` go, as no data URL may have any.
//!
//! The invariant: what is embedded is what `verification` says, unpacks, and has a bounded size; no message and no
//! `Debug` output holds a header's value, a password or query of a URL, or contents.
//!
//! # Which settings hold for which fetch
//! Ignition takes the proxy, timeouts and authorities of the config in hand. For contents that is the merged whole. For
//! referenced configs it is at first the config that refers, then, after each one that came, what was merged so far
//! with it; see [`configs`]. Authorities are fetched without themselves.
//!
//! # Codes
//! Those of an [`Error::Invalid`](super::Error::Invalid) problem, beside those of the crate.
//!
//! | code | what |
//! | --- | --- |
//! | `unsupported-source` | `s3`, `gs`, `tftp`, `arn`: not fetched while rendering |
//! | `bad-source` | no URL that can be fetched, no source at all, a header without a value |
//! | `bad-timeout` | a timeout below zero |
//! | `wrong-hash`, `bad-gzip`, `contents-too-large` | what was served is not what the config says of it |
//! | `bad-authority` | a certificate authority that is no PEM |
//! | `bad-referenced-config` | a referenced config that is no JSON |
//! | `other-family` | spec 3 refers to spec 2, or the reverse |
//! | `circular-reference`, `deep-reference`, `many-references` | configs that refer to configs without end |

mod authority;
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

/// Most bytes that one reference may serve. A rendered config has 1.5 MiB; one that is larger is refused by name later.
pub const LARGEST: u64 = 8 << 20;

/// Most bytes that all references of one rendering may serve.
pub const LARGEST_TOTAL: u64 = 64 << 20;

/// Most references of one rendering. Configs have a few; each may take a minute, eight at once.
pub const MOST_REFERENCES: usize = 512;

/// What a step came to.
#[derive(Debug, Clone, PartialEq)]
pub enum Resolution<T> {
    /// It is done.
    Done(T),
    /// These must be fetched first, each of them once.
    Needs(Vec<Reference>),
}
