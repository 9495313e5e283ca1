//! Ignition configs of spec 2.0.0 to 2.4.0, translated to the shape of spec 3.5.0.
//!
//! In comes the JSON value of a config, out comes one that says the same in spec 3.5.0: judged by the rules of its
//! own version first, as Ignition 0.35 judges it, and then by those of spec 3.5.0, and all that is wrong is told at
//! once in the words of the config as it was written. What spec 3 can't say is an error (`no-spec3-equal`), never
//! left out. The translation is field by field that of `docs/translation.md`.
//!
//! Entries that spec 2 takes twice, and spec 3 doesn't, become one where the first stands: of files, directories
//! and links the last counts, what is appended stays; of users, groups, units and drop-ins the last word on each
//! field, with the keys and groups of all.

mod disks;
mod filesystems;
mod header;
mod origins;
mod passwd;
mod repeated;
mod shape;
mod source;
mod storage;
mod systemd;

#[cfg(test)]
mod tests;

use serde_json::Value;

use super::error::Error;
use super::error::MAX_FINDINGS;
use super::fields::Object;
use super::remote_sources::RemoteSources;
use super::sink::{At, Sink};
use super::version::{Spec, SpecV2, SpecVersion};
use mosb_types::Finding;
use origins::Origins;

/// A config of spec 2 in the words of spec 3.5.0.
#[derive(Debug)]
pub(super) struct Translated {
    /// Only what was said: nothing null, no empty object or list. It may refer to other configs and remote contents.
    pub config: Value,
    /// What its author may want to look at, at the place where it was written.
    pub warnings: Vec<Finding>,
}

/// Translates a config of spec 2.
///
/// # Errors
/// [`Error::UnknownSpec`] if its version is none of [`SpecV2`]; else everything that is wrong.
pub(super) fn translate(config: &Value) -> Result<Translated, Error> {
    let spec = version(config)?;
    let sink = Sink::new(spec, RemoteSources::Allowed);
    let mut origins = Origins::default();
    let translated = read(config, &sink, &mut origins);
    // Without a value that had the wrong type, a rule may be broken that the author kept.
    let sound = sink.unread_so_far() == 0;
    let (mut problems, mut warnings) = sink.into_findings();
    if sound {
        let (mut found, odd) = judge(&translated, &origins);
        if origins.joined() {
            let mut apart = Origins::apart();
            let entries = read(config, &Sink::new(spec, RemoteSources::Allowed), &mut apart);
            let (mut more, _) = judge(&entries, &apart);
            more.retain(|problem| !BETWEEN_ENTRIES.contains(&problem.code.as_str()));
            found.append(&mut more);
        }
        for problem in found {
            if !problems.iter().any(|known| known.object == problem.object) {
                problems.push(problem);
            }
        }
        warnings.extend(odd);
        problems.truncate(MAX_FINDINGS);
        warnings.truncate(MAX_FINDINGS);
    }
    match problems.is_empty() {
        true => Ok(Translated { config: translated, warnings }),
        false => Err(Error::Invalid { problems }),
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

/// Problems that lie between two entries, and so are none of entries that are joined.
const BETWEEN_ENTRIES: [&str; 3] = ["duplicate", "link-in-the-way", "unit-in-the-way"];

/// Reads all sections by the rules of their version.
fn read(config: &Value, sink: &Sink, origins: &mut Origins) -> Value {
    let mut root = Object::new(sink, At::root(), config.as_object(), None);
    let fields = shape::object([
        ("ignition", header::read(&mut root, origins)),
        ("passwd", passwd::read(&mut root, origins)),
        ("storage", storage::read(&mut root, origins)),
        ("systemd", systemd::read(&mut root, origins)),
    ]);
    systemd::refuse_networkd(&mut root);
    root.finish();
    Value::Object(fields)
}

/// What spec 3.5.0 says of the translation, told of the config: problems and warnings.
fn judge(config: &Value, origins: &Origins) -> (Vec<Finding>, Vec<Finding>) {
    let relocate =
        |findings: Vec<Finding>| findings.into_iter().map(|f| origins.relocate(f)).collect();
    match super::judge(config, SpecVersion::V3_5, RemoteSources::Allowed) {
        Ok(parsed) => (vec![], relocate(parsed.warnings)),
        Err(Error::Invalid { problems }) => (relocate(problems), vec![]),
        Err(Error::OldSpec { .. } | Error::UnknownSpec { .. }) => {
            unreachable!("the version is given")
        }
    }
}
