//! Files that several processes write to one folder, each whole or not there, and what makes that
//! so: a lock, temporary names, renames.

use std::fs::File;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use mosb_safe_fs::{create_file, remove_entry, write_entry};
use rustix::fs::{
    AtFlags, FlockOperation, Mode, OFlags, flock, mkdirat, openat, renameat, unlinkat,
};
use rustix::io::Errno;

use crate::error::Error;
use crate::http::jitter;
use crate::layout::folder::{Folder, io, odd};

const LOCK: &str = ".mosb.lock";
/// Beginning of the names of what is being written.
pub(crate) const TEMPORARY: &str = ".mosb-tmp-";
/// The lock is held for a few file operations only; whoever holds it longer is stuck.
const LOCK_TIME: Duration = Duration::from_secs(60);

/// A file being written; removed with its writer unless it was renamed to its final name. It is
/// locked while its writer runs, so [`clear`] finds the files of writers that were killed.
#[derive(Debug)]
pub(crate) struct Temporary {
    dir: Arc<Folder>,
    name: String,
    named: bool,
}

impl Temporary {
    /// A new file. It is made and locked under the folder's lock, so that none is seen between the
    /// two.
    pub fn create(dir: Arc<Folder>) -> Result<(Self, File), Error> {
        let _lock = take(&dir)?;
        // Not of the process id: two containers have the same ones.
        let name = format!("{TEMPORARY}{:016x}", jitter());
        let file = create_file(dir.fd(), &*name, Mode::from_raw_mode(0o666))
            .map_err(|e| io(&dir.path().join(&name), "not writable", e))?;
        let temporary = Self { dir, name, named: false };
        flock(&file, FlockOperation::NonBlockingLockExclusive)
            .map_err(|e| io(&temporary.path(), "can't be locked", e))?;
        Ok((temporary, file))
    }

    pub fn path(&self) -> PathBuf {
        self.dir.path().join(&self.name)
    }

    /// Gives the file its name, in place of whatever had it.
    pub fn rename(mut self, folder: &Folder, name: &str) -> Result<(), Error> {
        renameat(self.dir.fd(), &*self.name, folder.fd(), name)
            .map_err(|e| io(&folder.path().join(name), "not writable", e))?;
        self.named = true;
        Ok(())
    }
}

impl Drop for Temporary {
    fn drop(&mut self) {
        if !self.named {
            // What can't be removed now is cleared away by the next writer.
            let _ = unlinkat(self.dir.fd(), &*self.name, AtFlags::empty());
        }
    }
}

/// Held until dropped.
#[derive(Debug)]
pub(crate) struct Lock(#[expect(dead_code, reason = "closing it is what lets go")] File);

/// An error of the file system, with what it happened to.
pub(crate) fn failed(path: &Path, doing: &'static str) -> impl FnOnce(std::io::Error) -> Error {
    let path = path.to_owned();
    move |source| Error::Io { path, doing, source }
}

/// A folder in a folder, made if it isn't there.
pub(crate) fn made(folder: &Folder, name: &str) -> Result<Folder, Error> {
    let path = folder.path().join(name);
    match mkdirat(folder.fd(), name, Mode::from_raw_mode(0o777)) {
        Ok(()) | Err(Errno::EXIST) => {}
        Err(e) => return Err(io(&path, "the folder can't be made", e)),
    }
    folder.below(name)?.ok_or_else(|| odd(&path, "vanished while it was used"))
}

/// The lock of a folder, waited for.
pub(crate) fn take(folder: &Folder) -> Result<Lock, Error> {
    let path = folder.path().join(LOCK);
    let flags = OFlags::RDWR | OFlags::CREATE | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let fd = openat(folder.fd(), LOCK, flags, Mode::from_raw_mode(0o666))
        .map_err(|e| io(&path, "not writable", e))?;
    let began = Instant::now();
    loop {
        match flock(&fd, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => return Ok(Lock(fd.into())),
            Err(Errno::WOULDBLOCK | Errno::INTR) if began.elapsed() < LOCK_TIME => {
                std::thread::sleep(Duration::from_millis(20));
            }
            Err(Errno::WOULDBLOCK) => {
                return Err(odd(
                    folder.path(),
                    "locked by another process for a minute; end it, or choose another folder",
                ));
            }
            Err(e) => return Err(io(&path, "can't be locked", e)),
        }
    }
}

/// Removes what killed writers left.
pub(crate) fn clear(folder: &Folder, dir: &Path) -> Result<(), Error> {
    for entry in std::fs::read_dir(dir).map_err(failed(dir, "not readable"))? {
        let name = entry.map_err(failed(dir, "not readable"))?.file_name();
        let Some(name) = name.to_str().filter(|name| name.starts_with(TEMPORARY)) else {
            continue;
        };
        let Some((file, _)) = folder.file(name)? else {
            continue;
        };
        if flock(&file, FlockOperation::NonBlockingLockExclusive).is_ok() {
            // Its writer may have ended in between, and given it its own name.
            remove_entry(folder.fd(), name, AtFlags::empty())
                .map_err(|e| io(&folder.path().join(name), "not removable", e))?;
        }
    }
    Ok(())
}

/// Replaces a file in one step; the layout's lock is held.
pub(crate) fn replace(folder: &Folder, name: &str, bytes: &[u8]) -> Result<(), Error> {
    let temporary = format!("{TEMPORARY}{name}");
    let mode = Mode::from_raw_mode(0o666);
    write_entry(folder.fd(), (name, &temporary), mode, |file| file.write_all(bytes))
        .map_err(failed(&folder.path().join(name), "not writable"))
}

/// The names in a folder are on disk after this.
pub(crate) fn sync(folder: &Folder) -> Result<(), Error> {
    rustix::fs::fsync(folder.fd()).map_err(|e| io(folder.path(), "not writable", e))
}
