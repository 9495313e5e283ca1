//! Merging configs, as Ignition 2.26 merges those of spec 3.5.0, or of 3.6.0 if one of them is: a later one's words count.
//!
//! Objects are merged field by field, and a field that the later config doesn't say stays. Entries of lists are
//! merged with the one that has their key, and take its place; new ones follow. A file, directory or link takes away
//! what another list has at its path, and a kernel argument is either wanted or unwanted. Options of tools and parts
//! to append are just added. [`super::schema`] says which list is which.
//!
//! Other than in Ignition, contents of a file or key that give a source bring all that belongs to it: neither the compression nor the
//! hash nor the headers of an earlier source are left, with which no machine could read them.
//!
//! Setuid, setgid and sticky mean nothing before 3.6.0. So a mode of an older config loses them where the result is one
//! of 3.6.0; else it stays as it was written.
//!
//! The work is linear in the length of all configs: what was merged so far is kept in parts, with an index for each
//! list, and only what a later config touches is taken apart.

mod list;
mod node;
mod origin;
mod provenance;
mod special_bits;

#[cfg(test)]
mod properties;
#[cfg(test)]
mod tests;

use std::fmt;

use serde_json::{Value, json};

use super::document::Document;
use super::schema::{Kind, SPEC3};
use super::version::SpecVersion;
use node::Node;
use origin::AddedConfig;
pub use provenance::Provenance;
use special_bits::SpecialBits;

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
/// Its `Debug` shows nothing of what is merged, for contents may be secret.
pub struct Merger {
    config: Node,
    explaining: bool,
    version: SpecVersion,
    special_bits: SpecialBits,
}

/// The one config that came out.
#[derive(Debug, Clone, PartialEq)]
pub struct Merged {
    /// The config. It may break rules that each of its parts kept: [`super::parse`] judges it.
    pub document: Document,
    /// Where all that it says comes from, in the order of the config; empty unless [`Merger::explaining`].
    pub provenance: Vec<Provenance>,
}

impl Merger {
    /// Nothing is merged yet.
    pub fn new() -> Self {
        Self {
            config: Node::empty(),
            explaining: false,
            version: SpecVersion::USUAL,
            special_bits: SpecialBits::default(),
        }
    }

    /// The same, and [`Merged::provenance`] will be told.
    pub fn explaining() -> Self {
        Self { explaining: true, ..Self::new() }
    }

    /// Merges a config over all those before. `origin` is whatever the caller calls it by.
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

    /// The config that all of them make.
    pub fn finish(self) -> Merged {
        let provenance = match self.explaining {
            true => provenance::of(&self.config),
            false => Vec::new(),
        };
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
