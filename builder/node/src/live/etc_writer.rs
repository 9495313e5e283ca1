//! Writes single entries of `/etc` as an image has them. No link is followed, and each entry is
//! replaced whole or not at all.

use std::ffi::OsStr;
use std::fs::File;
use std::io::{self, Write as _};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;

use mosb_image::overlay::Meta;
use rustix::fs::{
    AtFlags, Gid, Mode, Uid, chownat, fchmod, fchown, fsync, mkdirat, renameat, symlinkat,
};
use rustix::io::Errno;

use crate::error::Error;
use crate::file_tree::{EntryState, FileTree, entry_state};
use crate::host_root::{HostRoot, TEMPORARY};
use mosb_safe_fs::{copy_attributes, open_folder_beneath, remove_entry, write_entry};

/// The machine's `/etc`.
#[derive(Debug)]
pub(super) struct EtcWriter {
    etc: OwnedFd,
}

impl EtcWriter {
    pub fn open(root: &HostRoot) -> Result<Self, Error> {
        let etc = root.folder("/etc").map_err(|error| failed("", error.into()))?;
        Ok(Self { etc })
    }

    /// Makes a path as the image has it; its directory is there. What is not empty stays.
    pub fn bring(&self, path: &str, image: &FileTree) -> Result<(), Error> {
        let wanted = entry_state(image, Path::new(path))?;
        let put = || -> io::Result<()> {
            let (folder, name) = self.folder_of(path)?;
            let temporary = format!("{name}{TEMPORARY}");
            match wanted {
                None => {
                    match remove_entry(&folder, name, AtFlags::empty()) {
                        Err(Errno::ISDIR) => remove_folder(&folder, name)?,
                        removed => removed?,
                    }
                    fsync(&folder)?;
                }
                Some(EntryState::Directory { meta }) => {
                    match mkdirat(&folder, name, Mode::RWXU) {
                        Ok(()) | Err(Errno::EXIST) => {}
                        Err(error) => return Err(error.into()),
                    }
                    let made = open_folder_beneath(&folder, name)?;
                    give(&made, meta)?;
                    copy_attributes(image.open_folder(Path::new(path))?, &made)?;
                    fsync(&made)?;
                    fsync(&folder)?;
                }
                Some(EntryState::File { meta, content: Some(content) }) => {
                    let source = image.open(Path::new(path)).map_err(io::Error::other)?;
                    let fill = |file: &mut File| {
                        give(&*file, meta)?;
                        copy_attributes(&source, &*file)?;
                        file.write_all(&content)
                    };
                    write_entry(&folder, (name, &temporary), Mode::RUSR | Mode::WUSR, fill)?;
                }
                Some(EntryState::Link { uid, gid, target }) => {
                    remove_entry(&folder, &*temporary, AtFlags::empty())?;
                    symlinkat(OsStr::from_bytes(&target), &folder, &*temporary)?;
                    let (uid, gid) = (Uid::from_raw(uid), Gid::from_raw(gid));
                    chownat(&folder, &*temporary, Some(uid), Some(gid), AtFlags::SYMLINK_NOFOLLOW)?;
                    renameat(&folder, &*temporary, &folder, name)?;
                    fsync(&folder)?;
                }
                Some(EntryState::File { content: None, .. } | EntryState::Other) => {
                    return Err(Errno::INVAL.into());
                }
            }
            Ok(())
        };
        put().map_err(|error| failed(path, error))
    }

    /// Removes what a write that was killed left beside a path.
    pub fn clean(&self, path: &str) -> Result<(), Error> {
        let clean = || -> io::Result<()> {
            let (folder, name) = match self.folder_of(path) {
                Err(error) if is_missing(&error) => return Ok(()),
                found => found?,
            };
            Ok(remove_entry(&folder, format!("{name}{TEMPORARY}"), AtFlags::empty())?)
        };
        clean().map_err(|error| failed(path, error))
    }

    /// The directory that a path is in, and its name there.
    fn folder_of<'p>(&self, path: &'p str) -> io::Result<(OwnedFd, &'p str)> {
        let (folder, name) = path.rsplit_once('/').unwrap_or((".", path));
        Ok((open_folder_beneath(&self.etc, folder)?, name))
    }
}

/// A directory that a link took the place of is missing too.
fn is_missing(error: &io::Error) -> bool {
    let errors = [Errno::NOENT, Errno::NOTDIR, Errno::LOOP];
    errors.iter().any(|missing| error.raw_os_error() == Some(missing.raw_os_error()))
}

/// Removes a directory if it is empty.
fn remove_folder(folder: &OwnedFd, name: &str) -> Result<(), Errno> {
    match remove_entry(folder, name, AtFlags::REMOVEDIR) {
        Err(Errno::NOTEMPTY | Errno::EXIST) => {
            tracing::warn!("a directory of /etc has other files, so it stays");
            Ok(())
        }
        removed => removed,
    }
}

fn give(file: impl AsFd, meta: Meta) -> Result<(), Errno> {
    fchown(&file, Some(Uid::from_raw(meta.uid)), Some(Gid::from_raw(meta.gid)))?;
    fchmod(file, Mode::from_raw_mode(meta.mode))
}

fn failed(path: &str, source: io::Error) -> Error {
    Error::File { path: format!("/etc/{path}"), doing: "not writable", source }
}
