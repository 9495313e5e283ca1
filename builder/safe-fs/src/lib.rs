//! Opens and replaces entries of a directory that is open already, where others may put links and
//! named pipes while this runs.
//!
//! Not cap-std, whose directories follow links that stay inside of them: one could lead out of what is
//! compared, or into what is somebody else's. Its `atomic_write` chooses the name of the temporary file,
//! so a later run could not remove what a killed one left, which may be a secret.

use std::collections::BTreeMap;
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, OwnedFd};

use rustix::fs::{
    AtFlags, FileType, Mode, OFlags, ResolveFlags, Stat, XattrFlags, fgetxattr, flistxattr,
    fsetxattr, fstat, fsync, openat, openat2, renameat, unlinkat,
};
use rustix::io::Errno;
use rustix::path::Arg;

/// The most times that the kernel is asked to resolve a path.
const TRIES: usize = 128;

/// Opens a path below a directory. No link is followed, neither at the end of the path nor before it;
/// `PATH` with `NOFOLLOW` opens a link itself.
///
/// # Errors
/// `LOOP` if there is a link. With `NOFOLLOW`, a link in place of a directory would be `NOTDIR`.
pub fn open_beneath(folder: impl AsFd, path: impl Arg, flags: OFlags) -> Result<OwnedFd, Errno> {
    resolve(folder, path, flags, ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS)
}

/// Opens a path as if this directory were `/`: links are followed within it.
pub fn open_in_root(folder: impl AsFd, path: impl Arg, flags: OFlags) -> Result<OwnedFd, Errno> {
    resolve(folder, path, flags, ResolveFlags::IN_ROOT)
}

/// At `..` the kernel gives up if anything on the machine is renamed or mounted meanwhile (openat2(2),
/// `EAGAIN`), so it is asked again.
fn resolve(
    folder: impl AsFd,
    path: impl Arg,
    flags: OFlags,
    how: ResolveFlags,
) -> Result<OwnedFd, Errno> {
    path.into_with_c_str(|path| {
        let mut tries = 1..TRIES;
        loop {
            match openat2(&folder, path, flags | OFlags::CLOEXEC, Mode::empty(), how) {
                Err(Errno::AGAIN) if tries.next().is_some() => {}
                opened => return opened,
            }
        }
    })
}

/// Opens a directory below another one, as [`open_beneath`] does.
pub fn open_folder_beneath(folder: impl AsFd, path: impl Arg) -> Result<OwnedFd, Errno> {
    open_beneath(folder, path, OFlags::RDONLY | OFlags::DIRECTORY)
}

/// Opens a regular file below a directory, as [`open_beneath`] does.
///
/// # Errors
/// `INVAL` if it is something else, and `LOOP` if it is a link.
pub fn open_file_beneath(folder: impl AsFd, path: impl Arg) -> Result<(File, Stat), Errno> {
    // Without NONBLOCK a named pipe would block for ever.
    regular(open_beneath(folder, path, OFlags::RDONLY | OFlags::NONBLOCK)?)
}

/// Opens a regular file that is in a directory, as [`open_file_beneath`] does. `name` must not be a
/// path. This works also on kernels and in sandboxes that don't have `openat2`.
pub fn open_file(folder: impl AsFd, name: impl Arg) -> Result<(File, Stat), Errno> {
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    regular(openat(folder, name, flags, Mode::empty())?)
}

fn regular(opened: OwnedFd) -> Result<(File, Stat), Errno> {
    let stat = fstat(&opened)?;
    match FileType::from_raw_mode(stat.st_mode) {
        FileType::RegularFile => Ok((File::from(opened), stat)),
        _ => Err(Errno::INVAL),
    }
}

/// Creates a file where nothing is.
pub fn create_file(folder: impl AsFd, name: impl Arg, mode: Mode) -> Result<File, Errno> {
    let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    openat(folder, name, flags, mode).map(File::from)
}

/// Puts a new file in place of an entry, whole or not at all, also if the power fails. `fill` writes
/// its content; `temporary` is its name until then, and a file that has it is removed.
pub fn write_entry(
    folder: &OwnedFd,
    (name, temporary): (&str, &str),
    mode: Mode,
    fill: impl FnOnce(&mut File) -> io::Result<()>,
) -> io::Result<()> {
    let named = |error: Errno| {
        let error = io::Error::from(error);
        io::Error::new(error.kind(), format!("{temporary}: {error}"))
    };
    // One that was interrupted.
    remove_entry(folder, temporary, AtFlags::empty()).map_err(named)?;
    let mut file = create_file(folder, temporary, mode).map_err(named)?;
    let written = fill(&mut file)
        .and_then(|()| file.sync_all())
        .and_then(|()| renameat(folder, temporary, folder, name).map_err(io::Error::from));
    if let Err(error) = written {
        // It may hold a secret.
        return Err(match remove_entry(folder, temporary, AtFlags::empty()) {
            Ok(()) => error,
            Err(kept) => {
                let both = format!("{error}; {temporary} can't be removed: {kept}");
                io::Error::new(error.kind(), both)
            }
        });
    }
    Ok(fsync(folder)?)
}

/// Removes an entry, if there is one.
pub fn remove_entry(folder: &OwnedFd, name: impl Arg, flags: AtFlags) -> Result<(), Errno> {
    match unlinkat(folder, name, flags) {
        Err(Errno::NOENT) => Ok(()),
        removed => removed,
    }
}

/// The most bytes of the names of a file's attributes, and of one of them (xattr(7)).
const ATTRIBUTE: usize = 64 * 1024;
/// Attributes that depend on the content; the kernel writes them.
const OF_CONTENT: [&str; 2] = ["security.ima", "security.evm"];

/// The attributes of an open file or directory, by name.
pub fn attributes(file: impl AsFd) -> Result<BTreeMap<Vec<u8>, Vec<u8>>, Errno> {
    let mut names = vec![0_u8; ATTRIBUTE];
    let length = match flistxattr(&file, &mut names[..]) {
        Ok(length) => length,
        Err(Errno::NOTSUP) => 0,
        Err(error) => return Err(error),
    };
    let mut found = BTreeMap::new();
    for name in names[..length].split(|byte| *byte == 0).filter(|name| !name.is_empty()) {
        if OF_CONTENT.iter().any(|other| other.as_bytes() == name) {
            continue;
        }
        let mut value = vec![0_u8; ATTRIBUTE];
        let length = fgetxattr(&file, name, &mut value[..])?;
        value.truncate(length);
        found.insert(name.to_vec(), value);
    }
    Ok(found)
}

/// Gives a new file the attributes of an old one.
pub fn copy_attributes(old: impl AsFd, new: impl AsFd) -> Result<(), Errno> {
    for (name, value) in attributes(old)? {
        fsetxattr(&new, &*name, &value, XattrFlags::empty())?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::fs::{CWD, mkfifoat};
    use std::os::unix::fs::symlink;
    use std::sync::atomic::{AtomicBool, Ordering};

    #[test]
    fn renames_elsewhere_do_not_matter() {
        let dir = tempfile::tempdir().unwrap();
        let path = |name: &str| dir.path().join(name);
        std::fs::create_dir(path("folder")).unwrap();
        std::fs::write(path("file"), "x").unwrap();
        symlink("../file", path("folder/link")).unwrap();
        let folder = File::open(dir.path()).unwrap();
        let ended = AtomicBool::new(false);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                let (one, other) = (path("one"), path("other"));
                std::fs::write(&one, "").unwrap();
                while !ended.load(Ordering::Relaxed) {
                    std::fs::rename(&one, &other).unwrap();
                    std::fs::rename(&other, &one).unwrap();
                }
            });
            let opened = (0..50_000)
                .try_for_each(|_| open_in_root(&folder, "/folder/link", OFlags::PATH).map(drop));
            ended.store(true, Ordering::Relaxed);
            assert_eq!(opened, Ok(()));
        });
    }

    #[test]
    fn only_regular_files_below_are_opened() {
        let dir = tempfile::tempdir().unwrap();
        let path = |name: &str| dir.path().join(name);
        std::fs::create_dir(path("folder")).unwrap();
        std::fs::write(path("folder/file"), "x").unwrap();
        symlink("folder", path("link")).unwrap();
        symlink("folder/file", path("file-link")).unwrap();
        mkfifoat(CWD, path("pipe"), Mode::RUSR).unwrap();
        let folder = File::open(dir.path()).unwrap();
        for (what, name, want) in [
            ("a file", "folder/file", Ok(1)),
            ("nothing", "none", Err(Errno::NOENT)),
            ("a directory", "folder", Err(Errno::INVAL)),
            ("a pipe", "pipe", Err(Errno::INVAL)),
            ("a link", "file-link", Err(Errno::LOOP)),
            ("below a link", "link/file", Err(Errno::LOOP)),
            ("outside", "../file", Err(Errno::XDEV)),
        ] {
            let size = |found: Result<(File, Stat), Errno>| found.map(|(_, stat)| stat.st_size);
            assert_eq!(size(open_file_beneath(&folder, name)), want, "{what}");
            if !name.contains('/') {
                assert_eq!(size(open_file(&folder, name)), want, "{what}");
            }
        }
        assert_eq!(open_folder_beneath(&folder, "link").unwrap_err(), Errno::LOOP);
    }

    #[test]
    fn a_failed_write_leaves_the_old_file() {
        let dir = tempfile::tempdir().unwrap();
        let folder = OwnedFd::from(File::open(dir.path()).unwrap());
        // A killed run left the second.
        for (name, text) in [("file", "old"), (".new", "half")] {
            std::fs::write(dir.path().join(name), text).unwrap();
        }
        let written = write_entry(&folder, ("file", ".new"), Mode::RUSR, |_| {
            Err(io::ErrorKind::StorageFull.into())
        });
        assert!(written.is_err());
        assert_eq!(std::fs::read_to_string(dir.path().join("file")).unwrap(), "old");
        assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 1);
    }

    #[test]
    fn errors_of_the_temporary_file_name_it() {
        let dir = tempfile::tempdir().unwrap();
        let folder = OwnedFd::from(File::open(dir.path()).unwrap());
        let temporary = dir.path().join(".new");
        let write = |fill: &dyn Fn() -> io::Result<()>| {
            write_entry(&folder, ("file", ".new"), Mode::RUSR, |_| fill()).unwrap_err()
        };
        let error = write(&|| {
            std::fs::remove_file(&temporary)?;
            std::fs::create_dir(&temporary)?;
            Err(io::ErrorKind::StorageFull.into())
        });
        assert_eq!(error.kind(), io::ErrorKind::StorageFull);
        assert!(error.to_string().contains("; .new can't be removed: "), "{error}");
        // The directory is still there.
        let error = write(&|| Ok(()));
        assert_eq!(error.kind(), io::ErrorKind::IsADirectory);
        assert!(error.to_string().starts_with(".new: "), "{error}");
    }
}
