//! The file with the SSH keys that a config gives to `core`: `.ssh/authorized_keys.d/ignition` in its
//! home, where Ignition and the MCO's daemon have them. Other files of keys stay as they are.
//!
//! The directories are the user's, so everything below its home is opened without following links,
//! and written by a new file in place of the old one.

use std::fs::File;
use std::io::{self, Read as _, Write as _};
use std::os::fd::{AsFd, OwnedFd};

use rustix::fs::{AtFlags, Gid, Mode, Uid, fchmod, fchown, fstat, fsync, mkdirat};
use rustix::io::Errno;

use crate::core_access::CoreUser;
use crate::error::Error;
use crate::host_root::{HostRoot, failed, split};
use mosb_safe_fs::{open_file, open_folder_beneath, remove_entry, write_entry};

/// Below the home.
const FOLDERS: [&str; 2] = [".ssh", "authorized_keys.d"];
const FILE: &str = "ignition";
/// Hidden, so that nothing takes its content for keys.
const TEMPORARY: &str = ".ignition.mosb-new";
const KEYS_MODE: u32 = 0o600;
/// The most bytes that are compared.
const LIMIT: u64 = 4 * 1024 * 1024;

/// The file as it is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct KeysFile {
    pub content: Vec<u8>,
    /// A regular file of the user with one name, that nobody else reads or writes.
    pub is_private: bool,
}

/// Where the keys of a user are.
#[derive(Debug)]
pub(crate) struct SshKeys<'a> {
    root: &'a HostRoot,
    user: &'a CoreUser,
}

impl<'a> SshKeys<'a> {
    pub fn new(root: &'a HostRoot, user: &'a CoreUser) -> Self {
        Self { root, user }
    }

    /// The directory `.ssh`, on the machine.
    pub fn folder_path(&self) -> String {
        format!("{}/{}", self.user.home, FOLDERS[0])
    }

    /// The file; none if there is none.
    pub fn read(&self) -> Result<Option<KeysFile>, Error> {
        let Some(folder) = self.folder()? else { return Ok(None) };
        let (file, stat) = match open_file(&folder, FILE) {
            Ok(opened) => opened,
            Err(Errno::NOENT) => return Ok(None),
            // A link, a directory, or what can't be opened.
            Err(Errno::LOOP | Errno::NXIO | Errno::INVAL) => return Ok(Some(KeysFile::foreign())),
            Err(error) => return Err(self.failed("not readable", error)),
        };
        let mut content = Vec::new();
        let read = file.take(LIMIT).read_to_end(&mut content);
        read.map_err(|source| self.failed_with("not readable", source))?;
        let is_private =
            (stat.st_uid, stat.st_mode & 0o7777, stat.st_nlink) == (self.user.uid, KEYS_MODE, 1);
        Ok(Some(KeysFile { content, is_private }))
    }

    /// Makes the directories that are missing, for the user alone.
    ///
    /// # Errors
    /// There is no home, or one of the directories is neither the user's nor root's.
    pub fn make_folder(&self) -> Result<(), Error> {
        self.made_folder().map(drop)
    }

    /// Writes the file, whole or not at all, also if the power fails.
    pub fn write(&self, content: &[u8]) -> Result<(), Error> {
        let folder = self.made_folder()?;
        let fill = |file: &mut File| {
            self.give(&*file)?;
            fchmod(&*file, Mode::from_raw_mode(KEYS_MODE))?;
            file.write_all(content)
        };
        write_entry(&folder, (FILE, TEMPORARY), Mode::RUSR | Mode::WUSR, fill)
            .map_err(|source| self.failed_with("not writable", source))
    }

    /// Removes the file, and what a write that was killed left of it.
    pub fn remove(&self) -> Result<(), Error> {
        let Some(folder) = self.folder()? else { return Ok(()) };
        for name in [FILE, TEMPORARY] {
            remove_entry(&folder, name, AtFlags::empty())
                .map_err(|error| self.failed("can't be removed", error))?;
        }
        fsync(&folder).map_err(|error| self.failed("can't be removed", error))
    }

    fn give(&self, file: impl AsFd) -> Result<(), Errno> {
        let (uid, gid) = (Uid::from_raw(self.user.uid), Gid::from_raw(self.user.gid));
        fchown(file, Some(uid), Some(gid))
    }

    /// None if a directory on the way is missing.
    fn folder(&self) -> Result<Option<OwnedFd>, Error> {
        let mut folder = match self.home() {
            Err(Errno::NOENT | Errno::NOTDIR) => return Ok(None),
            home => home.map_err(|error| self.failed("not readable", error))?,
        };
        for name in FOLDERS {
            folder = match open_folder_beneath(&folder, name) {
                Err(Errno::NOENT) => return Ok(None),
                opened => opened.map_err(|error| self.failed("not readable", error))?,
            };
        }
        Ok(Some(folder))
    }

    fn made_folder(&self) -> Result<OwnedFd, Error> {
        let failed = |error: Errno| self.failed("not writable", error);
        let mut folder = self.home().map_err(|error| failed_at(&self.user.home, error))?;
        for name in FOLDERS {
            let next = match open_folder_beneath(&folder, name) {
                Err(Errno::NOENT) => {
                    mkdirat(&folder, name, Mode::RWXU).map_err(failed)?;
                    open_folder_beneath(&folder, name)
                }
                found => found,
            };
            let next = next.map_err(failed)?;
            match fstat(&next).map_err(failed)?.st_uid {
                owner if owner == self.user.uid => {}
                // Made a moment ago, or by a command that was killed then.
                0 => self.give(&next).map_err(failed)?,
                owner => {
                    return Err(Error::WrongOwner { path: self.path(), owner });
                }
            }
            folder = next;
        }
        Ok(folder)
    }

    /// The parents of a home are root's, and may be links.
    fn home(&self) -> Result<OwnedFd, Errno> {
        let (parent, name) = split(&self.user.home);
        open_folder_beneath(&self.root.folder(parent)?, name)
    }

    fn path(&self) -> String {
        format!("{}/{}/{FILE}", self.folder_path(), FOLDERS[1])
    }

    fn failed(&self, doing: &'static str, error: Errno) -> Error {
        failed(&self.path(), doing, error)
    }

    fn failed_with(&self, doing: &'static str, source: io::Error) -> Error {
        Error::File { path: self.path(), doing, source }
    }
}

impl KeysFile {
    /// Something that is not a file of ours.
    fn foreign() -> Self {
        Self { content: Vec::new(), is_private: false }
    }
}

fn failed_at(path: &str, error: Errno) -> Error {
    failed(path, "can't be opened as a directory", error)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, symlink};
    use std::path::Path;

    const PATH: &str = "var/home/core/.ssh/authorized_keys.d/ignition";

    /// The user that runs the tests.
    fn user(dir: &Path) -> CoreUser {
        let stat = dir.metadata().unwrap();
        CoreUser { uid: stat.uid(), gid: stat.gid(), home: "/home/core".to_owned() }
    }

    /// A machine whose `/home` is a link, as in ostree's images.
    fn machine() -> (tempfile::TempDir, HostRoot) {
        let dir = tempfile::tempdir().unwrap();
        std::fs::create_dir_all(dir.path().join("var/home/core")).unwrap();
        symlink("var/home", dir.path().join("home")).unwrap();
        let root = HostRoot::open(dir.path()).unwrap();
        (dir, root)
    }

    fn mode(path: &Path) -> u32 {
        path.metadata().unwrap().permissions().mode() & 0o7777
    }

    #[test]
    fn keys_are_written_changed_and_removed_beside_others() {
        let (dir, root) = machine();
        let user = user(dir.path());
        let keys = SshKeys::new(&root, &user);
        assert_eq!(keys.read().unwrap(), None);
        keys.remove().unwrap();
        for content in [&b"one\n"[..], b"two\n"] {
            keys.write(content).unwrap();
            let want = KeysFile { content: content.to_vec(), is_private: true };
            assert_eq!(keys.read().unwrap(), Some(want));
        }
        let file = dir.path().join(PATH);
        assert_eq!(mode(&file), 0o600);
        assert_eq!(mode(file.parent().unwrap()), 0o700);
        assert_eq!(mode(file.parent().unwrap().parent().unwrap()), 0o700);
        let own = file.with_file_name("own");
        std::fs::write(&own, "mine").unwrap();
        std::fs::write(file.with_file_name(TEMPORARY), "half").unwrap();
        keys.remove().unwrap();
        assert_eq!(keys.read().unwrap(), None);
        assert_eq!(std::fs::read_dir(file.parent().unwrap()).unwrap().count(), 1);
        assert_eq!(std::fs::read_to_string(own).unwrap(), "mine");
    }

    #[test]
    fn files_with_other_modes_or_names_are_foreign() {
        let (dir, root) = machine();
        let user = user(dir.path());
        let keys = SshKeys::new(&root, &user);
        let file = dir.path().join(PATH);
        let is_private = || keys.read().unwrap().unwrap().is_private;
        keys.write(b"one\n").unwrap();
        assert!(is_private());
        std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o644)).unwrap();
        assert!(!is_private());
        keys.write(b"one\n").unwrap();
        std::fs::hard_link(&file, dir.path().join("other")).unwrap();
        assert!(!is_private());
        keys.write(b"two\n").unwrap();
        assert!(is_private());
        assert_eq!(std::fs::read_to_string(dir.path().join("other")).unwrap(), "one\n");
    }

    #[test]
    fn no_link_below_the_home_is_followed() {
        for (what, link) in [
            ("the home", "var/home/core"),
            (".ssh", "var/home/core/.ssh"),
            ("authorized_keys.d", "var/home/core/.ssh/authorized_keys.d"),
        ] {
            let (dir, root) = machine();
            let victim = dir.path().join("victim");
            std::fs::create_dir_all(victim.join(".ssh/authorized_keys.d")).unwrap();
            std::fs::create_dir_all(victim.join("authorized_keys.d")).unwrap();
            std::fs::write(victim.join("ignition"), "victim").unwrap();
            std::fs::create_dir_all(dir.path().join(link)).unwrap();
            std::fs::remove_dir(dir.path().join(link)).unwrap();
            symlink(&victim, dir.path().join(link)).unwrap();
            let user = user(dir.path());
            let keys = SshKeys::new(&root, &user);
            assert!(keys.write(b"key\n").is_err(), "{what}");
            assert!(keys.remove().is_err(), "{what}");
            assert_eq!(std::fs::read_to_string(victim.join("ignition")).unwrap(), "victim");
            assert!(!victim.join(".ssh/authorized_keys.d/ignition").exists(), "{what}");
        }
    }

    #[test]
    fn links_in_place_of_files_are_replaced() {
        let (dir, root) = machine();
        let user = user(dir.path());
        let keys = SshKeys::new(&root, &user);
        let file = dir.path().join(PATH);
        std::fs::create_dir_all(file.parent().unwrap()).unwrap();
        std::fs::write(dir.path().join("victim"), "victim").unwrap();
        symlink(dir.path().join("victim"), &file).unwrap();
        assert_eq!(keys.read().unwrap(), Some(KeysFile::foreign()));
        keys.write(b"key\n").unwrap();
        assert!(keys.read().unwrap().unwrap().is_private);
        assert_eq!(std::fs::read_to_string(dir.path().join("victim")).unwrap(), "victim");
    }

    #[test]
    fn foreign_directories_and_missing_homes_are_errors() {
        let (dir, root) = machine();
        let owner = user(dir.path());
        SshKeys::new(&root, &owner).make_folder().unwrap();
        // As root, directories of root are given to the user; so the owner is neither.
        if owner.uid != 0 {
            let other = CoreUser { uid: owner.uid + 1, ..owner.clone() };
            let made = SshKeys::new(&root, &other).make_folder();
            assert!(matches!(made, Err(Error::WrongOwner { .. })), "{made:?}");
        } else {
            let one = CoreUser { uid: 1000, gid: 1000, ..owner.clone() };
            SshKeys::new(&root, &one).write(b"key\n").unwrap();
            assert_eq!(dir.path().join(PATH).metadata().unwrap().uid(), 1000);
            let other = CoreUser { uid: 1001, ..one };
            let made = SshKeys::new(&root, &other).make_folder();
            assert!(matches!(made, Err(Error::WrongOwner { .. })), "{made:?}");
        }
        let homeless = CoreUser { home: "/home/none".to_owned(), ..owner };
        assert!(SshKeys::new(&root, &homeless).write(b"key\n").is_err());
        assert_eq!(SshKeys::new(&root, &homeless).read().unwrap(), None);
    }
}
