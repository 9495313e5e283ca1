//! Names and inodes of a tree that is built.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use super::Builder;
use crate::hidden::Hidden;
use crate::layer::Put;
use crate::tree::{BaseTree, FrozenError, InodeId, Kind, NodeId, ROOT};

/// A name in a directory.
#[derive(Debug)]
pub(in crate::tree) struct Node {
    pub(super) inode: InodeId,
    /// The directory that it is in; of the root, the root.
    pub(in crate::tree) parent: NodeId,
    /// The last layer that had an entry here or below.
    pub(super) layer: u16,
    pub(in crate::tree) children: BTreeMap<Box<[u8]>, NodeId>,
}

/// Beside the permission bits, because there are many inodes.
const HAS_XATTRS: u16 = 1 << 15;
/// The same: a file whose content can't be read again.
const UNREADABLE: u16 = 1 << 14;

#[derive(Clone)]
pub(in crate::tree) struct Inode {
    pub(in crate::tree) state: State,
    /// Permission bits, [`HAS_XATTRS`] and [`UNREADABLE`].
    pub(super) mode: u16,
    /// The layer's position in the image, counted from 1; 0 for a directory without entry.
    pub(in crate::tree) layer: u16,
    /// The number of its entry within the layer.
    pub(in crate::tree) entry: u32,
    pub(in crate::tree) uid: u32,
    pub(in crate::tree) gid: u32,
    pub(in crate::tree) size: u64,
    /// Target of a symbolic link, content of a file, target of a pending hard link.
    pub(in crate::tree) bytes: Option<Arc<[u8]>>,
}

impl fmt::Debug for Inode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let bytes = Hidden::of(self.bytes.as_deref());
        let mut inode = f.debug_struct("Inode");
        inode.field("state", &self.state).field("mode", &self.mode()).field("bytes", &bytes);
        inode.finish_non_exhaustive()
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::tree) enum State {
    Here(Kind),
    /// A hard link whose target isn't there yet.
    Pending,
    /// A hard link that was pending, and its inode.
    Same(InodeId),
}

impl Node {
    pub(super) fn new(inode: InodeId, layer: u16, parent: NodeId) -> Self {
        Self { inode, parent, layer, children: BTreeMap::new() }
    }
}

impl Inode {
    pub(super) fn of(put: Put, layer: u16, entry: u32) -> Self {
        Self {
            state: State::Here(put.kind),
            mode: (put.mode & 0o7777) as u16 | if put.has_xattrs { HAS_XATTRS } else { 0 },
            layer,
            entry,
            uid: put.uid,
            gid: put.gid,
            size: put.size,
            bytes: put.bytes,
        }
    }

    pub(in crate::tree) fn mode(&self) -> u32 {
        u32::from(self.mode & 0o7777)
    }

    /// Whether it has extended attributes other than its SELinux label.
    pub(in crate::tree) fn has_xattrs(&self) -> bool {
        self.mode & HAS_XATTRS != 0
    }

    /// Whether it is a file of a tree that doesn't have its content, so that no layer is known which
    /// has it.
    pub(in crate::tree) fn is_unreadable(&self) -> bool {
        self.mode & UNREADABLE != 0
    }

    pub(super) fn set_unreadable(&mut self) {
        self.mode |= UNREADABLE;
    }

    pub(super) fn directory(layer: u16) -> Self {
        Self {
            state: State::Here(Kind::Directory),
            mode: 0o755,
            layer,
            entry: 0,
            uid: 0,
            gid: 0,
            size: 0,
            bytes: None,
        }
    }
}

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
