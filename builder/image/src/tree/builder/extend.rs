//! Starts from the tree of an image, so that only the layers on top of it are read.

use std::collections::BTreeMap;

use super::inode::{Inode, Node, State};
use super::{Builder, Kind};
use crate::tree::node_id::{NodeId, ROOT};
use crate::tree::{BaseTree, FrozenError};

impl Builder {
    /// A builder that has this tree; the layers to add are counted from the first one on top of it.
    ///
    /// A tree has fewer facts than the layers that it was made of: which files are hard links of each
    /// other, which have extended attributes, and contents that it doesn't retain. So a file whose
    /// content is not in this tree has none in the finished tree either, whatever the layers on top do
    /// to its names. Paths, types, modes, owners, sizes and targets are those of all layers.
    ///
    /// # Errors
    /// A tree that was not written by a builder.
    pub fn on(tree: &BaseTree) -> Result<Self, FrozenError> {
        let mut builder = Self::default();
        builder.nodes.clear();
        builder.inodes.clear();
        let mut parents = vec![ROOT; tree.paths()];
        tree.each_node(|frozen| {
            let entry = frozen.entry;
            let bytes = match entry.kind {
                Kind::Symlink => entry.target,
                Kind::File => frozen.content,
                Kind::Directory | Kind::Other => None,
            };
            let mut inode = Inode {
                state: State::Here(entry.kind),
                mode: (entry.mode & 0o7777) as u16,
                layer: 0,
                entry: 0,
                uid: entry.uid,
                gid: entry.gid,
                size: entry.size,
                bytes: bytes.map(Into::into),
            };
            if entry.kind == Kind::File && inode.bytes.is_none() {
                inode.set_unreadable();
            }
            let id = builder.inodes.len() as NodeId;
            let mut node = Node::new(id, 0, parents[id as usize]);
            node.children = frozen.children.collect::<BTreeMap<_, _>>();
            for child in node.children.values() {
                parents[*child as usize] = id;
            }
            builder.inodes.push(inode);
            builder.nodes.push(node);
        })?;
        Ok(builder)
    }
}
