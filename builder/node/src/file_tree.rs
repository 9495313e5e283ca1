//! A directory of the machine and what is below it. No link is followed, neither at the end of a
//! path nor before it: one could lead out of what is compared.

use std::ffi::OsString;
use std::fs::File;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::path::{Path, PathBuf};

use rustix::fs::{Dir, FileType, Mode, OFlags, ResolveFlags, Stat, fstat, openat2, readlinkat};
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
        let found = match self.resolve(path, OFlags::PATH) {
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
            let folder = self.resolve(path, OFlags::RDONLY | OFlags::DIRECTORY)?;
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
        let open = || {
            // Without NONBLOCK a named pipe that took its place would block for ever.
            let file = self.resolve(path, OFlags::RDONLY | OFlags::NONBLOCK)?;
            let kind = FileType::from_raw_mode(fstat(&file)?.st_mode);
            if kind == FileType::RegularFile { Ok(File::from(file)) } else { Err(Errno::INVAL) }
        };
        open().map_err(|error| self.not_readable(path, error))
    }

    /// Opens a directory.
    pub fn open_folder(&self, path: &Path) -> Result<OwnedFd, Errno> {
        self.resolve(path, OFlags::RDONLY | OFlags::DIRECTORY)
    }

    pub fn not_readable(&self, path: &Path, error: impl Into<std::io::Error>) -> Error {
        let path = self.full_path(path).to_string_lossy().into_owned();
        Error::File { path, doing: "not readable", source: error.into() }
    }

    fn resolve(&self, path: &Path, flags: OFlags) -> Result<OwnedFd, Errno> {
        let flags = flags | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let how = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS;
        openat2(&self.folder, path, flags, Mode::empty(), how)
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
