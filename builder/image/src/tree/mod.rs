//! What a layer must know about its base: every path with type, mode, owner and link target, and the content of the few
//! files that decide something.
//!
//! In come the [`Delta`](super::layer::Delta)s of the layers, in their order, into a [`Builder`]; out goes a [`BaseTree`],
//! which is one piece of bytes that is written to a cache and read from it as it is. The invariant: equal trees are equal
//! bytes, and no bytes, however damaged or hostile, make reading a tree panic or loop.
//!
//! Left out, after they served to resolve hard links, is what lies below `sysroot/ostree/repo/objects`: names are hashes
//! there, and no config can mean one of them. [`retained`] lists whose content is retained.

mod builder;
mod finish;
mod frozen;
mod node_id;
pub mod retained;
mod symlink;

pub use builder::Builder;
pub use finish::MissingContent;
pub use frozen::{BaseTree, FrozenError, VERSION};

/// What stands at a path.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Kind {
    /// A directory.
    Directory,
    /// A regular file.
    File,
    /// A symbolic link.
    Symlink,
    /// A device, pipe or socket.
    Other,
}

/// One path of the base as its inode says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Entry<'a> {
    /// Its type.
    pub kind: Kind,
    /// Permission bits with setuid, setgid and sticky (`07777`).
    pub mode: u32,
    /// Numeric owner.
    pub uid: u32,
    /// Numeric group.
    pub gid: u32,
    /// Bytes of a regular file, else 0.
    pub size: u64,
    /// Where a symbolic link points, as it is written there.
    pub target: Option<&'a [u8]>,
}

/// An owned [`Entry`], with the content if it is kept.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OwnedEntry {
    /// Its type.
    pub kind: Kind,
    /// Permission bits with setuid, setgid and sticky (`07777`).
    pub mode: u32,
    /// Numeric owner.
    pub uid: u32,
    /// Numeric group.
    pub gid: u32,
    /// Bytes of a regular file, else 0.
    pub size: u64,
    /// Where a symbolic link points.
    pub target: Option<Vec<u8>>,
    /// The bytes of a file that decides something.
    pub content: Option<Vec<u8>>,
}

impl OwnedEntry {
    /// A directory of root.
    pub fn directory(mode: u32) -> Self {
        Self { kind: Kind::Directory, mode, uid: 0, gid: 0, size: 0, target: None, content: None }
    }

    /// A file of root, 0644, whose content is kept.
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
