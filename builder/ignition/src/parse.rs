//! Validates a config: from JSON to its two forms, the normalized and the typed one.

use serde_json::Value;

use mosb_types::Finding;

use crate::config::{Config, KernelArguments, Passwd};
use crate::error::Error;
use crate::normalize::normalize;
use crate::object::{Object, RemoteSources};
use crate::schema::SPEC3;
use crate::sink::Sink;
use crate::version::SpecVersion;
use crate::{header, places, storage, systemd};

/// A valid config and its warnings.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Parsed {
    pub config: Config,
    /// Ignored fields, and settings without effect; Ignition warns of the same.
    pub warnings: Vec<Finding>,
}

/// Parses the raw object of `spec.config`.
///
/// # Errors
/// The spec version if it is none of [`SpecVersion::ALL`]; else all problems with their places.
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
pub fn parse(config: &Value) -> Result<Parsed, Error> {
    let checked = check(config, header::version(config)?, RemoteSources::Rejected)?;
    Ok(Parsed { config: checked.config, warnings: checked.warnings })
}

/// A valid config in both its forms.
pub(super) struct Checked {
    /// Normalized by the table of its version.
    pub normalized: Value,
    pub config: Config,
    pub warnings: Vec<Finding>,
}

/// Checks a config by the rules of `version`.
pub(super) fn check(
    config: &Value,
    version: SpecVersion,
    remote: RemoteSources,
) -> Result<Checked, Error> {
    let sink = Sink::new(version, remote);
    let normalized = normalize(config, &SPEC3, &sink);
    let root = Object::root(&sink, &SPEC3, &normalized);
    header::check(&root);
    let kernel_arguments = kernel_arguments(&root);
    let passwd = passwd_names(&root);
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

/// Reads the section `kernelArguments`.
pub(super) fn kernel_arguments(root: &Object<'_, '_>) -> KernelArguments {
    let arguments = root.object("kernelArguments");
    let owned = |key| arguments.texts(key).into_iter().map(str::to_owned).collect();
    KernelArguments {
        should_exist: owned("shouldExist"),
        should_not_exist: owned("shouldNotExist"),
    }
}

/// Reads the section `passwd`.
pub(super) fn passwd_names(root: &Object<'_, '_>) -> Passwd {
    let passwd = root.object("passwd");
    let name = |o: &Object<'_, '_>| o.text("name").unwrap_or_default().to_owned();
    Passwd { users: passwd.each("users", name), groups: passwd.each("groups", name) }
}
