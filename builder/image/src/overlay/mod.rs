//! A base with the changes of a build: the node at each path, and the layer with the changes.

mod layer;

use std::collections::BTreeMap;
use std::fmt;

use bytes::Bytes;

use super::hidden::Hidden;
use super::path::TreePath;
use super::tree::{BaseTree, Kind};
pub use layer::LayerEntry;

/// What a build puts at a path.
#[derive(Clone, PartialEq, Eq)]
pub enum Node {
    /// A directory; what the base has below it stays, unless it was [removed](Overlay::remove)
    /// first.
    Directory {
        meta: Meta,
    },
    File {
        meta: Meta,
        content: Bytes,
    },
    Symlink {
        /// Mode (always 0777) and owner.
        meta: Meta,
        /// As it is written into the link.
        target: String,
    },
    /// Another name of a file in this layer.
    Hardlink {
        to: TreePath,
    },
}

impl fmt::Debug for Node {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Directory { meta } => f.debug_struct("Directory").field("meta", meta).finish(),
            Self::File { meta, content } => f
                .debug_struct("File")
                .field("meta", meta)
                .field("content", &Hidden(content.len()))
                .finish(),
            Self::Symlink { meta, target } => {
                f.debug_struct("Symlink").field("meta", meta).field("target", target).finish()
            }
            Self::Hardlink { to } => f.debug_struct("Hardlink").field("to", to).finish(),
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Meta {
    /// Permission bits with setuid, setgid and sticky (`07777`).
    pub mode: u32,
    pub uid: u32,
    pub gid: u32,
}

/// The node at a path, of base and changes together.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Found {
    pub kind: Kind,
    pub meta: Meta,
    /// Where a symbolic link points; `None` too where that isn't UTF-8.
    pub target: Option<String>,
    /// Whether it is a change of this build.
    pub ours: bool,
}

/// The bytes of a file, if they are known.
#[derive(Clone, PartialEq, Eq)]
pub enum Content {
    Known(Bytes),
    /// A file of the base whose content is not in the [`BaseTree`].
    NotRetained,
    /// There is no regular file.
    NoFile,
}

impl fmt::Debug for Content {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Known(bytes) => f.debug_tuple("Known").field(&Hidden(bytes.len())).finish(),
            Self::NotRetained => f.write_str("NotRetained"),
            Self::NoFile => f.write_str("NoFile"),
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Change {
    Put(Node),
    /// The base's path and everything below it are removed.
    Removed,
    /// The same, and this is at the path.
    Replaced(Node),
}

impl Change {
    fn node(&self) -> Option<&Node> {
        match self {
            Self::Put(node) | Self::Replaced(node) => Some(node),
            Self::Removed => None,
        }
    }

    /// Whether it hides everything that the base has below it.
    fn hides_base(&self) -> bool {
        match self {
            Self::Put(Node::Directory { .. }) => false,
            Self::Put(_) | Self::Removed | Self::Replaced(_) => true,
        }
    }
}

/// A base and the changes of a build.
#[derive(Debug, Clone)]
pub struct Overlay<'a> {
    base: &'a BaseTree,
    changes: BTreeMap<TreePath, Change>,
    /// Whether a hard link was ever put.
    has_links: bool,
    /// How often a link or directory was replaced or removed.
    shape: u64,
}

impl<'a> Overlay<'a> {
    /// The base as it is.
    pub fn new(base: &'a BaseTree) -> Self {
        Self { base, changes: BTreeMap::new(), has_links: false, shape: 0 }
    }

    /// The node at exactly this path; links are not followed, and nothing is below a link or file.
    pub fn get(&self, path: &TreePath) -> Option<Found> {
        match self.changes.get(path) {
            Some(change) => self.found(change.node()?),
            None if self.is_hidden(path) => None,
            None => {
                let entry = self.base.get(path.relative())?;
                Some(Found {
                    kind: entry.kind,
                    meta: Meta { mode: entry.mode, uid: entry.uid, gid: entry.gid },
                    target: entry
                        .target
                        .and_then(|t| std::str::from_utf8(t).ok())
                        .map(str::to_owned),
                    ours: false,
                })
            }
        }
    }

    fn found(&self, node: &Node) -> Option<Found> {
        let (kind, meta, target) = match node {
            Node::Directory { meta } => (Kind::Directory, *meta, None),
            Node::File { meta, .. } => (Kind::File, *meta, None),
            Node::Symlink { meta, target } => (Kind::Symlink, *meta, Some(target.clone())),
            Node::Hardlink { to } => return self.get(to),
        };
        Some(Found { kind, meta, target, ours: true })
    }

    /// Whether a change above the path hides the base's node.
    fn is_hidden(&self, path: &TreePath) -> bool {
        let mut above = std::iter::successors(path.parent(), TreePath::parent);
        // Upwards, because most new paths are in a new directory.
        above.any(|above| self.changes.get(&above).is_some_and(Change::hides_base))
    }

    /// A number that differs once a link or directory was replaced or removed: until then a path that
    /// leads to a directory leads there.
    pub fn shape(&self) -> u64 {
        self.shape
    }

    fn record_loss(&mut self, path: &TreePath) {
        if self.get(path).is_some_and(|found| found.kind != Kind::File) {
            self.shape += 1;
        }
    }

    /// The names in a directory, sorted; empty if the path is not a directory.
    pub fn children(&self, path: &TreePath) -> Vec<String> {
        let mut names: Vec<String> = Vec::new();
        if self.get(path).is_none_or(|found| found.kind != Kind::Directory) {
            return names;
        }
        if !self.is_hidden(path) && !self.changes.get(path).is_some_and(Change::hides_base) {
            let base = self.base.children(path.relative());
            names.extend(
                base.iter()
                    .filter_map(|(name, _)| std::str::from_utf8(name).ok())
                    .map(str::to_owned),
            );
            names.retain(|name| path.join(name).is_ok_and(|child| self.get(&child).is_some()));
        }
        for (child, _) in self.changes.range(path.clone()..) {
            if child.parent().as_ref() == Some(path) && self.get(child).is_some() {
                names.push(child.name().to_owned());
            } else if !path.holds(child)
                && child.relative() > path.relative()
                && !child.relative().starts_with(path.relative())
            {
                break;
            }
        }
        names.sort();
        names.dedup();
        names
    }

    /// The bytes of the file at exactly this path.
    pub fn content(&self, path: &TreePath) -> Content {
        match self.changes.get(path).map(Change::node) {
            Some(Some(Node::File { content, .. })) => Content::Known(content.clone()),
            Some(Some(Node::Hardlink { to })) => self.content(to),
            Some(_) => Content::NoFile,
            None => match self.get(path).map(|found| found.kind) {
                Some(Kind::File) => match self.base.content(path.relative()) {
                    Some(bytes) => Content::Known(Bytes::copy_from_slice(bytes)),
                    None => Content::NotRetained,
                },
                Some(Kind::Directory | Kind::Symlink | Kind::Other) | None => Content::NoFile,
            },
        }
    }

    /// Puts a node at a path. A directory on a directory keeps its entries; everything else
    /// replaces what was there. The parents must be directories already.
    pub fn put(&mut self, path: TreePath, node: Node) {
        self.move_to_other_name(&path);
        let node = match node {
            // A link to a link is one to its file, so that no chain gets long.
            Node::Hardlink { to } => {
                self.has_links = true;
                let to = self.file_path(&to).clone();
                Node::Hardlink { to }
            }
            node => node,
        };
        let merges = matches!(node, Node::Directory { .. })
            && self.get(&path).is_some_and(|found| found.kind == Kind::Directory);
        let was_replaced =
            matches!(self.changes.get(&path), Some(Change::Replaced(_) | Change::Removed));
        if !merges {
            self.record_loss(&path);
            self.drop_below(&path);
        }
        let replaces = if merges {
            was_replaced
        } else {
            was_replaced || matches!(node, Node::Directory { .. })
        };
        let change = if replaces { Change::Replaced(node) } else { Change::Put(node) };
        self.changes.insert(path, change);
    }

    /// Writes into the file at a path; all its names remain one file.
    pub fn rewrite(&mut self, path: &TreePath, node: Node) {
        let file = self.file_path(path).clone();
        match self.changes.get_mut(&file) {
            Some(Change::Put(old) | Change::Replaced(old)) => *old = node,
            Some(Change::Removed) | None => self.put(file, node),
        }
    }

    /// Removes a path and everything below it.
    pub fn remove(&mut self, path: &TreePath) {
        self.move_to_other_name(path);
        self.record_loss(path);
        self.drop_below(path);
        self.changes.insert(path.clone(), Change::Removed);
    }

    /// Reverts a change of this build: the path is that of the base again.
    pub fn withdraw(&mut self, path: &TreePath) {
        self.move_to_other_name(path);
        self.changes.remove(path);
    }

    fn drop_below(&mut self, path: &TreePath) {
        // Paths that begin with the same text are adjacent, and those below the path are among
        // them.
        let same = self.changes.range(path.clone()..);
        let same = same.take_while(|(other, _)| other.relative().starts_with(path.relative()));
        let below: Vec<TreePath> = same
            .map(|(other, _)| other)
            .filter(|other| *other != path && path.holds(other))
            .cloned()
            .collect();
        for path in below {
            self.move_to_other_name(&path);
            self.changes.remove(&path);
        }
    }

    /// The path that holds the file which a hard link names; of any other path, itself.
    fn file_path<'p>(&'p self, path: &'p TreePath) -> &'p TreePath {
        match self.changes.get(path).and_then(Change::node) {
            Some(Node::Hardlink { to }) => to,
            Some(_) | None => path,
        }
    }

    /// Moves a file to the first of its other names, before this name is removed.
    fn move_to_other_name(&mut self, path: &TreePath) {
        let Some(file) = self.changes.get(path).and_then(Change::node) else {
            return;
        };
        if !self.has_links || !matches!(file, Node::File { .. }) {
            return;
        }
        let file = file.clone();
        let mut new_path: Option<TreePath> = None;
        for (other, change) in &mut self.changes {
            let (Change::Put(node) | Change::Replaced(node)) = change else {
                continue;
            };
            if !matches!(node, Node::Hardlink { to } if to == path) {
                continue;
            }
            *node = match &new_path {
                Some(new_path) => Node::Hardlink { to: new_path.clone() },
                None => file.clone(),
            };
            new_path.get_or_insert_with(|| other.clone());
        }
    }

    /// Whether the build changes nothing.
    pub fn is_unchanged(&self) -> bool {
        self.changes.is_empty()
    }

    /// The paths that the build put, with their nodes.
    pub fn puts(&self) -> impl Iterator<Item = (&TreePath, &Node)> {
        self.changes.iter().filter_map(|(path, change)| Some((path, change.node()?)))
    }
}

#[cfg(test)]
mod tests;
