//! What a layer must know about its base: every path with type, mode, owner and link target, and the content of the few
//! files that decide something.

use std::collections::BTreeMap;

/// What stands at a path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
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

/// Every path of a base image, never changed once made. Paths are written without the leading slash; the root is `""`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct BaseTree {
    entries: BTreeMap<Vec<u8>, OwnedEntry>,
}

impl BaseTree {
    /// A tree of these paths; the last one of a path wins. A missing root or parent is a directory 0755 of root.
    pub fn from_entries(entries: impl IntoIterator<Item = (Vec<u8>, OwnedEntry)>) -> Self {
        let mut tree = Self {
            entries: entries.into_iter().collect(),
        };
        let missing: Vec<Vec<u8>> = tree
            .entries
            .keys()
            .flat_map(|path| {
                path.iter()
                    .enumerate()
                    .filter(|(_, b)| **b == b'/')
                    .map(|(at, _)| path[..at].to_vec())
            })
            .chain([Vec::new()])
            .filter(|parent| !tree.entries.contains_key(parent))
            .collect();
        for parent in missing {
            tree.entries.insert(parent, OwnedEntry::directory(0o755));
        }
        tree
    }

    /// What stands at exactly this path; links are not followed.
    pub fn get(&self, path: &str) -> Option<Entry<'_>> {
        self.entries.get(path.as_bytes()).map(OwnedEntry::as_entry)
    }

    /// The names in a directory with what stands there, sorted by name.
    pub fn children<'a>(&'a self, path: &str) -> Vec<(&'a [u8], Entry<'a>)> {
        let prefix = if path.is_empty() {
            Vec::new()
        } else {
            [path.as_bytes(), b"/"].concat()
        };
        self.entries
            .range(prefix.clone()..)
            .take_while(|(path, _)| path.starts_with(&prefix))
            .filter_map(|(path, entry)| {
                let name = &path[prefix.len()..];
                (!name.is_empty() && !name.contains(&b'/')).then(|| (name, entry.as_entry()))
            })
            .collect()
    }

    /// The bytes of a regular file, if they are among those that are kept.
    pub fn content(&self, path: &str) -> Option<&[u8]> {
        self.entries.get(path.as_bytes())?.content.as_deref()
    }
}

impl OwnedEntry {
    /// A directory of root.
    pub fn directory(mode: u32) -> Self {
        Self {
            kind: Kind::Directory,
            mode,
            uid: 0,
            gid: 0,
            size: 0,
            target: None,
            content: None,
        }
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

    fn as_entry(&self) -> Entry<'_> {
        let Self {
            kind,
            mode,
            uid,
            gid,
            size,
            ..
        } = *self;
        Entry {
            kind,
            mode,
            uid,
            gid,
            size,
            target: self.target.as_deref(),
        }
    }
}
