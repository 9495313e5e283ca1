//! The bytes of a base tree.
//!
//! All numbers little-endian. `"mosbtree"`, version, and the number of nodes, of kinds of owner and mode, of contents, of
//! data bytes (`u32` each); then these four tables; then the SHA-256 of everything before it.
//! - A node is 16 bytes: where its name starts in the data (`u32`), the length of the name (`u8`), its owner and mode
//!   (`u24`), and 8 bytes by its type: directory: first child and number of children; file: size; link: start and length of
//!   the target in the data; other: 0. Nodes are in breadth-first order, the children of one directory in the order of
//!   their names' bytes, so the root is node 0, a directory's children stand together, and always after it.
//! - An owner and mode is 12 bytes: type, 0, mode (`u16`), user, group (`u32` each).
//! - A content is 12 bytes: node, start and length in the data; sorted by node.

use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::sync::LazyLock;

use bytes::Bytes;
use sha2::{Digest as _, Sha256};

use super::{Builder, Entry, Kind, OwnedEntry};
use crate::image::Digest;

/// Of the bytes; a cache entry of another version is no entry.
pub const VERSION: u32 = 1;

const MAGIC: &[u8; 8] = b"mosbtree";
const HEADER: usize = 28;
const NODE: usize = 16;
const META: usize = 12;
const CONTENT: usize = 12;
const TRAILER: usize = 32;

/// Every path of a base image, never changed once made. Paths are written without the leading slash; the root is `""`.
#[derive(Clone, PartialEq, Eq)]
pub struct BaseTree {
    bytes: Bytes,
    nodes: u32,
    metas: usize,
    contents: usize,
    data: usize,
}

/// Why bytes are no base tree.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum FrozenError {
    /// Not written as one.
    #[error("not a base tree")]
    Magic,
    /// Written by a mosb that kept it in another form.
    #[error("a base tree of version {0}, want {VERSION}")]
    Version(u32),
    /// Cut, or changed since it was written.
    #[error("a damaged base tree")]
    Damaged,
}

impl BaseTree {
    /// Takes bytes that [`BaseTree::as_bytes`] gave, without copying them.
    ///
    /// # Errors
    /// If they are of another version, or anything but whole.
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
        if Sha256::digest(body).as_slice() != sum {
            return Err(FrozenError::Damaged);
        }
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
        };
        if starts[4] != body.len() || !tree.is_sound() {
            return Err(FrozenError::Damaged);
        }
        Ok(tree)
    }

    /// Whether every reference within the tables leads to something, and children come after their directory.
    fn is_sound(&self) -> bool {
        let (metas, data) = (
            (self.contents - self.metas) / META,
            self.bytes.len() - TRAILER - self.data,
        );
        let in_data = |start: u32, length: u32| start as usize + length as usize <= data;
        let kinds: Option<Vec<Kind>> = (0..metas)
            .map(|meta| kind_of(self.bytes[self.metas + meta * META]))
            .collect();
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
            && contents
                .into_iter()
                .all(|content| in_data(le_u32(content, 4), le_u32(content, 8)))
    }

    /// The bytes to keep; the same tree has the same bytes.
    pub fn as_bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// The digest of [`BaseTree::as_bytes`].
    pub fn digest(&self) -> Digest {
        Digest::of(&self.bytes)
    }

    /// How many paths it has, the root included.
    pub fn paths(&self) -> usize {
        self.nodes as usize
    }

    /// A tree of these paths; the last one of a path wins. A missing root or parent is a directory 0755 of root; what lies
    /// below something that is no directory is left out.
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

    /// What stands at exactly this path; links are not followed.
    pub fn get(&self, path: &str) -> Option<Entry<'_>> {
        self.entry(self.node(self.find(path)?)?)
    }

    /// The names in a directory with what stands there, sorted by name; empty if it is none.
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

    /// The bytes of a regular file, if they are among those that are [`kept`](super::kept).
    pub fn content(&self, path: &str) -> Option<&[u8]> {
        let wanted = self.find(path)?;
        let table = self.bytes.get(self.contents..self.data)?;
        let (mut low, mut high) = (0, table.len() / CONTENT);
        while low < high {
            let middle = usize::midpoint(low, high);
            let row = &table[middle * CONTENT..][..CONTENT];
            match le_u32(row, 0).cmp(&wanted) {
                std::cmp::Ordering::Less => low = middle + 1,
                std::cmp::Ordering::Greater => high = middle,
                std::cmp::Ordering::Equal => return self.data(le_u32(row, 4), le_u32(row, 8)),
            }
        }
        None
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

/// Writes a tree node by node, in the order of the format.
#[derive(Debug, Default)]
pub(super) struct Writer {
    nodes: Vec<u8>,
    metas: Vec<u8>,
    contents: Vec<u8>,
    data: Vec<u8>,
    known_metas: HashMap<(Kind, u32, u32, u32), u32>,
    known_data: HashMap<Box<[u8]>, u32>,
}

/// What a node is besides its owner and mode.
#[derive(Debug, Clone, Copy)]
pub(super) enum Value<'a> {
    Directory {
        first: u32,
        count: u32,
    },
    File {
        size: u64,
        content: Option<&'a [u8]>,
    },
    Symlink {
        target: &'a [u8],
    },
    Other,
}

/// Limits of layers keep every number of the format far below 32 bits.
const FITS: &str = "a tree is bounded to less than 4 GiB";

impl Writer {
    pub(super) fn node(&mut self, name: &[u8], mode: u32, uid: u32, gid: u32, value: Value<'_>) {
        let at = u32::try_from(self.nodes.len() / NODE).expect(FITS);
        let (kind, low, high) = match value {
            Value::Directory { first, count } => (Kind::Directory, first, count),
            Value::File { size, content } => {
                if let Some(content) = content {
                    let start = u32::try_from(self.data.len()).expect(FITS);
                    let length = u32::try_from(content.len()).expect(FITS);
                    self.data.extend_from_slice(content);
                    for number in [at, start, length] {
                        self.contents.extend_from_slice(&number.to_le_bytes());
                    }
                }
                (Kind::File, size as u32, (size >> 32) as u32)
            }
            Value::Symlink { target } => {
                let length = u32::try_from(target.len()).expect(FITS);
                (Kind::Symlink, self.intern(target), length)
            }
            Value::Other => (Kind::Other, 0, 0),
        };
        let next = u32::try_from(self.known_metas.len()).expect(FITS);
        let meta = *self
            .known_metas
            .entry((kind, mode, uid, gid))
            .or_insert(next);
        if meta == next {
            self.metas.extend_from_slice(&[kind as u8, 0]);
            self.metas.extend_from_slice(&(mode as u16).to_le_bytes());
            self.metas.extend_from_slice(&uid.to_le_bytes());
            self.metas.extend_from_slice(&gid.to_le_bytes());
        }
        let length =
            u32::from(u8::try_from(name.len()).expect("a component has at most 255 bytes"));
        for number in [self.intern(name), meta << 8 | length, low, high] {
            self.nodes.extend_from_slice(&number.to_le_bytes());
        }
    }

    /// Where these bytes are in the data; equal names and targets are there once.
    fn intern(&mut self, bytes: &[u8]) -> u32 {
        if let Some(at) = self.known_data.get(bytes) {
            return *at;
        }
        let at = u32::try_from(self.data.len()).expect(FITS);
        self.data.extend_from_slice(bytes);
        self.known_data.insert(bytes.into(), at);
        at
    }

    pub(super) fn finish(self) -> BaseTree {
        drop(self.known_data);
        let tables = [
            (&self.nodes, NODE),
            (&self.metas, META),
            (&self.contents, CONTENT),
            (&self.data, 1),
        ];
        let length: usize = tables.iter().map(|(table, _)| table.len()).sum();
        let mut bytes = Vec::with_capacity(HEADER + length + TRAILER);
        bytes.extend_from_slice(MAGIC);
        bytes.extend_from_slice(&VERSION.to_le_bytes());
        for (table, width) in tables {
            let count = u32::try_from(table.len() / width).expect(FITS);
            bytes.extend_from_slice(&count.to_le_bytes());
        }
        for (table, _) in tables {
            bytes.extend_from_slice(table);
        }
        let sum = Sha256::digest(&bytes);
        bytes.extend_from_slice(&sum);
        BaseTree::from_bytes(bytes).expect("a tree that was just written can be read")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tree() -> BaseTree {
        BaseTree::from_entries([
            (b"etc".to_vec(), OwnedEntry::directory(0o1750)),
            (b"etc/a".to_vec(), OwnedEntry::file(b"content of a")),
            (b"etc-more".to_vec(), OwnedEntry::symlink("etc/a")),
            (b"etc.d/x/y".to_vec(), OwnedEntry::file(b"")),
            (b"etc/a/below-a-file".to_vec(), OwnedEntry::file(b"")),
            (
                b"dev/null".to_vec(),
                OwnedEntry {
                    kind: Kind::Other,
                    uid: u32::MAX,
                    gid: 7,
                    ..OwnedEntry::directory(0o666)
                },
            ),
            (
                b"big".to_vec(),
                OwnedEntry {
                    size: 5 << 33,
                    content: None,
                    ..OwnedEntry::file(b"")
                },
            ),
        ])
    }

    fn names(tree: &BaseTree, path: &str) -> Vec<String> {
        let children = tree.children(path);
        let name = |(name, _): &(&[u8], _)| String::from_utf8_lossy(name).into_owned();
        children.iter().map(name).collect()
    }

    #[test]
    fn every_path_is_found_and_no_other() {
        let tree = BaseTree::from_bytes(tree().as_bytes().to_vec()).unwrap();
        assert_eq!(tree, super::tests::tree());
        assert_eq!(names(&tree, ""), ["big", "dev", "etc", "etc-more", "etc.d"]);
        assert_eq!(names(&tree, "etc"), ["a"]);
        assert_eq!(names(&tree, "etc/a"), [""; 0]);
        assert_eq!(names(&tree, "none"), [""; 0]);
        let entry = |path| {
            tree.get(path)
                .map(|e| (e.kind, e.mode, e.uid, e.gid, e.size))
        };
        for (path, want) in [
            ("", Some((Kind::Directory, 0o755, 0, 0, 0))),
            ("etc", Some((Kind::Directory, 0o1750, 0, 0, 0))),
            ("etc/a", Some((Kind::File, 0o644, 0, 0, 12))),
            ("etc.d/x", Some((Kind::Directory, 0o755, 0, 0, 0))),
            ("dev/null", Some((Kind::Other, 0o666, u32::MAX, 7, 0))),
            ("big", Some((Kind::File, 0o644, 0, 0, 5 << 33))),
            ("etc/a/below-a-file", None),
            ("etc/", None),
            ("/etc", None),
            ("et", None),
        ] {
            assert_eq!(entry(path), want, "{path:?}");
        }
        let target = tree.get("etc-more").unwrap().target;
        assert_eq!(target, Some(&b"etc/a"[..]));
        assert_eq!(tree.content("etc/a"), Some(&b"content of a"[..]));
        assert_eq!(tree.content("etc.d/x/y"), Some(&b""[..]));
        assert_eq!((tree.content("big"), tree.content("etc")), (None, None));
        assert_eq!(BaseTree::default().paths(), 1);
    }

    /// Reads all that a tree has, up to a bound.
    fn walk(tree: &BaseTree) {
        let mut todo = vec![String::new()];
        for _ in 0..1000 {
            let Some(path) = todo.pop() else { return };
            assert!(
                tree.content(&path)
                    .is_none_or(|content| content.len() < 1000)
            );
            for (name, _) in tree.children(&path) {
                todo.push(format!("{path}/{}", String::from_utf8_lossy(name)));
            }
        }
    }

    #[test]
    fn damaged_and_hostile_bytes_are_refused_or_harmless() {
        let good = tree().as_bytes().to_vec();
        for at in 0..good.len() {
            let mut bad = good.clone();
            bad[at] ^= 0x80;
            assert!(
                BaseTree::from_bytes(bad.clone()).is_err(),
                "byte {at} flipped"
            );
            assert!(
                BaseTree::from_bytes(good[..at].to_vec()).is_err(),
                "cut at {at}"
            );
            // Somebody who knows the format makes the sum fit.
            for value in [0, 1, 0x7f, 0xff] {
                bad[at] = value;
                let body = bad.len() - TRAILER;
                let sum = Sha256::digest(&bad[..body]);
                bad[body..].copy_from_slice(&sum);
                if let Ok(tree) = BaseTree::from_bytes(bad.clone()) {
                    walk(&tree);
                }
            }
        }
        let mut newer = good;
        newer[8] = 2;
        assert_eq!(BaseTree::from_bytes(newer), Err(FrozenError::Version(2)));
        assert_eq!(BaseTree::from_bytes(vec![0; 100]), Err(FrozenError::Magic));
    }

    proptest::proptest! {
        #![proptest_config(proptest::test_runner::Config { failure_persistence: None, ..Default::default() })]
        #[test]
        fn entries_come_back_whatever_their_order(
            entries in proptest::collection::btree_map("[a-c]{1,2}(/[a-c]{1,2}){0,3}", "[a-c]{0,3}", 0..40),
            reverse in proptest::bool::ANY,
        ) {
            let mut list: Vec<_> = entries
                .iter()
                .map(|(path, content)| (path.clone().into_bytes(), OwnedEntry::file(content.as_bytes())))
                .collect();
            if reverse {
                list.reverse();
            }
            let tree = BaseTree::from_entries(list);
            let back = BaseTree::from_bytes(tree.as_bytes().to_vec()).unwrap();
            for (path, content) in &entries {
                let below_file = path.match_indices('/').any(|(at, _)| entries.contains_key(&path[..at]));
                let want = (!below_file).then_some(content.as_bytes());
                proptest::prop_assert_eq!(back.content(path), want, "{}", path);
            }
        }
    }
}
