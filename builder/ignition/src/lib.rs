//! Parses, validates and merges Ignition configs: from the raw object of `spec.config` to a typed
//! form.
//!
//! Input: a JSON value of spec 3.0.0 to 3.6.0. It is validated by the rules of its own version, as
//! Ignition 2.26 does it, and all problems are reported at once. Output: a [`Config`] in the shape of
//! spec 3.5.0, which is also that of 3.6.0, with the version of the input.
//!
//! It takes two steps. `normalize` reads the JSON by the table of fields of its version (`schema`);
//! then one module for each section checks the meaning of the fields (`header`, `storage`, `disks`,
//! `systemd`), and `places` the entries against each other.
//!
//! The invariant: every path in a [`Config`] is absolute and clean, is there once, and is not below
//! a link of the same config; no name of a unit or drop-in leaves its directory; every content is a
//! valid data URL; every mode and owner is valid in a file system. What a build can't fetch (remote
//! sources, referenced configs) and spec 2 are rejected with a remedy. Secrets, that is contents,
//! password hashes, keys and URLs, are in no message and in no `Debug` output.
//!
//! # Codes
//! Codes of problems in [`Error::Invalid`]. With a star: Ignition accepts the config, but fails or has a
//! surprising effect when it applies it; this crate rejects it.
//!
//! | code | problem |
//! | --- | --- |
//! | `wrong-type` | a field holds another JSON type than its spec says |
//! | `ambiguous-field`* | one field in two spellings, `path` and `Path` |
//! | `bad-path`, `unusable-path`* | not absolute and clean; NUL, too long, a file or link at `/`, a name that is a whiteout (`.wh.…`) in a layer |
//! | `duplicate`, `link-in-the-way`, `unit-in-the-way` | two entries use one path or name |
//! | `bad-mode` | not 0 to 0o7777 |
//! | `bad-owner`, `unusable-owner`* | id and name together; an id no file can have |
//! | `bad-link`, `unusable-link`* | no target, or a directory of the config as target of a hard link; an empty target, or NUL in it |
//! | `bad-source`, `bad-data-url`, `bad-compression`, `bad-verification` | contents that can't be read |
//! | `unusual-data-url`*, `unusable-verification`* | `#` or a backslash in a media type; a hash that is not hex |
//! | `remote-source`*, `referenced-config`* | must be fetched: render first |
//! | `append-without-source`* | nothing to append |
//! | `overwrite-without-contents` | it would delete the file and write nothing |
//! | `bad-unit-name`, `bad-dropin-name`, `bad-unit` | a wrong extension; text that is not a unit file |
//! | `unsafe-unit-name`*, `unsafe-dropin-name`* | a name that systemd would not load, or that leaves the directory |
//! | `bad-proxy`, `bad-disk`, `bad-raid`, `bad-filesystem`, `bad-luks` | in sections that the image doesn't contain, but Ignition checks |
//! | `unusable-disk`* | a partition that starts or ends before the disk |
//!
//! In a config of spec 2 also:
//!
//! | code | problem |
//! | --- | --- |
//! | `no-spec3-equal`* | spec 3 has no equivalent: `docs/translation.md` has the alternative |
//! | `undefined-filesystem`* | a file in a file system that the config doesn't define, or in none |
//! | `append-and-overwrite` | one file, both replaced and appended to |
//!
//! and the warnings `unsaid-mode` and `sectors-of-512`.
//!
//! Codes of warnings: `unknown-field`, `newer-field`, `misspelt-field`, `decimal-mode`, `special-mode-bits`,
//! `hard-link-owner`, `no-install-section`, and, only of [`Document::read`], `lost-field`. Of
//! [`Config::left_to_machine`]: `left-to-machine`, `at-installation`.
//!
//! # Merging
//! The configs of a pool are merged into one: each is read as a [`Document`], which may still refer
//! to other configs and to remote contents, and a [`Merger`] merges them in order.

mod config;
mod content;
mod data_url;
mod disks;
mod document;
mod error;
mod header;
mod merge;
mod normalize;
mod object;
mod oldest_version;
mod parse;
mod places;
mod resource;
mod schema;
mod sink;
pub mod snapshot;
mod storage;
mod systemd;
mod unit_text;
mod url;
mod v2;
mod version;

#[cfg(test)]
mod tests;

pub use config::{
    Config, Directory, Dropin, File, KernelArguments, Link, Owner, Passwd, Storage, Systemd, Unit,
};
pub use content::{Compression, HashFunction, Resource, Verification};
pub use data_url::{DataUrlError, parse_data_url};
pub use document::{Document, ReadDocument};
pub use error::{ContentError, Error};
pub use merge::{Merged, Merger, Provenance};
pub use parse::{Parsed, parse};
pub use snapshot::{Contents, Reference, Resolution};
pub use version::{Spec, SpecV2, SpecVersion};
