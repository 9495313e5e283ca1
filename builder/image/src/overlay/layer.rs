//! The layer with the changes of an overlay.

use std::collections::BTreeMap;

use super::{Change, Meta, Node, Overlay};
use crate::path::TreePath;
use crate::tree::Kind;

/// One entry of the layer, in the order it is written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LayerEntry {
    /// A path that the build puts.
    Put(TreePath, Node),
    /// A directory of the base, repeated with the base's own mode and owner because something below
    /// it changes.
    Parent(TreePath, Meta),
    /// A path of the base that is removed (OCI image spec, layer, whiteouts).
    Whiteout(TreePath),
}

impl LayerEntry {
    pub fn path(&self) -> &TreePath {
        match self {
            Self::Put(path, _) | Self::Parent(path, _) | Self::Whiteout(path) => path,
        }
    }
}

impl Overlay<'_> {
    /// The entries of the layer: parents before their children, else in the order of the paths'
    /// bytes.
    ///
    /// Each parent directory has the base's own mode and owner. A path that is removed or changes
    /// its type gets a whiteout by name, which every importer supports, not an opaque directory.
    pub fn layer(&self) -> Vec<LayerEntry> {
        let mut entries: BTreeMap<(TreePath, bool), LayerEntry> = BTreeMap::new();
        for (path, change) in &self.changes {
            // Also below a removed directory: a layer adds to the base's directory, so each name
            // needs its whiteout.
            let in_base = self.base.get(path.relative());
            let is_whited_out = match (change.node(), &in_base) {
                (None, base) => base.is_some(),
                (Some(_), None) => false,
                (Some(node), Some(base)) => {
                    (base.kind == Kind::Directory) != matches!(node, Node::Directory { .. })
                }
            };
            if is_whited_out {
                entries.insert((path.clone(), false), LayerEntry::Whiteout(path.clone()));
            } else if let (Change::Replaced(Node::Directory { .. }), Some(_)) = (change, &in_base) {
                let base = self.base.children(path.relative());
                let child = |name| path.join(std::str::from_utf8(name).ok()?).ok();
                let children = base.iter().map(|(name, _)| child(name));
                // With a name that can't be written into a layer, the whole directory gets the
                // whiteout.
                let removed = match children.collect::<Option<Vec<_>>>() {
                    Some(children) => children,
                    None => vec![path.clone()],
                };
                for removed in removed {
                    if removed == *path || !self.changes.contains_key(&removed) {
                        entries.insert((removed.clone(), false), LayerEntry::Whiteout(removed));
                    }
                }
            }
            if let Some(node) = change.node() {
                entries.insert((path.clone(), true), LayerEntry::Put(path.clone(), node.clone()));
            }
            if is_whited_out || change.node().is_some() {
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
