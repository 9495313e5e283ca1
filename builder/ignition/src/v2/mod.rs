//! Ignition configs of spec 2.0.0 to 2.4.0, translated to the shape of spec 3.5.0.
//!
//! Input: the JSON value of a config. Output: the same config in spec 3.5.0. It is checked by the
//! rules of its own version first, as Ignition 0.35 does it, and then by those of spec 3.5.0; all
//! problems are reported at once with the places of the original. A field without equivalent in
//! spec 3 is an error (`no-spec3-equal`), never dropped. The translation of each field is in
//! `docs/translation.md`.
//!
//! Duplicates, which are valid only in spec 2, are joined at the place of the first: of files,
//! directories and links the last one is used, with all appended contents; of users, groups, units
//! and drop-ins later fields override earlier ones, and all keys and groups are united.

mod disks;
mod filesystems;
mod header;
mod origins;
mod passwd;
mod repeated;
mod shape;
mod storage;
mod systemd;

#[cfg(test)]
mod tests;

use serde_json::{Value, json};

use super::error::{Error, MAX_FINDINGS};
use super::normalize::normalize;
use super::object::Object;
use super::parse::Checked;
use super::schema::SPEC2;
use super::sink::Sink;
use super::version::{Spec, SpecV2, SpecVersion};
use crate::object::RemoteSources;
use mosb_types::Finding;
use origins::Origins;

/// A config of spec 2, translated.
#[derive(Debug)]
pub(super) struct Translated {
    /// A normalized config of spec 3.5.0. It may refer to other configs and remote contents.
    pub config: Value,
    /// With the places of the original.
    pub warnings: Vec<Finding>,
}

/// Translates a config of spec 2.
///
/// # Errors
/// [`Error::UnknownSpec`] if its version is none of [`SpecV2`]; else all problems.
pub(super) fn translate(config: &Value) -> Result<Translated, Error> {
    let version = version(config)?;
    let sink = Sink::new(version, RemoteSources::Allowed);
    let normalized = normalize(config, &SPEC2, &sink);
    let mut origins = Origins::default();
    let translation = translate_sections(&normalized, &sink, &mut origins);
    let is_readable = sink.unreadable() == 0;
    let (mut problems, mut warnings) = sink.into_findings();
    // Without the values of wrong types, the translation may break rules that the original config
    // meets.
    if !is_readable {
        return Err(Error::Invalid { problems });
    }
    let checked = check(&translation, &origins);
    let mut found = checked.as_ref().err().cloned().unwrap_or_default();
    if origins.joined() {
        let mut apart = Origins::apart();
        let sink = Sink::new(version, RemoteSources::Allowed);
        let entries = translate_sections(&normalized, &sink, &mut apart);
        let more = check(&entries, &apart).err().unwrap_or_default();
        let of_one_entry = |p: &Finding| !BETWEEN_ENTRIES.contains(&p.code.as_str());
        found.extend(more.into_iter().filter(of_one_entry));
    }
    for problem in found {
        if !problems.iter().any(|known| known.object == problem.object) {
            problems.push(problem);
        }
    }
    problems.truncate(MAX_FINDINGS);
    match checked {
        Ok(checked) if problems.is_empty() => {
            warnings.extend(checked.warnings);
            warnings.truncate(MAX_FINDINGS);
            Ok(Translated { config: checked.normalized, warnings })
        }
        _ => Err(Error::Invalid { problems }),
    }
}

fn version(config: &Value) -> Result<SpecV2, Error> {
    match super::header::spec(config)? {
        Spec::V2(version) => Ok(version),
        Spec::V3(version) => Err(Error::UnknownSpec {
            found: version.to_string(),
            accepted: "2.0.0 to 2.4.0".to_owned(),
        }),
    }
}

/// Problems between two entries, which entries that are joined don't have.
const BETWEEN_ENTRIES: [&str; 3] = ["duplicate", "link-in-the-way", "unit-in-the-way"];

/// A config of spec 3.5.0, in which a field that is not set may be null.
fn translate_sections(config: &Value, sink: &Sink, origins: &mut Origins) -> Value {
    let root = Object::root(sink, &SPEC2, config);
    let translation = json!({
        "ignition": header::translate(&root, origins),
        "passwd": passwd::translate(&root, origins),
        "storage": storage::translate(&root, origins),
        "systemd": systemd::translate(&root, origins),
    });
    systemd::refuse_networkd(&root);
    translation
}

/// Checks the translation by the rules of spec 3.5.0. Problems and warnings have the places of the
/// original.
fn check(config: &Value, origins: &Origins) -> Result<Checked, Vec<Finding>> {
    let relocate =
        |findings: Vec<Finding>| findings.into_iter().map(|f| origins.relocate(f)).collect();
    match super::parse::check(config, SpecVersion::V3_5, RemoteSources::Allowed) {
        Ok(checked) => Ok(Checked { warnings: relocate(checked.warnings), ..checked }),
        Err(Error::Invalid { problems }) => Err(relocate(problems)),
        Err(Error::OldSpec { .. } | Error::UnknownSpec { .. }) => {
            unreachable!("the version is given")
        }
    }
}
