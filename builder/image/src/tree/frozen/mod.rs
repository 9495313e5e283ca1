//! The bytes of a base tree.
//!
//! All numbers little-endian. `"mosbtree"`, version, and the number of nodes, of kinds of owner and
//! mode, of contents, of data bytes (`u32` each); then these four tables; then the SHA-256 of
//! everything before it.
//! - A node is 16 bytes: where its name starts in the data (`u32`), the length of the name (`u8`),
//!   its owner and mode (`u24`), and 8 bytes by its type: directory: first child and number of
//!   children; file: size; link: start and length of the target in the data; other: 0. Nodes are in
//!   breadth-first order, the children of one directory in the order of their names' bytes, so the
//!   root is node 0, and a directory's children are adjacent and after it.
//! - An owner and mode is 12 bytes: type, 0, mode (`u16`), user, group (`u32` each).
//! - A content is 12 bytes: node, start and length in the data; sorted by node.

mod difference;
mod write;

use std::collections::BTreeMap;
use std::fmt;
use std::sync::LazyLock;

use bytes::Bytes;
use sha2::{Digest as _, Sha256};

use super::{Builder, Entry, Kind, OwnedEntry};
use crate::Digest;
use crate::packages::Listing;
pub use difference::{Difference, Sided};
pub(super) use write::{Value, Writer};

/// The version of a tree. It rises if the format changes, or the selection of
/// [`retained`](super::retained) files. Cache entries of other versions are ignored and made anew.
/// Version 2 has small files below `/etc`, version 3 the packages
/// and sysusers.d, version 4 the package manager of each package.
pub const VERSION: u32 = 4;

const MAGIC: &[u8; 8] = b"mosbtree";
const HEADER: usize = 28;
const NODE: usize = 16;
const META: usize = 12;
const CONTENT: usize = 12;
const TRAILER: usize = 32;

/// Every path of a base image; immutable. Paths are written without the leading
/// slash; the root is `""`.
#[derive(Clone, PartialEq, Eq)]
pub struct BaseTree {
    bytes: Bytes,
    digest: Digest,
    nodes: u32,
    metas: usize,
    contents: usize,
    data: usize,
}

/// Why bytes can't be read as a base tree.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum FrozenError {
    /// Not in this format.
    #[error("not a base tree")]
    Magic,
    /// Written in another version of the format.
    #[error("a base tree of version {0}, want {VERSION}")]
    Version(u32),
    /// Truncated or changed.
    #[error("a damaged base tree")]
    Damaged,
}

impl BaseTree {
    /// Reads the bytes of [`BaseTree::as_bytes`] without copying them.
    ///
    /// # Errors
    /// If they are of another version or damaged.
    pub fn from_bytes(bytes: impl Into<Bytes>) -> Result<Self, FrozenError> {
        let bytes: Bytes = bytes.into();
        if bytes.get(..8) != Some(MAGIC) {
            return Err(FrozenError::Magic);
        }
        let word = |at| read_u32(&bytes, at).ok_or(FrozenError::Damaged);
        match word(8)? {
            VERSION => {}
            other => return Err(FrozenError::Version(other)),
        }
        let end = bytes.len().checked_sub(TRAILER);
        let (body, sum) = bytes.split_at(end.ok_or(FrozenError::Damaged)?);
        // Both sums in one pass, as a tree has megabytes.
        let hash = Sha256::new_with_prefix(body);
        if hash.clone().finalize().as_slice() != sum {
            return Err(FrozenError::Damaged);
        }
        let digest = Digest::from_sha256(hash.chain_update(sum));
        let counts = [(12, NODE), (16, META), (20, CONTENT), (24, 1)];
        let mut starts = [HEADER; 5];
        for (i, (at, width)) in counts.into_iter().enumerate() {
            let length = (word(at)? as usize).checked_mul(width);
            starts[i + 1] = length
                .and_then(|length| starts[i].checked_add(length))
                .ok_or(FrozenError::Damaged)?;
        }
        let tree = Self {
            nodes: word(12)?,
            metas: starts[1],
            contents: starts[2],
            data: starts[3],
            bytes: bytes.clone(),
            digest,
        };
        if starts[4] != body.len() || !tree.is_sound() {
            return Err(FrozenError::Damaged);
        }
        Ok(tree)
    }

    /// Whether all references within the tables are valid, and children come after their directory.
    fn is_sound(&self) -> bool {
        let (metas, data) =
            ((self.contents - self.metas) / META, self.bytes.len() - TRAILER - self.data);
        let in_data = |start: u32, length: u32| start as usize + length as usize <= data;
        let kinds: Option<Vec<Kind>> =
            (0..metas).map(|meta| kind_of(self.bytes[self.metas + meta * META])).collect();
        let Some(kinds) = kinds else { return false };
        let nodes = self.bytes[HEADER..self.metas].chunks_exact(NODE);
        let sound = nodes.enumerate().all(|(at, node)| {
            let node = Node::read(node);
            let value = match kinds.get(node.meta as usize) {
                Some(Kind::Directory) => {
                    let end = u64::from(node.low) + u64::from(node.high);
                    node.high == 0 || (node.low as usize > at && end <= u64::from(self.nodes))
                }
                Some(Kind::Symlink) => in_data(node.low, node.high),
                Some(Kind::File | Kind::Other) => true,
                None => false,
            };
            value && in_data(node.name, node.name_length)
        });
        let contents = self.bytes[self.contents..self.data].chunks_exact(CONTENT);
        let has_root = self
            .node(0)
            .is_some_and(|root| kinds.get(root.meta as usize) == Some(&Kind::Directory));
        sound
            && has_root
            && contents.into_iter().all(|content| in_data(le_u32(content, 4), le_u32(content, 8)))
    }

    /// The bytes to store; equal trees have equal bytes.
    pub fn as_bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// The digest of [`BaseTree::as_bytes`].
    pub fn digest(&self) -> Digest {
        self.digest
    }

    /// How many paths it has, the root included.
    pub fn paths(&self) -> usize {
        self.nodes as usize
    }

    /// A tree of these paths; the last one of a path wins. A missing root or parent is a directory
    /// 0755 of root; what lies below something that is not a directory is left out.
    pub fn from_entries(entries: impl IntoIterator<Item = (Vec<u8>, OwnedEntry)>) -> Self {
        let sorted: BTreeMap<Vec<Vec<u8>>, OwnedEntry> = entries
            .into_iter()
            .map(|(path, entry)| {
                let components = path.split(|b| *b == b'/').filter(|c| !c.is_empty());
                (components.map(<[u8]>::to_vec).collect(), entry)
            })
            .collect();
        let mut builder = Builder::default();
        for (path, entry) in sorted {
            builder.insert(&path, entry);
        }
        builder.with_all_contents()
    }

    /// The node at exactly this path; links are not followed.
    pub fn get(&self, path: &str) -> Option<Entry<'_>> {
        self.entry(self.node(self.find(path)?)?)
    }

    /// The names and nodes of a directory, sorted by name; empty if it is not a directory.
    pub fn children<'a>(&'a self, path: &str) -> Vec<(&'a [u8], Entry<'a>)> {
        let directory = self.find(path).and_then(|at| self.node(at));
        let Some((low, high)) = directory.and_then(|node| self.range(node)) else {
            return Vec::new();
        };
        (low..high)
            .filter_map(|at| self.node(at))
            .filter_map(|node| Some((self.name(node)?, self.entry(node)?)))
            .collect()
    }

    /// The bytes of a regular file, if they are among the [`retained`](super::retained) ones.
    pub fn content(&self, path: &str) -> Option<&[u8]> {
        self.content_of(self.find(path)?)
    }

    fn content_of(&self, node: u32) -> Option<&[u8]> {
        let table = self.bytes.get(self.contents..self.data)?;
        let (mut low, mut high) = (0, table.len() / CONTENT);
        while low < high {
            let middle = usize::midpoint(low, high);
            let row = &table[middle * CONTENT..][..CONTENT];
            match le_u32(row, 0).cmp(&node) {
                std::cmp::Ordering::Less => low = middle + 1,
                std::cmp::Ordering::Greater => high = middle,
                std::cmp::Ordering::Equal => {
                    let content = self.data(le_u32(row, 4), le_u32(row, 8));
                    return content.filter(|content| !Listing::is_listing(content));
                }
            }
        }
        None
    }

    /// The listings that are retained in the place of package databases.
    pub(crate) fn listings(&self) -> impl Iterator<Item = &[u8]> {
        let rows = self.bytes[self.contents..self.data].chunks_exact(CONTENT);
        let contents = rows.filter_map(|row| self.data(le_u32(row, 4), le_u32(row, 8)));
        contents.filter(|content| Listing::is_listing(content))
    }

    /// Calls `each` with every node, in the order of their numbers: a directory before its children.
    ///
    /// # Errors
    /// A node is in no directory or in several, which no tree has that was written here.
    pub(super) fn each_node<'a>(
        &'a self,
        mut each: impl FnMut(FrozenNode<'a, '_>),
    ) -> Result<(), FrozenError> {
        let mut next_child = 1;
        let mut contents = self.bytes[self.contents..self.data].chunks_exact(CONTENT).peekable();
        for at in 0..self.nodes {
            let of_it = contents.next_if(|row| le_u32(row, 0) == at);
            let content = of_it.and_then(|row| self.data(le_u32(row, 4), le_u32(row, 8)));
            let node = self.node(at).and_then(|node| Some((node, self.entry(node)?)));
            let (node, entry) = node.ok_or(FrozenError::Damaged)?;
            let (low, high) = self.range(node).unwrap_or_default();
            if low < high && std::mem::replace(&mut next_child, high) != low {
                return Err(FrozenError::Damaged);
            }
            let mut children =
                (low..high).filter_map(|child| Some((self.name(self.node(child)?)?.into(), child)));
            each(FrozenNode { entry, content, children: &mut children });
        }
        if next_child == self.nodes { Ok(()) } else { Err(FrozenError::Damaged) }
    }

    fn find(&self, path: &str) -> Option<u32> {
        let mut at = 0;
        if path.is_empty() {
            return Some(at);
        }
        for component in path.as_bytes().split(|b| *b == b'/') {
            let (mut low, mut high) = self.range(self.node(at)?)?;
            at = loop {
                if low >= high {
                    return None;
                }
                let middle = u32::midpoint(low, high);
                match self.name(self.node(middle)?)?.cmp(component) {
                    std::cmp::Ordering::Less => low = middle + 1,
                    std::cmp::Ordering::Greater => high = middle,
                    std::cmp::Ordering::Equal => break middle,
                }
            };
        }
        Some(at)
    }

    fn node(&self, at: u32) -> Option<Node> {
        let start = HEADER + (at as usize).checked_mul(NODE)?;
        (at < self.nodes).then(|| Node::read(&self.bytes[start..start + NODE]))
    }

    fn meta(&self, node: Node) -> Option<&[u8]> {
        let start = self.metas + node.meta as usize * META;
        self.bytes.get(start..start + META)
    }

    /// The nodes in a directory.
    fn range(&self, node: Node) -> Option<(u32, u32)> {
        let kind = kind_of(self.meta(node)?[0])?;
        (kind == Kind::Directory).then_some((node.low, node.low.checked_add(node.high)?))
    }

    fn entry(&self, node: Node) -> Option<Entry<'_>> {
        let meta = self.meta(node)?;
        let kind = kind_of(meta[0])?;
        Some(Entry {
            kind,
            mode: u32::from(u16::from_le_bytes([meta[2], meta[3]])),
            uid: le_u32(meta, 4),
            gid: le_u32(meta, 8),
            size: match kind {
                Kind::File => u64::from(node.high) << 32 | u64::from(node.low),
                Kind::Directory | Kind::Symlink | Kind::Other => 0,
            },
            target: match kind {
                Kind::Symlink => Some(self.data(node.low, node.high)?),
                Kind::Directory | Kind::File | Kind::Other => None,
            },
        })
    }

    fn name(&self, node: Node) -> Option<&[u8]> {
        self.data(node.name, node.name_length)
    }

    fn data(&self, start: u32, length: u32) -> Option<&[u8]> {
        let start = self.data.checked_add(start as usize)?;
        self.bytes.get(start..start.checked_add(length as usize)?)
    }
}

/// A node of a tree with what belongs to it.
pub(super) struct FrozenNode<'a, 'c> {
    pub entry: Entry<'a>,
    /// The content of a file that is retained.
    pub content: Option<&'a [u8]>,
    /// The names and numbers of the nodes in a directory.
    pub children: &'c mut dyn Iterator<Item = (Box<[u8]>, u32)>,
}

impl Default for BaseTree {
    /// A root with nothing in it.
    fn default() -> Self {
        static EMPTY: LazyLock<BaseTree> = LazyLock::new(|| BaseTree::from_entries([]));
        EMPTY.clone()
    }
}

impl fmt::Debug for BaseTree {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "BaseTree({} paths, {})", self.nodes, self.digest())
    }
}

#[derive(Debug, Clone, Copy)]
struct Node {
    name: u32,
    name_length: u32,
    meta: u32,
    low: u32,
    high: u32,
}

impl Node {
    fn read(row: &[u8]) -> Self {
        let packed = le_u32(row, 4);
        Self {
            name: le_u32(row, 0),
            name_length: packed & 0xff,
            meta: packed >> 8,
            low: le_u32(row, 8),
            high: le_u32(row, 12),
        }
    }
}

fn kind_of(byte: u8) -> Option<Kind> {
    [Kind::Directory, Kind::File, Kind::Symlink, Kind::Other]
        .into_iter()
        .find(|kind| *kind as u8 == byte)
}

fn read_u32(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_le_bytes(bytes.get(at..at + 4)?.try_into().ok()?))
}

/// A number within a row whose length is known.
fn le_u32(row: &[u8], at: usize) -> u32 {
    u32::from_le_bytes([row[at], row[at + 1], row[at + 2], row[at + 3]])
}

#[cfg(test)]
mod tests;
