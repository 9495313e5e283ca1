//! The tree of a base: every path with type, mode, owner and link target, and the contents of the
//! few files that planning reads.
//!
//! Input: the [`Delta`](super::layer::Delta)s of the layers, in their order, for a [`Builder`].
//! Output: a [`BaseTree`], one block of bytes that a cache can store. Invariant: equal trees are
//! equal bytes, and reading damaged or hostile bytes neither panics nor loops.
//!
//! Paths below `sysroot/ostree/repo/objects` are only used to resolve hard links and then removed:
//! their names are hashes, which no config names. [`retained`] selects the contents that are
//! retained.

mod builder;
mod finish;
mod frozen;
pub mod retained;
mod symlink;

use std::fmt;

use crate::hidden::Hidden;

pub use builder::Builder;
pub use finish::MissingContent;
pub use frozen::{BaseTree, Difference, FrozenError, Sided, VERSION};

/// The type of a path.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Kind {
    Directory,
    File,
    Symlink,
    /// A device, pipe or socket.
    Other,
}

/// A path of the base with the fields of its inode.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Entry<'a> {
    pub kind: Kind,
    /// Permission bits with setuid, setgid and sticky (`07777`).
    pub mode: u32,
    pub uid: u32,
    pub gid: u32,
    /// Bytes of a regular file, else 0.
    pub size: u64,
    /// The target of a symbolic link, as written.
    pub target: Option<&'a [u8]>,
}

/// An owned [`Entry`], with the content if it is retained.
#[derive(Clone, PartialEq, Eq)]
pub struct OwnedEntry {
    pub kind: Kind,
    /// Permission bits with setuid, setgid and sticky (`07777`).
    pub mode: u32,
    pub uid: u32,
    pub gid: u32,
    /// Bytes of a regular file, else 0.
    pub size: u64,
    /// Where a symbolic link points.
    pub target: Option<Vec<u8>>,
    /// The content of a retained file.
    pub content: Option<Vec<u8>>,
}

impl fmt::Debug for OwnedEntry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OwnedEntry")
            .field("kind", &self.kind)
            .field("mode", &self.mode)
            .field("uid", &self.uid)
            .field("gid", &self.gid)
            .field("size", &self.size)
            .field("target", &self.target)
            .field("content", &Hidden::of(self.content.as_deref()))
            .finish()
    }
}

impl OwnedEntry {
    /// A directory of root.
    pub fn directory(mode: u32) -> Self {
        Self { kind: Kind::Directory, mode, uid: 0, gid: 0, size: 0, target: None, content: None }
    }

    /// A file of root, 0644, with content.
    pub fn file(content: &[u8]) -> Self {
        Self {
            kind: Kind::File,
            mode: 0o644,
            size: content.len() as u64,
            content: Some(content.to_vec()),
            ..Self::directory(0)
        }
    }

    /// A symbolic link of root.
    pub fn symlink(target: &str) -> Self {
        Self {
            kind: Kind::Symlink,
            mode: 0o777,
            target: Some(target.as_bytes().to_vec()),
            ..Self::directory(0)
        }
    }
}

type NodeId = u32;
type InodeId = u32;
/// The node of `/`.
const ROOT: NodeId = 0;
