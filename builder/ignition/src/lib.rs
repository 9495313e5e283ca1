//! The Ignition config of a machine: from the raw object of `spec.config` to one typed, checked form.
//!
//! In comes a JSON value of spec 3.0.0 to 3.6.0. It is judged by the rules of its own version, as Ignition 2.26
//! judges it, and all that is wrong with it is told at once. Out comes a [`Config`] in the shape of spec 3.5.0, which
//! is that of 3.6.0, with the version it was written for.
//!
//! The invariant: every path in a [`Config`] is absolute and clean, none is given twice or lies under a link
//! of the same config, no unit or drop-in name leaves its directory, every content is a data URL that decodes,
//! and every mode and owner is one that a file system can hold. What a build can't reach (remote sources,
//! referenced configs, spec 2) is refused with the way out. Secrets, that is contents, password hashes, keys and
//! URLs, are in no message and in no `Debug` output.
//!
//! # Codes
//! Those of a [`Error::Invalid`] problem. With a star: Ignition accepts the config and only fails, or does
//! something that nobody meant, when it applies it; this crate rejects it at once.
//!
//! | code | what |
//! | --- | --- |
//! | `wrong-type` | a field holds another JSON type than its spec says |
//! | `ambiguous-field`* | one field in two spellings, `path` and `Path` |
//! | `bad-path`, `unusable-path`* | not absolute and clean; NUL, too long, a file or link at `/`, a name that is a whiteout (`.wh.…`) in a layer |
//! | `duplicate`, `link-in-the-way`, `unit-in-the-way` | two entries want one place |
//! | `bad-mode` | not 0 to 0o7777 |
//! | `bad-owner`, `unusable-owner`* | id and name together; an id no file can have |
//! | `bad-link`, `unusable-link`* | no target, or a directory of the config as target of a hard link; an empty target, or NUL in it |
//! | `bad-source`, `bad-data-url`, `bad-compression`, `bad-verification` | contents that can never be read |
//! | `unusual-data-url`*, `unusable-verification`* | `#` or a backslash in a media type; a hash that is not hex |
//! | `remote-source`*, `referenced-config`* | to be fetched from elsewhere: render first |
//! | `append-without-source`* | nothing to append |
//! | `overwrite-without-contents` | it would delete the file and write none |
//! | `bad-unit-name`, `bad-dropin-name`, `bad-unit` | a wrong extension; text that is no unit file |
//! | `unsafe-unit-name`*, `unsafe-dropin-name`* | a name that systemd would not load, or that leaves the directory |
//! | `bad-proxy`, `bad-disk`, `bad-raid`, `bad-filesystem`, `bad-luks` | in what the image does not hold, but Ignition checks |
//! | `unusable-disk`* | a partition that begins or ends before the disk does |
//!
//! Of a config of spec 2 also:
//!
//! | code | what |
//! | --- | --- |
//! | `no-spec3-equal`* | spec 3 can't say it: `docs/translation.md` has what to write instead |
//! | `undefined-filesystem`* | a file in a file system that the config doesn't define, or in none |
//! | `append-and-overwrite` | one file, both replaced and appended to |
//!
//! and of its warnings `unsaid-mode` and `sectors-of-512`.
//!
//! Those of a warning: `unknown-field`, `newer-field`, `misspelt-field`, `special-mode-bits`, `hard-link-owner`,
//! `no-install-section`, and, of [`Document::read`] alone, `lost-field`. Of [`Config::left_to_machine`]:
//! `left-to-machine`.
//!
//! # Merging
//! Before a config can be built, many are made one: each is read as a [`Document`], which may still refer to other
//! configs and to contents elsewhere, and a [`Merger`] puts one over the other.

mod clean_path;
mod config;
mod content;
mod data_url;
mod disks;
mod document;
mod error;
mod file_defaults;
mod header;
mod left;
mod luks;
mod machine;
mod merge;
mod normalize;
mod object;
mod places;
mod remote_sources;
mod resource;
mod schema;
mod sink;
pub mod snapshot;
mod storage;
mod systemd;
mod unit_text;
mod upgrade;
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
pub use snapshot::{Contents, Reference, Resolution};
pub use version::{Spec, SpecV2, SpecVersion};

use mosb_types::Finding;
use normalize::normalize;
use object::Object;
use remote_sources::RemoteSources;
use sink::Sink;

/// A config that holds, and what its author may want to look at.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Parsed {
    /// The config.
    pub config: Config,
    /// Fields that mean nothing here and things that do nothing; the real Ignition warns of the same.
    pub warnings: Vec<Finding>,
}

/// Parses the raw object of `spec.config`.
///
/// # Errors
/// The spec version if it is none of [`SpecVersion::ALL`]; else everything that is wrong, with the place of each.
///
/// ```
/// let raw = serde_json::json!({
///     "ignition": { "version": "3.4.0" },
///     "storage": { "files": [{ "path": "/etc/motd", "contents": { "source": "data:,hello" } }] },
/// });
/// let parsed = mosb_ignition::parse(&raw)?;
/// assert_eq!(parsed.config.storage.files[0].contents.as_ref().unwrap().bytes(64)?, b"hello");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn parse(config: &serde_json::Value) -> Result<Parsed, Error> {
    let checked = check(config, header::version(config)?, RemoteSources::Refused)?;
    Ok(Parsed { config: checked.config, warnings: checked.warnings })
}

/// A valid config in both its forms.
struct Checked {
    /// Normalized by the table of its version.
    normalized: serde_json::Value,
    config: Config,
    warnings: Vec<Finding>,
}

/// Checks a config by the rules of `version`.
fn check(
    config: &serde_json::Value,
    version: SpecVersion,
    remote: RemoteSources,
) -> Result<Checked, Error> {
    let sink = Sink::new(version, remote);
    let normalized = normalize(config, &schema::SPEC3, &sink);
    let root = Object::root(&sink, &schema::SPEC3, &normalized);
    header::check(&root);
    let kernel_arguments = machine::kernel_arguments(&root);
    let passwd = machine::passwd(&root);
    let storage = storage::read(&root);
    let systemd = systemd::read(&root);
    // Indices in the lists below are those of the config only if no entry had to be left out.
    if root.is_readable() {
        places::check(&sink, &storage, &systemd);
    }
    let (problems, warnings) = sink.into_findings();
    if !problems.is_empty() {
        return Err(Error::Invalid { problems });
    }
    let config = Config { version, kernel_arguments, passwd, storage, systemd };
    Ok(Checked { normalized, config, warnings })
}
