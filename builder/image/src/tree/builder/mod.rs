//! Builds the tree of an image from its layers.
//!
//! Each layer is unpacked as the overlay snapshotters of containers/storage and containerd do, in a
//! directory of its own, and then laid over the ones below:
//! - A path through a symbolic link of the *same* layer leads where the link leads, never out of
//!   the root; one through a link or file of a *lower* layer puts a directory in its place.
//!   (ostree's importer refuses both; an unpacker that works on the finished tree follows both.) A
//!   loop of links is an error, as is a path through a file of the same layer.
//! - A directory on a directory changes its mode and owner; everything else replaces what was
//!   there, with all below it.
//! - A directory that no entry names keeps the mode and owner of the lower layer's, else it is 0755
//!   of root.
//! - Whiteouts and opaque directories hide only lower layers, at any position in the layer (OCI
//!   image spec, layer).
//! - A hard link is another name of an inode of any layer, also of a symbolic link; its target may
//!   be a later entry.
//!
//! A directory's path is resolved once for all its entries; the steps of all paths are counted and
//! limited, so that circular links with long targets end in an error.

mod walk;

use std::cell::Cell;
use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::mem;
use std::sync::Arc;

use super::node_id::{InodeId, NodeId, ROOT};
use super::symlink::{self, split};
use super::{Kind, OwnedEntry};
use crate::Digest;
use crate::hidden::Hidden;
use crate::layer::{Delta, EntryError, Error, Event, MAX_ENTRIES, MAX_LAYERS, Put};

/// Maximum number of paths of an image, with directories that have no entry.
const MAX_PATHS: u64 = MAX_ENTRIES;
/// Maximum number of components of paths and link targets that are looked up for an image. The
/// largest base
/// of `docs/performance.md` needs less than a million, and paths without links need at most half of
/// their bytes.
pub(super) const MAX_PATH_STEPS: u64 = 64 << 20;

/// The tree of the layers so far.
#[derive(Debug)]
pub struct Builder {
    pub(super) nodes: Vec<Node>,
    free: Vec<NodeId>,
    pub(super) inodes: Vec<Inode>,
    pending: Vec<InodeId>,
    pub(super) layers: Vec<Digest>,
    /// The directories of this layer's entries.
    parents: Directories,
    /// The directories of the targets of hard links.
    targets: Directories,
    /// The components looked up so far.
    steps: Cell<u64>,
}

/// Directories by path, valid until a node that a path may lead through is removed.
type Directories = HashMap<Box<[u8]>, NodeId>;

/// A name in a directory.
#[derive(Debug)]
pub(super) struct Node {
    inode: InodeId,
    /// The last layer that had an entry here or below.
    layer: u16,
    pub(super) children: BTreeMap<Box<[u8]>, NodeId>,
}

/// Beside the permission bits, because there are many inodes.
const HAS_XATTRS: u16 = 1 << 15;

#[derive(Clone)]
pub(super) struct Inode {
    pub(super) state: State,
    /// Permission bits, and [`HAS_XATTRS`].
    mode: u16,
    /// The layer's position in the image, counted from 1; 0 for a directory without entry.
    pub(super) layer: u16,
    /// The number of its entry within the layer.
    pub(super) entry: u32,
    pub(super) uid: u32,
    pub(super) gid: u32,
    pub(super) size: u64,
    /// Target of a symbolic link, content of a file, target of a pending hard link.
    pub(super) bytes: Option<Arc<[u8]>>,
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
pub(super) enum State {
    Here(Kind),
    /// A hard link whose target isn't there yet.
    Pending,
    /// A hard link that was pending, and its inode.
    Same(InodeId),
}

impl Default for Builder {
    fn default() -> Self {
        let root = Inode::directory(0);
        Self {
            nodes: vec![Node::new(0, 0)],
            free: Vec::new(),
            inodes: vec![root],
            pending: Vec::new(),
            layers: Vec::new(),
            parents: Directories::new(),
            targets: Directories::new(),
            steps: Cell::new(0),
        }
    }
}

impl Node {
    fn new(inode: InodeId, layer: u16) -> Self {
        Self { inode, layer, children: BTreeMap::new() }
    }
}

impl Inode {
    fn of(put: Put, layer: u16, entry: u32) -> Self {
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

    pub(super) fn mode(&self) -> u32 {
        u32::from(self.mode & 0o7777)
    }

    /// Whether it has extended attributes other than its SELinux label.
    pub(super) fn has_xattrs(&self) -> bool {
        self.mode & HAS_XATTRS != 0
    }

    fn directory(layer: u16) -> Self {
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
    /// Adds the next layer.
    ///
    /// # Errors
    /// If an entry can't be unpacked, or there are too many.
    pub fn apply(&mut self, delta: &Delta) -> Result<(), Error> {
        let layer = *delta.layer();
        let limit = |cause| Error::Limit { layer, cause };
        self.layers.push(layer);
        let count = self.layers.len();
        let at = u16::try_from(count).ok();
        let at = at.filter(|_| count <= MAX_LAYERS).ok_or_else(|| {
            limit(EntryError::TooMuch {
                what: "layers",
                limit: MAX_LAYERS as u64,
                found: count as u64,
            })
        })?;
        self.parents = Directories::new();
        delta
            .each(|entry, path, event| self.entry(at, entry, path, event))
            .map_err(|(entry, cause)| Error::Entry { layer, entry, cause })?;
        self.settle().map_err(limit)
    }

    /// Counts the steps of paths.
    pub(super) fn count_steps(&self, steps: usize) {
        let steps = self.steps.get().saturating_add(steps as u64);
        self.steps.set(steps);
    }

    /// Whether there were too many; then nothing more is looked up.
    pub(super) fn check_steps(&self) -> Result<(), EntryError> {
        let found = self.steps.get();
        if found > MAX_PATH_STEPS {
            return Err(EntryError::TooMuch {
                what: "components of paths and links to look up",
                limit: MAX_PATH_STEPS,
                found,
            });
        }
        Ok(())
    }

    fn entry(
        &mut self,
        layer: u16,
        entry: u32,
        path: &[u8],
        event: Event<'_>,
    ) -> Result<(), EntryError> {
        let found = self.nodes.len().max(self.inodes.len()) as u64;
        if found > MAX_PATHS {
            return Err(EntryError::TooMuch {
                what: "paths in all layers",
                limit: MAX_PATHS,
                found,
            });
        }
        self.lay(layer, entry, path, event)?;
        self.check_steps()
    }

    fn lay(
        &mut self,
        layer: u16,
        entry: u32,
        path: &[u8],
        event: Event<'_>,
    ) -> Result<(), EntryError> {
        let inode = match event {
            Event::Put(put) => Inode::of(put, layer, entry),
            Event::Link { to } => return self.link(layer, entry, path, to),
            Event::Whiteout => {
                self.white_out(layer, path);
                return Ok(());
            }
            Event::Opaque => {
                if let Some(node) = self.find(path, Some(layer)) {
                    self.hide_below(layer, node);
                }
                return Ok(());
            }
        };
        if path.is_empty() {
            // The root can't be replaced; its entry sets mode and owner.
            if inode.state == State::Here(Kind::Directory) {
                self.inodes[ROOT as usize] = inode;
            }
            return Ok(());
        }
        let (parent, name) = self.parent(layer, path)?;
        let old = self.child(parent, name);
        let directory = State::Here(Kind::Directory);
        match old {
            Some(old) if inode.state == directory && self.state(old) == directory => {
                let at = self.nodes[old as usize].inode;
                self.inodes[at as usize] = inode;
                self.nodes[old as usize].layer = layer;
            }
            Some(_) | None => {
                let inode = self.add_inode(inode);
                self.place(layer, parent, name, inode);
            }
        }
        Ok(())
    }

    fn link(&mut self, layer: u16, entry: u32, path: &[u8], to: &[u8]) -> Result<(), EntryError> {
        let inode = match self.find_target(to) {
            Some(node) if self.state(node) == State::Here(Kind::Directory) => {
                return Err(EntryError::LinkToDirectory(symlink::lossy(to)));
            }
            Some(node) => self.nodes[node as usize].inode,
            None => {
                let inode = self.add_inode(Inode {
                    state: State::Pending,
                    entry,
                    bytes: Some(to.into()),
                    ..Inode::directory(layer)
                });
                self.pending.push(inode);
                inode
            }
        };
        let (parent, name) = self.parent(layer, path)?;
        match self.child(parent, name) {
            Some(old) if self.nodes[old as usize].inode == inode => {
                self.nodes[old as usize].layer = layer;
            }
            Some(_) | None => {
                self.place(layer, parent, name, inode);
            }
        }
        Ok(())
    }

    /// Resolves pending hard links whose targets are there now.
    fn settle(&mut self) -> Result<(), EntryError> {
        for inode in mem::take(&mut self.pending) {
            let to = self.inodes[inode as usize].bytes.clone().unwrap_or_default();
            let found = self.find(&to, None).map(|node| self.resolved(node));
            match found {
                Some(found)
                    if found != inode
                        && self.inodes[found as usize].state != State::Here(Kind::Directory) =>
                {
                    self.inodes[inode as usize].state = State::Same(found);
                }
                Some(_) | None => self.pending.push(inode),
            }
            self.check_steps()?;
        }
        Ok(())
    }

    /// The inode of a node, through hard links that were pending. Each refers to an earlier state,
    /// so there is no loop.
    pub(super) fn resolved(&self, node: NodeId) -> InodeId {
        let mut inode = self.nodes[node as usize].inode;
        while let State::Same(other) = self.inodes[inode as usize].state {
            self.count_steps(1);
            inode = other;
        }
        inode
    }

    pub(super) fn state(&self, node: NodeId) -> State {
        self.inodes[self.resolved(node) as usize].state
    }

    fn child(&self, directory: NodeId, name: &[u8]) -> Option<NodeId> {
        self.nodes[directory as usize].children.get(name).copied()
    }

    fn add_inode(&mut self, inode: Inode) -> InodeId {
        self.inodes.push(inode);
        (self.inodes.len() - 1) as InodeId
    }

    /// Puts an inode into a directory, and replaces the node of that name.
    fn place(&mut self, layer: u16, parent: NodeId, name: &[u8], inode: InodeId) -> NodeId {
        if let Some(old) = self.child(parent, name) {
            self.drop_node(parent, name, old);
        }
        let node = Node::new(inode, layer);
        let id = match self.free.pop() {
            Some(id) => {
                self.nodes[id as usize] = node;
                id
            }
            None => {
                self.nodes.push(node);
                (self.nodes.len() - 1) as NodeId
            }
        };
        self.nodes[parent as usize].children.insert(name.into(), id);
        id
    }

    fn drop_node(&mut self, parent: NodeId, name: &[u8], node: NodeId) {
        match self.state(node) {
            // No directory's path leads through it.
            State::Here(Kind::File | Kind::Other) => {}
            State::Here(Kind::Directory | Kind::Symlink) | State::Pending | State::Same(_) => {
                // New maps, because clearing one takes as long as its largest size.
                self.parents = Directories::new();
                self.targets = Directories::new();
            }
        }
        self.nodes[parent as usize].children.remove(name);
        let mut removed = vec![node];
        while let Some(node) = removed.pop() {
            removed.extend(mem::take(&mut self.nodes[node as usize].children).into_values());
            self.free.push(node);
        }
    }

    fn white_out(&mut self, layer: u16, path: &[u8]) {
        let (above, name) = split(path);
        let Some(parent) = self.find_directory(above, Some(layer)) else {
            return;
        };
        match self.child(parent, name) {
            Some(node) if self.nodes[node as usize].layer == layer => self.hide_below(layer, node),
            Some(node) => self.drop_node(parent, name, node),
            None => {}
        }
    }

    /// Removes the nodes of lower layers below a node.
    fn hide_below(&mut self, layer: u16, node: NodeId) {
        let mut todo = vec![node];
        while let Some(node) = todo.pop() {
            self.count_steps(self.nodes[node as usize].children.len());
            let children: Vec<_> = self.nodes[node as usize]
                .children
                .iter()
                .map(|(name, child)| (name.clone(), *child))
                .collect();
            for (name, child) in children {
                if self.nodes[child as usize].layer == layer {
                    todo.push(child);
                } else {
                    self.drop_node(node, &name, child);
                }
            }
        }
    }

    /// Puts an entry at its path if its parent is a directory. For trees that aren't built from
    /// layers.
    pub(super) fn insert(&mut self, path: &[Vec<u8>], entry: OwnedEntry) {
        let inode = Inode {
            state: State::Here(entry.kind),
            mode: (entry.mode & 0o7777) as u16,
            layer: 0,
            entry: 0,
            uid: entry.uid,
            gid: entry.gid,
            size: entry.size,
            bytes: match entry.kind {
                Kind::Symlink => Some(entry.target.unwrap_or_default().into()),
                Kind::File => entry.content.map(Into::into),
                Kind::Directory | Kind::Other => None,
            },
        };
        let Some((name, above)) = path.split_last() else {
            self.inodes[ROOT as usize] = inode;
            return;
        };
        if path.iter().any(|name| name.len() > symlink::MAX_NAME_LEN) {
            return;
        }
        let mut here = ROOT;
        for component in above {
            here = match self.child(here, component) {
                Some(next) if self.state(next) == State::Here(Kind::Directory) => next,
                Some(_) => return,
                None => {
                    let inode = self.add_inode(Inode::directory(0));
                    self.place(0, here, component, inode)
                }
            };
        }
        let inode = self.add_inode(inode);
        self.place(0, here, name, inode);
    }
}

#[cfg(test)]
mod tests;
