//! The files of the machine. Each path is resolved with the machine's root as `/`, so neither an
//! absolute link nor `..` leads into the container that this runs in.

use std::ffi::OsStr;
use std::fs::File;
use std::io::{Read as _, Write as _};
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;

use rustix::fs::{
    AtFlags, Dir, FileType, FlockOperation, Mode, OFlags, fchmod, flock, fstat, fstatvfs, mkdirat,
    openat, readlinkat, symlinkat,
};
use rustix::io::Errno;

use crate::error::Error;
use crate::file_tree::FileTree;
use mosb_safe_fs::{open_in_root, remove_entry, write_entry};

/// End of the name of a file that is being written.
pub(crate) const TEMPORARY: &str = ".mosb-new";

/// How deep a directory that is removed may be.
const MAX_DEPTH: usize = 64;

/// The root of a machine. Paths are absolute, as on the machine.
#[derive(Debug)]
pub(crate) struct HostRoot(OwnedFd);

impl HostRoot {
    pub fn open(path: &Path) -> Result<Self, Errno> {
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        rustix::fs::open(path, flags, Mode::empty()).map(Self)
    }

    /// Whether there is a file or directory; a dangling link is neither.
    pub fn exists(&self, path: &str) -> bool {
        self.resolve(path, OFlags::PATH).is_ok()
    }

    /// Device and inode, which tell whether two paths are one directory.
    pub fn identity(&self, path: &str) -> Option<(u64, u64)> {
        let found = fstat(&self.resolve(path, OFlags::PATH).ok()?).ok()?;
        Some((found.st_dev, found.st_ino))
    }

    /// A directory with what is below it.
    pub fn tree(&self, path: &str) -> Result<FileTree, Error> {
        let folder = self.folder(path).map_err(|error| failed(path, "not readable", error))?;
        Ok(FileTree::new(folder, path))
    }

    /// How many bytes of the file system of a directory are free.
    pub fn free_bytes(&self, path: &str) -> Result<u64, Error> {
        let found = self.folder(path).and_then(|folder| fstatvfs(&folder));
        let found = found.map_err(|error| failed(path, "not readable", error))?;
        Ok(found.f_bavail.saturating_mul(found.f_frsize))
    }

    /// All of a regular file; `None` if it does not exist.
    pub fn read(&self, path: &str, limit: u64) -> Result<Option<Vec<u8>>, Error> {
        let failed = |error: Errno| failed(path, "not readable", error);
        // Without NONBLOCK a named pipe would block for ever.
        let fd = match self.resolve(path, OFlags::RDONLY | OFlags::NONBLOCK) {
            Ok(fd) => fd,
            Err(Errno::NOENT | Errno::NOTDIR) => return Ok(None),
            Err(error) => return Err(failed(error)),
        };
        let stat = fstat(&fd).map_err(failed)?;
        if FileType::from_raw_mode(stat.st_mode) != FileType::RegularFile {
            return Err(failed(Errno::INVAL));
        }
        let mut bytes = Vec::new();
        File::from(fd).take(limit + 1).read_to_end(&mut bytes).map_err(|source| Error::File {
            path: path.to_owned(),
            doing: "not readable",
            source,
        })?;
        if bytes.len() as u64 > limit {
            return Err(Error::FileTooLarge { path: path.to_owned(), limit });
        }
        Ok(Some(bytes))
    }

    /// A small text; what is not UTF-8 is replaced.
    pub fn text(&self, path: &str, limit: u64) -> Result<Option<String>, Error> {
        let bytes = self.read(path, limit)?;
        Ok(bytes.map(|bytes| String::from_utf8_lossy(&bytes).into_owned()))
    }

    /// The text of a link; `None` if it is not a link.
    pub fn link(&self, path: &str) -> Option<String> {
        let (folder, name) = split(path);
        let folder = self.folder(folder).ok()?;
        let text = readlinkat(&folder, name, Vec::new()).ok()?;
        text.into_string().ok()
    }

    /// Writes a file, whole or not at all, also if the power fails. Missing directories are made.
    pub fn write(&self, path: &str, bytes: &[u8], mode: u32) -> Result<(), Error> {
        let failed = |error: Errno| failed(path, "not writable", error);
        let (folder, name) = split(path);
        let folder = self.made_folder(folder).map_err(failed)?;
        let temporary = format!("{name}{TEMPORARY}");
        let mode = Mode::from_raw_mode(mode);
        let written = write_entry(&folder, (name, &temporary), mode, |file| file.write_all(bytes));
        written.map_err(|source| Error::File {
            path: path.to_owned(),
            doing: "not writable",
            source,
        })
    }

    /// Makes a directory for root alone, unless there is one.
    pub fn make_private_folder(&self, path: &str) -> Result<(), Error> {
        let failed = |error: Errno| failed(path, "can't be made", error);
        let (parent, name) = split(path);
        let parent = self.made_folder(parent).map_err(failed)?;
        match mkdirat(&parent, name, Mode::RWXU) {
            Ok(()) | Err(Errno::EXIST) => Ok(()),
            Err(error) => Err(failed(error)),
        }
    }

    /// Makes a directory that is root's alone, also if there is one that others may read.
    pub fn make_folder_private(&self, path: &str) -> Result<(), Error> {
        self.make_private_folder(path)?;
        let folder = self.folder(path).and_then(|folder| fchmod(folder, Mode::RWXU));
        folder.map_err(|error| failed(path, "can't be made private", error))
    }

    /// Makes a link where nothing is.
    pub fn make_link(&self, path: &str, text: &str) -> Result<(), Error> {
        let failed = |error: Errno| failed(path, "no link can be made there", error);
        let (folder, name) = split(path);
        let folder = self.made_folder(folder).map_err(failed)?;
        symlinkat(text, &folder, name).map_err(failed)
    }

    /// Removes a file or link, if there is one.
    pub fn remove(&self, path: &str) -> Result<(), Error> {
        self.remove_as(path, AtFlags::empty())
    }

    /// Removes a file that [`write`](Self::write) wrote, and what a write that was killed left of it.
    pub fn remove_written(&self, path: &str) -> Result<(), Error> {
        self.remove(path)?;
        self.remove(&format!("{path}{TEMPORARY}"))
    }

    /// Locks a directory until the result is dropped or this process ends; none if another process
    /// has it locked.
    pub fn lock_folder(&self, path: &str) -> Result<Option<OwnedFd>, Error> {
        let failed = |error: Errno| failed(path, "can't be locked", error);
        let folder = self.folder(path).map_err(failed)?;
        match flock(&folder, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => Ok(Some(folder)),
            Err(Errno::WOULDBLOCK) => Ok(None),
            Err(error) => Err(failed(error)),
        }
    }

    /// Removes an empty directory, if there is one.
    pub fn remove_folder(&self, path: &str) -> Result<(), Error> {
        self.remove_as(path, AtFlags::REMOVEDIR)
    }

    /// Removes a directory with all that is in it, if there is one. No link is followed.
    pub fn remove_tree(&self, path: &str) -> Result<(), Error> {
        let (parent, name) = split(path);
        let removed = match self.folder(parent) {
            Ok(parent) => remove_all(&parent, Path::new(name), MAX_DEPTH),
            Err(Errno::NOENT | Errno::NOTDIR) => Ok(()),
            Err(error) => Err(error),
        };
        removed.map_err(|error| failed(path, "can't be removed", error))
    }

    fn remove_as(&self, path: &str, flags: AtFlags) -> Result<(), Error> {
        let (folder, name) = split(path);
        let removed = match self.folder(folder) {
            Ok(folder) => remove_entry(&folder, name, flags),
            Err(Errno::NOENT | Errno::NOTDIR) => Ok(()),
            Err(error) => Err(error),
        };
        removed.map_err(|error| failed(path, "can't be removed", error))
    }

    fn resolve(&self, path: &str, flags: OFlags) -> Result<OwnedFd, Errno> {
        open_in_root(&self.0, path, flags)
    }

    /// A directory, with links followed within the root.
    pub fn folder(&self, path: &str) -> Result<OwnedFd, Errno> {
        self.resolve(path, OFlags::RDONLY | OFlags::DIRECTORY)
    }

    /// A directory; those that are missing are made.
    fn made_folder(&self, path: &str) -> Result<OwnedFd, Errno> {
        match self.folder(path) {
            Err(Errno::NOENT) if path != "/" => {
                let (parent, name) = split(path);
                match mkdirat(self.made_folder(parent)?, name, Mode::from_raw_mode(0o755)) {
                    Ok(()) | Err(Errno::EXIST) => self.folder(path),
                    Err(error) => Err(error),
                }
            }
            found => found,
        }
    }
}

/// Removes an entry of a directory, and what is in it if it is a directory.
fn remove_all(parent: &OwnedFd, name: &Path, depth: usize) -> Result<(), Errno> {
    match remove_entry(parent, name, AtFlags::empty()) {
        Err(Errno::ISDIR) if depth > 0 => {}
        removed => return removed,
    }
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let folder = match openat(parent, name, flags, Mode::empty()) {
        Err(Errno::NOENT) => return Ok(()),
        folder => folder?,
    };
    let entries = Dir::read_from(&folder)?.collect::<Result<Vec<_>, _>>()?;
    for entry in entries {
        let name = Path::new(OsStr::from_bytes(entry.file_name().to_bytes()));
        if ![Path::new("."), Path::new("..")].contains(&name) {
            remove_all(&folder, name, depth - 1)?;
        }
    }
    remove_entry(parent, name, AtFlags::REMOVEDIR)
}

/// The directory of an absolute path, and the name in it.
pub(crate) fn split(path: &str) -> (&str, &str) {
    match path.rsplit_once('/') {
        Some(("", name)) => ("/", name),
        Some(parts) => parts,
        None => ("/", path),
    }
}

pub(crate) fn failed(path: &str, doing: &'static str, error: Errno) -> Error {
    Error::File { path: path.to_owned(), doing, source: error.into() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::{PermissionsExt as _, symlink};

    #[test]
    fn links_stay_in_the_root_of_the_machine() {
        let dir = tempfile::tempdir().unwrap();
        let secret = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(secret.path(), "of the container").unwrap();
        std::fs::create_dir(dir.path().join("etc")).unwrap();
        symlink(secret.path(), dir.path().join("etc/absolute")).unwrap();
        let up = format!("../../../../../..{}", secret.path().display());
        symlink(up, dir.path().join("etc/up")).unwrap();
        std::fs::write(dir.path().join("etc/file"), "of the machine").unwrap();
        symlink("/etc/file", dir.path().join("etc/inside")).unwrap();
        let root = HostRoot::open(dir.path()).unwrap();
        for path in ["/etc/absolute", "/etc/up", "/etc/none", "/none/file"] {
            assert_eq!(root.read(path, 100).unwrap(), None, "{path}");
            assert!(!root.exists(path), "{path}");
        }
        assert_eq!(root.text("/etc/inside", 100).unwrap().as_deref(), Some("of the machine"));
        assert_eq!(root.link("/etc/inside").as_deref(), Some("/etc/file"));
        assert_eq!(root.link("/etc/file"), None);
        assert!(matches!(root.read("/etc/file", 3), Err(Error::FileTooLarge { limit: 3, .. })));
        assert!(matches!(root.read("/etc", 100), Err(Error::File { .. })));
    }

    #[test]
    fn a_file_that_cannot_be_written_leaves_nothing() {
        let dir = tempfile::tempdir().unwrap();
        let root = HostRoot::open(dir.path()).unwrap();
        let path = "/run/mosb-rollout/auth.json";
        // A directory in its place lets the last step fail.
        std::fs::create_dir_all(dir.path().join(&path[1..]).join("x")).unwrap();
        assert!(matches!(root.write(path, b"secret", 0o600), Err(Error::File { .. })));
        assert!(!root.exists(&format!("{path}{TEMPORARY}")));
    }

    #[test]
    fn a_directory_is_locked_once() {
        let dir = tempfile::tempdir().unwrap();
        let root = HostRoot::open(dir.path()).unwrap();
        root.make_private_folder("/run").unwrap();
        let locked = root.lock_folder("/run").unwrap();
        assert!(locked.is_some());
        assert!(root.lock_folder("/run").unwrap().is_none());
        drop(locked);
        assert!(root.lock_folder("/run").unwrap().is_some());
        assert!(root.lock_folder("/none").is_err());
    }

    #[test]
    fn files_are_written_whole_with_their_mode() {
        let dir = tempfile::tempdir().unwrap();
        let root = HostRoot::open(dir.path()).unwrap();
        let path = "/var/lib/mosb/rollout.json";
        std::fs::create_dir_all(dir.path().join("var/lib/mosb")).unwrap();
        // What a killed run left.
        std::fs::write(dir.path().join(format!("{}{TEMPORARY}", &path[1..])), "half").unwrap();
        root.write(path, b"one", 0o600).unwrap();
        root.write(path, b"two", 0o600).unwrap();
        assert_eq!(root.text(path, 10).unwrap().as_deref(), Some("two"));
        let names: Vec<_> = std::fs::read_dir(dir.path().join("var/lib/mosb")).unwrap().collect();
        assert_eq!(names.len(), 1, "{names:?}");
        let mode = |path: &str| dir.path().join(path).metadata().unwrap().permissions().mode();
        assert_eq!(mode("var/lib/mosb/rollout.json") & 0o7777, 0o600);
        root.make_private_folder("/run/mosb-rollout").unwrap();
        root.make_private_folder("/run/mosb-rollout").unwrap();
        root.write("/run/mosb-rollout/auth.json", b"x", 0o600).unwrap();
        assert_eq!(mode("run/mosb-rollout") & 0o7777, 0o700);
        root.make_link("/run/ostree/auth.json", "../mosb-rollout/auth.json").unwrap();
        assert!(root.exists("/run/ostree/auth.json"));
        for path in ["/run/ostree/auth.json", "/run/mosb-rollout/auth.json", "/none/at/all"] {
            root.remove(path).unwrap();
        }
        root.remove_folder("/run/mosb-rollout").unwrap();
        assert!(!root.exists("/run/mosb-rollout"));
    }

    #[test]
    fn directories_are_removed_without_following_links() {
        let dir = tempfile::tempdir().unwrap();
        let root = HostRoot::open(dir.path()).unwrap();
        let path = "/run/mosb-rollout";
        root.write("/etc/file", b"x", 0o600).unwrap();
        root.write(&format!("{path}/containers/certs.d/file"), b"x", 0o644).unwrap();
        // What a link in it leads to stays.
        root.make_link(&format!("{path}/link"), "/etc").unwrap();
        std::fs::write(dir.path().join("run/mosb-rollout").join(OsStr::from_bytes(b"\xff")), "")
            .unwrap();
        for path in [path, path, "/none/at/all"] {
            root.remove_tree(path).unwrap();
            assert!(!root.exists(path) && root.exists("/etc/file"));
        }
    }
}
