//! Writes, replaces and removes an entry of a directory that is open already, and the extended
//! attributes of a file, such as SELinux's label.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, Write as _};
use std::os::fd::{AsFd, OwnedFd};

use rustix::fs::{
    AtFlags, FileType, Gid, Mode, OFlags, Uid, XattrFlags, fchmod, fchown, fgetxattr, flistxattr,
    fsetxattr, fstat, fsync, openat, renameat, unlinkat,
};
use rustix::io::Errno;
use rustix::path::Arg;

use crate::error::Error;
use crate::host_root::{HostRoot, TEMPORARY, failed, split};

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

/// The most bytes of the names of a file's attributes, and of one of them (xattr(7)).
const ATTRIBUTE: usize = 64 * 1024;
/// Attributes that depend on the content; the kernel writes them.
const OF_CONTENT: [&str; 2] = ["security.ima", "security.evm"];

/// The attributes of an open file or directory, by name.
pub(crate) fn attributes(file: impl AsFd) -> Result<BTreeMap<Vec<u8>, Vec<u8>>, Errno> {
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
pub(crate) fn copy_attributes(old: impl AsFd, new: impl AsFd) -> Result<(), Errno> {
    for (name, value) in attributes(old)? {
        fsetxattr(&new, &*name, &value, XattrFlags::empty())?;
    }
    Ok(())
}

/// Replaces the content of a regular file, whole or not at all, also if the power fails. Owner, mode
/// and extended attributes, such as SELinux's label, stay.
///
/// # Errors
/// The file is missing or a link, or it can't be replaced.
pub(crate) fn replace(root: &HostRoot, path: &str, bytes: &[u8]) -> Result<(), Error> {
    let failed = |error: Errno| failed(path, "can't be replaced", error);
    let (folder, name) = split(path);
    let folder = root.folder(folder).map_err(failed)?;
    let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let old = openat(&folder, name, flags, Mode::empty()).map_err(failed)?;
    let stat = fstat(&old).map_err(failed)?;
    if FileType::from_raw_mode(stat.st_mode) != FileType::RegularFile {
        return Err(failed(Errno::INVAL));
    }
    let temporary = format!(".{name}{TEMPORARY}");
    let fill = |file: &mut File| {
        fchown(&*file, Some(Uid::from_raw(stat.st_uid)), Some(Gid::from_raw(stat.st_gid)))?;
        fchmod(&*file, Mode::from_raw_mode(stat.st_mode & 0o7777))?;
        copy_attributes(&old, &*file)?;
        file.write_all(bytes)
    };
    let written = write_entry(&folder, (name, &temporary), Mode::RUSR | Mode::WUSR, fill);
    written.map_err(|source| Error::File {
        path: path.to_owned(),
        doing: "can't be replaced",
        source,
    })
}

#[cfg(test)]
mod replaced_file_tests {
    use super::*;
    use rustix::fs::{XattrFlags, fgetxattr, fsetxattr};
    use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, symlink};

    #[test]
    fn mode_and_attributes_stay_and_a_killed_write_is_cleaned_up() {
        let dir = tempfile::tempdir().unwrap();
        let root = HostRoot::open(dir.path()).unwrap();
        let path = "/etc/shadow";
        root.write(path, b"old", 0o640).unwrap();
        let full = dir.path().join("etc/shadow");
        std::fs::set_permissions(&full, std::fs::Permissions::from_mode(0o604)).unwrap();
        let file = File::open(&full).unwrap();
        let is_supported = fsetxattr(&file, "user.label", b"kept", XattrFlags::empty()).is_ok();
        std::fs::write(dir.path().join("etc/.shadow.mosb-new"), "half").unwrap();
        let before = full.metadata().unwrap();
        replace(&root, path, b"new").unwrap();
        let after = full.metadata().unwrap();
        assert_eq!(root.text(path, 10).unwrap().as_deref(), Some("new"));
        assert_ne!(before.ino(), after.ino(), "it was replaced, not overwritten");
        assert_eq!(
            (before.mode(), before.uid(), before.gid()),
            (after.mode(), after.uid(), after.gid())
        );
        if is_supported {
            let mut value = [0_u8; 10];
            let file = File::open(&full).unwrap();
            assert_eq!(fgetxattr(&file, "user.label", &mut value[..]), Ok(4));
        }
        assert_eq!(std::fs::read_dir(dir.path().join("etc")).unwrap().count(), 1);
    }

    #[test]
    fn a_link_or_a_missing_file_is_not_written() {
        let dir = tempfile::tempdir().unwrap();
        let root = HostRoot::open(dir.path()).unwrap();
        std::fs::create_dir(dir.path().join("etc")).unwrap();
        assert!(replace(&root, "/etc/shadow", b"new").is_err());
        std::fs::write(dir.path().join("victim"), "victim").unwrap();
        symlink("../victim", dir.path().join("etc/shadow")).unwrap();
        assert!(replace(&root, "/etc/shadow", b"new").is_err());
        assert_eq!(std::fs::read_to_string(dir.path().join("victim")).unwrap(), "victim");
        assert_eq!(std::fs::read_dir(dir.path().join("etc")).unwrap().count(), 1);
    }
}
