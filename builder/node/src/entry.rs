//! Writes and removes an entry of a directory that is open already.

use std::fs::File;
use std::io;
use std::os::fd::OwnedFd;

use rustix::fs::{AtFlags, Mode, OFlags, fsync, openat, renameat, unlinkat};
use rustix::io::Errno;
use rustix::path::Arg;

/// Puts a new file in place of an entry, whole or not at all, also if the power fails. `fill` writes
/// its content; `temporary` is its name until then, and a file that has it is removed.
pub(crate) fn write_entry(
    folder: &OwnedFd,
    (name, temporary): (&str, &str),
    mode: Mode,
    fill: impl FnOnce(&mut File) -> io::Result<()>,
) -> io::Result<()> {
    // One that was interrupted.
    remove_entry(folder, temporary, AtFlags::empty())?;
    let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let mut file = File::from(openat(folder, temporary, flags, mode)?);
    let written = fill(&mut file)
        .and_then(|()| file.sync_all())
        .and_then(|()| renameat(folder, temporary, folder, name).map_err(io::Error::from));
    if let Err(error) = written {
        // It may hold a secret. The first error is the one to report.
        if let Err(error) = remove_entry(folder, temporary, AtFlags::empty()) {
            tracing::error!("{temporary} of the machine can't be removed: {error}");
        }
        return Err(error);
    }
    Ok(fsync(folder)?)
}

/// Removes an entry, if there is one.
pub(crate) fn remove_entry(folder: &OwnedFd, name: impl Arg, flags: AtFlags) -> Result<(), Errno> {
    match unlinkat(folder, name, flags) {
        Err(Errno::NOENT) => Ok(()),
        removed => removed,
    }
}
