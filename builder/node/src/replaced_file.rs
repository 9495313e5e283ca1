//! Replaces the content of a file of the machine, and nothing else of it.

use std::fs::File;
use std::io::Write as _;

use rustix::fs::{FileType, Gid, Mode, OFlags, Uid, fchmod, fchown, fstat, openat};
use rustix::io::Errno;

use crate::attributes::copy_attributes;
use crate::entry::write_entry;
use crate::error::Error;
use crate::host_root::{HostRoot, TEMPORARY, failed, split};

/// Replaces the content of a regular file, whole or not at all, also if the power fails. Owner, mode
/// and extended attributes, such as SELinux's label, stay.
///
/// # Errors
/// There is no such file, it is a link, or it can't be replaced.
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
mod tests {
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
