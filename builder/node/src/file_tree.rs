//! A directory of the machine or of its image, and what is below it. No link is followed, neither at
//! the end of a path nor before it: one could lead out of what is compared.

use std::ffi::OsString;
use std::fs::File;
use std::io::Read as _;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::path::{Path, PathBuf};

use mosb_image::Digest;
use mosb_image::overlay::Meta;
use mosb_safe_fs::{open_beneath, open_file_beneath, open_folder_beneath};
use rustix::fs::{Dir, FileType, OFlags, Stat, fstat, readlinkat};
use rustix::io::Errno;

use crate::error::Error;

/// Bits of a mode that are not the type.
const PERMISSIONS: u32 = 0o7777;

/// A directory. Paths are relative to it.
#[derive(Debug)]
pub(crate) struct FileTree {
    folder: OwnedFd,
    /// Its path on the machine.
    path: String,
}

/// What a path is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Entry {
    pub kind: EntryKind,
    pub mode: u32,
    pub uid: u32,
    pub gid: u32,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum EntryKind {
    File { size: u64 },
    Directory,
    Link { target: Vec<u8> },
    Other,
}

impl FileTree {
    pub fn new(folder: OwnedFd, path: &str) -> Self {
        Self { folder, path: path.to_owned() }
    }

    /// The path on the machine.
    pub fn full_path(&self, path: &Path) -> PathBuf {
        Path::new(&self.path).join(path)
    }

    /// What is there; none if nothing is, or if its parent is a link.
    pub fn entry(&self, path: &Path) -> Result<Option<Entry>, Error> {
        let found = match open_beneath(&self.folder, path, OFlags::PATH | OFlags::NOFOLLOW) {
            Ok(found) => found,
            Err(Errno::NOENT | Errno::NOTDIR | Errno::LOOP) => return Ok(None),
            Err(error) => return Err(self.not_readable(path, error)),
        };
        entry_of(&found).map(Some).map_err(|error| self.not_readable(path, error))
    }

    /// The names in a directory; the empty path is the tree itself.
    pub fn names(&self, path: &Path) -> Result<Vec<OsString>, Error> {
        let path = if path.as_os_str().is_empty() { Path::new(".") } else { path };
        let read = || {
            let folder = open_folder_beneath(&self.folder, path)?;
            let entries = Dir::read_from(&folder)?;
            let mut names = Vec::new();
            for entry in entries {
                let name = entry?.file_name().to_bytes().to_vec();
                if !matches!(&*name, b"." | b"..") {
                    names.push(OsString::from_vec(name));
                }
            }
            Ok(names)
        };
        read().map_err(|error: Errno| self.not_readable(path, error))
    }

    /// Opens a regular file for reading.
    pub fn open(&self, path: &Path) -> Result<File, Error> {
        let opened = open_file_beneath(&self.folder, path);
        opened.map(|(file, _)| file).map_err(|error| self.not_readable(path, error))
    }

    /// Opens a directory.
    pub fn open_folder(&self, path: &Path) -> Result<OwnedFd, Errno> {
        open_folder_beneath(&self.folder, path)
    }

    pub fn not_readable(&self, path: &Path, error: impl Into<std::io::Error>) -> Error {
        let path = self.full_path(path).to_string_lossy().into_owned();
        Error::File { path, doing: "not readable", source: error.into() }
    }
}

fn entry_of(found: &OwnedFd) -> Result<Entry, Errno> {
    let Stat { st_mode, st_uid, st_gid, st_size, .. } = fstat(found)?;
    let kind = match FileType::from_raw_mode(st_mode) {
        FileType::RegularFile => EntryKind::File { size: st_size.unsigned_abs() },
        FileType::Directory => EntryKind::Directory,
        FileType::Symlink => {
            let target = readlinkat(found, "", Vec::new())?;
            EntryKind::Link { target: target.as_bytes().to_vec() }
        }
        _ => EntryKind::Other,
    };
    Ok(Entry { kind, mode: st_mode & PERMISSIONS, uid: st_uid, gid: st_gid })
}

/// A path for people and scripts; what is not UTF-8 is replaced.
pub(crate) fn path_text(path: &Path) -> String {
    String::from_utf8_lossy(path.as_os_str().as_bytes()).into_owned()
}

/// The most bytes of a file that a config can write (`builder/plan/src/plan/apply/mod.rs`).
const FILE_LIMIT: u64 = 64 * 1024 * 1024;

/// What is at a path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum EntryState {
    File {
        meta: Meta,
        /// None if it is larger than any that a config writes.
        content: Option<Vec<u8>>,
    },
    Directory {
        meta: Meta,
    },
    Link {
        uid: u32,
        gid: u32,
        target: Vec<u8>,
    },
    Other,
}

/// What is at a path; none if nothing is, or if its parent is a link.
pub(crate) fn entry_state(tree: &FileTree, path: &Path) -> Result<Option<EntryState>, Error> {
    let Some(entry) = tree.entry(path)? else { return Ok(None) };
    let meta = Meta { mode: entry.mode, uid: entry.uid, gid: entry.gid };
    Ok(Some(match entry.kind {
        EntryKind::File { .. } => {
            let mut content = Vec::new();
            let mut file = tree.open(path)?.take(FILE_LIMIT + 1);
            file.read_to_end(&mut content).map_err(|error| tree.not_readable(path, error))?;
            let is_whole = content.len() as u64 <= FILE_LIMIT;
            EntryState::File { meta, content: is_whole.then_some(content) }
        }
        EntryKind::Directory => EntryState::Directory { meta },
        EntryKind::Link { target } => EntryState::Link { uid: meta.uid, gid: meta.gid, target },
        EntryKind::Other => EntryState::Other,
    }))
}

impl EntryState {
    /// What `compose.sh` compares with: the type, the mode, the owner, and the digest of the content.
    pub fn fingerprint(&self) -> String {
        match self {
            Self::File { meta, content } => {
                let digest = content.as_ref().map(|content| Digest::of(content).hex());
                let Meta { mode, uid, gid } = meta;
                format!("f {mode:o} {uid} {gid} {}", digest.unwrap_or_default())
            }
            Self::Directory { meta: Meta { mode, uid, gid } } => {
                format!("d {mode:o} {uid} {gid} -")
            }
            Self::Link { uid, gid, target } => {
                format!("l - {uid} {gid} {}", Digest::of(target).hex())
            }
            Self::Other => "o".to_owned(),
        }
    }
}

/// What a record has of a state; `-` of nothing.
pub(crate) fn fingerprint(state: Option<&EntryState>) -> String {
    state.map_or_else(|| "-".to_owned(), EntryState::fingerprint)
}
