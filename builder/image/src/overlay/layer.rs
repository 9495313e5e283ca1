//! The layer that makes the changes of an overlay.

use std::collections::BTreeMap;

use super::{Change, Meta, Node, Overlay};
use crate::path::TreePath;
use crate::tree::Kind;

/// One entry of the layer, in the order it is written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LayerEntry {
    /// A path that the build puts.
    Put(TreePath, Node),
    /// A directory of the base, repeated with the base's own mode and owner because something below it changes.
    Parent(TreePath, Meta),
    /// A path of the base that is gone (OCI image spec, layer, whiteouts).
    Whiteout(TreePath),
}

impl LayerEntry {
    /// The path it is about.
    pub fn path(&self) -> &TreePath {
        match self {
            Self::Put(path, _) | Self::Parent(path, _) | Self::Whiteout(path) => path,
        }
    }
}

impl Overlay<'_> {
    /// The entries of the layer, parents before what they hold, everything else in the order of the paths' bytes.
    ///
    /// Each parent directory comes with the base's own mode and owner. What is gone or changes its type is whited out by
    /// name, which every importer knows, rather than by an opaque directory.
    pub fn layer(&self) -> Vec<LayerEntry> {
        let mut entries: BTreeMap<(TreePath, bool), LayerEntry> = BTreeMap::new();
        for (path, change) in &self.changes {
            // Also below a directory that was wiped: a layer only adds to what the base has there, so each name counts.
            let in_base = self.base.get(path.relative());
            let vanished = match (change.node(), &in_base) {
                (None, base) => base.is_some(),
                (Some(_), None) => false,
                (Some(node), Some(base)) => {
                    (base.kind == Kind::Directory) != matches!(node, Node::Directory { .. })
                }
            };
            if vanished {
                entries.insert((path.clone(), false), LayerEntry::Whiteout(path.clone()));
            } else if let (Change::Replaced(Node::Directory { .. }), Some(_)) = (change, &in_base) {
                let base = self.base.children(path.relative());
                let child = |name| path.join(std::str::from_utf8(name).ok()?).ok();
                let children = base.iter().map(|(name, _)| child(name));
                // A name that can't be written into a layer goes with the whole directory.
                let gone = match children.collect::<Option<Vec<_>>>() {
                    Some(children) => children,
                    None => vec![path.clone()],
                };
                for gone in gone {
                    if gone == *path || !self.changes.contains_key(&gone) {
                        entries.insert((gone.clone(), false), LayerEntry::Whiteout(gone));
                    }
                }
            }
            if let Some(node) = change.node() {
                entries.insert((path.clone(), true), LayerEntry::Put(path.clone(), node.clone()));
            }
            if vanished || change.node().is_some() {
                for above in path
                    .ancestors()
                    .filter(|above| !above.is_root() && !self.changes.contains_key(above))
                {
                    if let Some(found) = self.get(&above) {
                        entries
                            .insert((above.clone(), true), LayerEntry::Parent(above, found.meta));
                    }
                }
            }
        }
        entries.into_values().collect()
    }
}
