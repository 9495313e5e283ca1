//! Merges configs, as Ignition 2.26 does for spec 3.5.0, or 3.6.0 if one of them has it: later
//! configs override earlier ones.
//!
//! Objects are merged field by field; fields that the later config doesn't set remain. An entry of
//! a list is merged with the one that has its key, in place; new ones are appended. A file,
//! directory or link removes the entry of another list at its path, and a kernel argument is in
//! only one of its two lists. Options of tools and parts to append are concatenated.
//! [`super::schema`] has the kind of each list.
//!
//! Unlike in Ignition, contents with a source replace the earlier contents as a whole: with the
//! compression, hash or headers of another source no machine could read them.
//!
//! Setuid, setgid and sticky have no effect before 3.6.0. So they are removed from modes of older
//! configs if the result has 3.6.0; else modes are unchanged.
//!
//! The work is linear in the length of all configs: the merged config is a tree with an index for
//! each list, and only parts that a later config changes are split.

mod node;
mod provenance;

#[cfg(test)]
mod properties;
#[cfg(test)]
mod tests;

use std::collections::BTreeSet;
use std::fmt;

use serde_json::{Value, json};

use crate::document::Document;
use crate::schema::{Kind, SPEC3};
use crate::version::SpecVersion;
use node::Node;
use provenance::AddedConfig;

pub use provenance::Provenance;

/// Merges configs, one after the other.
///
/// ```
/// use mosb_ignition::{Document, Merger};
/// let file = |mode: u32| {
///     let file = serde_json::json!({ "path": "/etc/motd", "mode": mode });
///     let config = serde_json::json!({ "ignition": { "version": "3.5.0" }, "storage": { "files": [file] } });
///     Document::read(&config).map(|read| read.document)
/// };
/// let mut merger = Merger::explaining();
/// merger.add(0, file(0o600)?);
/// merger.add(1, file(0o644)?);
/// let merged = merger.finish();
/// assert_eq!(merged.document, file(0o644)?);
/// let mode = &merged.provenance[1];
/// assert_eq!((mode.place.as_str(), mode.from, mode.overrides.as_slice()), ("storage.files[/etc/motd].mode", 1, &[0][..]));
/// # Ok::<(), mosb_ignition::Error>(())
/// ```
///
/// `Debug` shows nothing of the configs, because contents may be secret.
pub struct Merger {
    config: Node,
    explaining: bool,
    version: SpecVersion,
    special_bits: SpecialBits,
}

/// The result of a merge.
#[derive(Debug, Clone, PartialEq)]
pub struct Merged {
    /// It may be invalid even if each input is valid: check it by [`super::parse()`].
    pub document: Document,
    /// The origin of each value, in the order of the config; empty unless [`Merger::explaining`].
    pub provenance: Vec<Provenance>,
}

impl Merger {
    pub fn new() -> Self {
        Self {
            config: Node::empty(),
            explaining: false,
            version: SpecVersion::USUAL,
            special_bits: SpecialBits::default(),
        }
    }

    /// A merger that records [`Merged::provenance`].
    pub fn explaining() -> Self {
        Self { explaining: true, ..Self::new() }
    }

    /// Merges a config over all those before. `origin` is the caller's number for it.
    pub fn add(&mut self, origin: usize, document: Document) {
        let version = document.version();
        self.version = self.version.max(version);
        let mut config = document.into_json();
        self.special_bits.note(&config, version);
        if let Some(ignition) = config.get_mut("ignition").and_then(Value::as_object_mut) {
            // It is that of the newest.
            ignition.remove("version");
        }
        let added = AddedConfig { origin, explaining: self.explaining };
        self.config.add(Kind::Object(&SPEC3), config, added);
    }

    pub fn finish(self) -> Merged {
        let provenance = if self.explaining { provenance::of(&self.config) } else { Vec::new() };
        let mut config = self.config.into_value().unwrap_or(json!({}));
        config["ignition"]["version"] = self.version.as_str().into();
        if self.version >= SpecVersion::V3_6 {
            self.special_bits.drop_from(&mut config);
        }
        Merged { document: Document(config), provenance }
    }
}

impl fmt::Debug for Merger {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut shown = f.debug_struct("Merger");
        shown.field("explaining", &self.explaining);
        shown.finish_non_exhaustive()
    }
}

impl Default for Merger {
    fn default() -> Self {
        Self::new()
    }
}

/// The lists whose entries have modes.
const LISTS: [&str; 2] = ["files", "directories"];
const PERMISSIONS: u64 = 0o777;

/// The files and directories whose mode so far has bits that its spec drops.
#[derive(Debug, Default)]
struct SpecialBits(BTreeSet<(&'static str, String)>);

impl SpecialBits {
    /// Notes the modes of a config that is merged over those before.
    pub fn note(&mut self, config: &Value, version: SpecVersion) {
        for list in LISTS {
            let entries = config["storage"][list].as_array().into_iter().flatten();
            for entry in entries {
                let (Some(mode), Some(path)) = (entry["mode"].as_u64(), entry["path"].as_str())
                else {
                    continue;
                };
                let dropped = version < SpecVersion::V3_6 && mode & !PERMISSIONS != 0;
                if dropped {
                    self.0.insert((list, path.to_owned()));
                } else if !self.0.is_empty() {
                    self.0.remove(&(list, path.to_owned()));
                }
            }
        }
    }

    /// Removes these bits from the merged config, where they would have an effect.
    pub fn drop_from(&self, config: &mut Value) {
        if self.0.is_empty() {
            return;
        }
        for list in LISTS {
            let entries = config.pointer_mut(&format!("/storage/{list}"));
            let entries = entries.and_then(Value::as_array_mut).into_iter().flatten();
            for entry in entries {
                let path = entry["path"].as_str().unwrap_or_default().to_owned();
                if let Some(mode) = entry["mode"].as_u64()
                    && self.0.contains(&(list, path))
                {
                    entry["mode"] = (mode & PERMISSIONS).into();
                }
            }
        }
    }
}
