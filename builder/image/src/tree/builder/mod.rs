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
//! A directory's path is resolved once for all its entries, and a link once for all paths through it;
//! the steps of all paths are counted and limited, so that what resolves them again and again, as
//! circular links or the replacement of links, ends in an error.

mod hard_link;
mod inode;
mod walk;

use std::cell::{Cell, RefCell};

use super::{InodeId, Kind, NodeId, OwnedEntry, ROOT, symlink};
use crate::Digest;
use crate::layer::{Delta, EntryError, Error, Event, MAX_ENTRIES, MAX_LAYERS};
pub(super) use inode::{Inode, Node, State};
use walk::Resolved;

/// Maximum number of paths of an image, with directories that have no entry.
const MAX_PATHS: u64 = MAX_ENTRIES;
/// Maximum number of components of paths and link targets that are looked up for an image. The
/// largest base of `docs/performance.md` needs less than a million. They take less than a second.
pub(super) const MAX_PATH_STEPS: u64 = 8 << 20;

/// The tree of the layers so far.
#[derive(Debug)]
pub struct Builder {
    pub(super) nodes: Vec<Node>,
    free: Vec<NodeId>,
    pub(super) inodes: Vec<Inode>,
    pending: Vec<InodeId>,
    pub(super) layers: Vec<Digest>,
    /// The directories of this layer's entries, through links of this layer.
    made: Resolved,
    /// The directories of what this layer hides, through links of this layer.
    found_in_layer: RefCell<Resolved>,
    /// All other directories, such as those of the targets of hard links, through all links.
    found: RefCell<Resolved>,
    /// The components looked up so far.
    steps: Cell<u64>,
}

impl Default for Builder {
    fn default() -> Self {
        let root = Inode::directory(0);
        Self {
            nodes: vec![Node::new(0, 0, ROOT)],
            free: Vec::new(),
            inodes: vec![root],
            pending: Vec::new(),
            layers: Vec::new(),
            made: Resolved::default(),
            found_in_layer: RefCell::default(),
            found: RefCell::default(),
            steps: Cell::new(0),
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
        self.made = Resolved::default();
        self.found_in_layer = RefCell::default();
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
        let node = Node::new(inode, layer, parent);
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
