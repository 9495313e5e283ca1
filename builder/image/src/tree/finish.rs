//! Writes the tree of all layers as a `BaseTree`, with the contents that are retained.

use std::collections::HashSet;

use super::builder::{Builder, State};
use super::frozen::{Value, Writer};
use super::symlink::{MAX_LINKS, lossy, split};
use super::{BaseTree, InodeId, Kind, NodeId, ROOT, retained};
use crate::Digest;
use crate::layer::{EntryError, Error};
use crate::packages::{Listing, Manager};

/// A file whose content must be retained and isn't read yet: one entry of one layer.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct MissingContent {
    /// The layer's place in the image, counted from 0.
    pub layer: usize,
    /// The number of the entry within the layer.
    pub entry: u32,
    pub size: u64,
    /// It is a package database: what is missing is its [`Listing`].
    pub database: Option<Manager>,
    inode: InodeId,
}

/// The files whose content, or whose listing, a tree retains.
#[derive(Debug, Default)]
struct Retained {
    files: HashSet<NodeId>,
    databases: HashSet<NodeId>,
}

impl Retained {
    /// Whether these bytes of a node are retained.
    fn has(&self, node: NodeId, bytes: &[u8]) -> bool {
        let nodes = if Listing::is_listing(bytes) { &self.databases } else { &self.files };
        nodes.contains(&node)
    }
}

fn limit(layer: Option<Digest>, cause: EntryError) -> Error {
    Error::Limit { layer: layer.unwrap_or_else(|| Digest::of(b"")), cause }
}

impl Builder {
    /// The files whose content must be retained and isn't read yet, by layer and entry.
    pub fn missing_contents(&self) -> Vec<MissingContent> {
        let files = self.retained_files().into_iter().map(|node| (node, None));
        let databases = self.databases().into_iter().map(|(node, manager)| (node, Some(manager)));
        let mut missing: Vec<MissingContent> = files
            .chain(databases)
            .filter_map(|(node, database)| {
                let id = self.resolved(node);
                let inode = &self.inodes[id as usize];
                let bytes = inode.bytes.as_deref();
                let has = bytes.is_some_and(|it| Listing::is_listing(it) == database.is_some());
                (!has).then(|| MissingContent {
                    layer: usize::from(inode.layer.saturating_sub(1)),
                    entry: inode.entry,
                    size: inode.size,
                    database,
                    inode: id,
                })
            })
            .collect();
        missing.sort();
        missing.dedup();
        missing
    }

    /// Sets the content of a missing file.
    pub fn supply(&mut self, missing: &MissingContent, content: &[u8]) {
        self.inodes[missing.inode as usize].bytes = Some(content.into());
    }

    /// The tree with the retained contents and without the objects of an ostree repository.
    ///
    /// # Errors
    /// If the target of a hard link is in no layer, or the image exceeds a limit.
    pub fn finish(self) -> Result<BaseTree, Error> {
        let retained = Retained {
            files: self.retained_files().into_iter().collect(),
            databases: self.databases().into_iter().map(|(node, _)| node).collect(),
        };
        let objects = self.find(retained::OSTREE_OBJECTS.as_bytes(), None);
        self.check_steps().map_err(|cause| self.limit(cause))?;
        self.write(Some(&retained), objects)
    }

    /// A limit that the image as a whole exceeds, reported for its last layer.
    fn limit(&self, cause: EntryError) -> Error {
        limit(self.layers.last().copied(), cause)
    }

    pub(super) fn with_all_contents(self) -> BaseTree {
        self.write(None, None).expect("entries without layers have no dangling hard link")
    }

    /// Writes all nodes except those below `without`, with the contents of these nodes, or of all
    /// nodes.
    fn write(
        self,
        retained: Option<&Retained>,
        without: Option<NodeId>,
    ) -> Result<BaseTree, Error> {
        let mut writer = Writer::default();
        let mut order: Vec<(&[u8], NodeId)> = vec![(b"", ROOT)];
        let mut at = 0;
        while let Some((name, id)) = order.get(at).copied() {
            at += 1;
            let first = order.len();
            let node = &self.nodes[id as usize];
            if Some(id) != without {
                let children = node.children.iter();
                order.extend(children.map(|(name, child)| (&**name, *child)));
            }
            let inode = &self.inodes[self.resolved(id) as usize];
            let bytes = inode.bytes.as_deref();
            let State::Here(kind) = inode.state else {
                return Err(Error::Entry {
                    layer: self.layers[usize::from(inode.layer) - 1],
                    entry: lossy(&self.path_of(id)),
                    cause: EntryError::DanglingLink(lossy(bytes.unwrap_or_default())),
                });
            };
            let value = match kind {
                Kind::Directory => {
                    Value::Directory { first: first as u32, count: (order.len() - first) as u32 }
                }
                Kind::File => Value::File {
                    size: inode.size,
                    content: inode
                        .bytes
                        .as_ref()
                        .filter(|bytes| retained.is_none_or(|retained| retained.has(id, bytes))),
                },
                Kind::Symlink => Value::Symlink { target: bytes.unwrap_or_default() },
                Kind::Other => Value::Other,
            };
            let written = writer.node(name, inode.mode(), inode.uid, inode.gid, value);
            written.map_err(|cause| self.limit(cause))?;
        }
        drop(order);
        let layer = self.layers.last().copied();
        drop(self);
        writer.finish().map_err(|cause| limit(layer, cause))
    }

    /// The path of a node. It searches the whole tree, but only for an error.
    fn path_of(&self, searched: NodeId) -> Vec<u8> {
        let mut open = vec![self.nodes[ROOT as usize].children.iter()];
        let mut names: Vec<&[u8]> = Vec::new();
        while let Some(directory) = open.last_mut() {
            match directory.next() {
                Some((name, child)) => {
                    names.push(name);
                    if *child == searched {
                        return names.join(&b'/');
                    }
                    open.push(self.nodes[*child as usize].children.iter());
                }
                None => {
                    open.pop();
                    names.pop();
                }
            }
        }
        // The root.
        Vec::new()
    }

    /// The nodes whose content is retained, within the bounds of [`retained`].
    fn retained_files(&self) -> Vec<NodeId> {
        let mut seen = HashSet::new();
        let mut nodes = Vec::new();
        let mut take = |candidates: Vec<NodeId>, most: u64, total: u64, least: u64| {
            let mut left = total;
            for node in candidates {
                let inode = &self.inodes[self.resolved(node) as usize];
                let size = inode.size;
                let cost = size.max(least);
                let fits = size <= most && cost <= left && !inode.is_unreadable();
                if fits && seen.insert(node) {
                    left -= cost;
                    nodes.push(node);
                }
            }
        };
        take(self.files_for_decisions(), retained::MAX_FILE_SIZE, retained::MAX_TOTAL_SIZE, 0);
        take(
            self.etc_files(),
            retained::MAX_ETC_FILE_SIZE,
            retained::MAX_ETC_TOTAL_SIZE,
            retained::MIN_ETC_FILE_COST,
        );
        nodes
    }

    /// The package database of each manager: that of the topmost layer which has one.
    fn databases(&self) -> Vec<(NodeId, Manager)> {
        let topmost = |manager: Manager| {
            let paths = manager.databases().iter().rev();
            let nodes = paths.filter_map(|path| self.file_at(path.as_bytes()));
            let inode = |node: &NodeId| &self.inodes[self.resolved(*node) as usize];
            let readable =
                nodes.filter(|node| inode(node).size > 0 && !inode(node).is_unreadable());
            readable.max_by_key(|node| inode(node).layer).map(|node| (node, manager))
        };
        [Manager::Rpm, Manager::Dpkg].into_iter().filter_map(topmost).collect()
    }

    /// The files that planning reads, in the order of [`retained`].
    fn files_for_decisions(&self) -> Vec<NodeId> {
        let mut paths: Vec<Vec<u8>> = retained::FILES.map(|path| path.as_bytes().to_vec()).to_vec();
        for directory in retained::UNIT_DIRECTORIES {
            for (name, child) in self.names(directory) {
                let path = [directory.as_bytes(), b"/", name].concat();
                if retained::is_unit(name) {
                    paths.push(path);
                } else {
                    let inside = self.nodes[child as usize].children.keys();
                    let drop_ins = inside.filter(|file| retained::is_drop_in(name, file));
                    paths.extend(drop_ins.map(|file| [&path, &b"/"[..], file].concat()));
                }
            }
        }
        let presets = retained::PRESET_DIRECTORIES.map(|directory| (directory, ".preset"));
        let sysusers = retained::SYSUSERS_DIRECTORIES.map(|directory| (directory, ".conf"));
        for (directory, suffix) in presets.into_iter().chain(sysusers) {
            let names = self.names(directory).map(|(name, _)| name);
            let names = names.filter(|name| name.ends_with(suffix.as_bytes()));
            paths.extend(names.map(|name| [directory.as_bytes(), b"/", name].concat()));
        }
        paths.iter().filter_map(|path| self.file_at(path)).collect()
    }

    fn names(&self, directory: &str) -> impl Iterator<Item = (&[u8], NodeId)> {
        let node = self.find(directory.as_bytes(), None);
        node.into_iter()
            .flat_map(|node| &self.nodes[node as usize].children)
            .map(|(name, child)| (&**name, *child))
    }

    /// The regular file at a path, or at the end of the links there.
    fn file_at(&self, path: &[u8]) -> Option<NodeId> {
        let mut path = path.to_vec();
        for _ in 0..MAX_LINKS {
            let node = self.find(&path, None)?;
            match self.state(node) {
                State::Here(Kind::File) => return Some(node),
                State::Here(Kind::Symlink) => {
                    let inode = &self.inodes[self.resolved(node) as usize];
                    let target = inode.bytes.as_deref().unwrap_or_default();
                    path = match target.first() {
                        Some(b'/') => target.to_vec(),
                        Some(_) | None => [split(&path).0, b"/", target].concat(),
                    };
                }
                State::Here(Kind::Directory | Kind::Other) | State::Pending | State::Same(_) => {
                    return None;
                }
            }
        }
        None
    }
}

impl Builder {
    /// The files below `/etc` with only one name and without extended attributes. Those with the
    /// shortest paths come first, so that the limit of all of them leaves out what lies deepest.
    ///
    /// A file with another name is not among them: what a change of one name does to the other
    /// differs between file systems, and a layer that repeats one of them separates the two. To
    /// ostree the names of one of its objects are separate files, so they count as one name each.
    pub(super) fn etc_files(&self) -> Vec<NodeId> {
        let names = self.name_counts();
        let mut files = Vec::new();
        let directories = retained::ETC_DIRECTORIES.iter();
        let directories = directories.filter_map(|path| self.find(path.as_bytes(), None));
        let mut level: Vec<NodeId> = directories.collect();
        for _ in 0..retained::MAX_ETC_DEPTH {
            let mut below = Vec::new();
            for directory in level {
                for child in self.nodes[directory as usize].children.values() {
                    let id = self.resolved(*child) as usize;
                    let inode = &self.inodes[id];
                    match inode.state {
                        State::Here(Kind::Directory) => below.push(*child),
                        State::Here(Kind::File) if names[id] == 1 && !inode.has_xattrs() => {
                            files.push(*child);
                        }
                        State::Here(Kind::File | Kind::Symlink | Kind::Other)
                        | State::Pending
                        | State::Same(_) => {}
                    }
                }
            }
            level = below;
        }
        files
    }

    /// How many names each inode has, at most 255; an object of an ostree repository has one.
    fn name_counts(&self) -> Vec<u8> {
        let objects = self.find(retained::OSTREE_OBJECTS.as_bytes(), None);
        let mut counts = vec![0_u8; self.inodes.len()];
        let mut open = vec![ROOT];
        while let Some(node) = open.pop() {
            if Some(node) == objects {
                continue;
            }
            for child in self.nodes[node as usize].children.values() {
                let count = &mut counts[self.resolved(*child) as usize];
                *count = count.saturating_add(1);
                open.push(*child);
            }
        }
        open.extend(objects);
        while let Some(node) = open.pop() {
            for child in self.nodes[node as usize].children.values() {
                counts[self.resolved(*child) as usize] = 1;
                open.push(*child);
            }
        }
        counts
    }
}
