//! The password of `core` in the machine's shadow file (shadow(5)): nine fields a line, separated by
//! colons. It is changed as the machine's own programs do: under the lock of lckpwdf(3), by a new file
//! in place of the old one. All else stays byte for byte.

use std::fs::File;
use std::io::Write as _;
use std::ops::Range;
use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};

use mosb_safe_fs::{copy_attributes, open_file, write_entry};
use mosb_types::Secret;
use rustix::fs::{FlockOperation, Gid, Mode, OFlags, Uid, fchmod, fchown, fcntl_lock, openat};
use rustix::io::Errno;

use crate::core_access::CORE;
use crate::error::Error;
use crate::host_root::{HostRoot, TEMPORARY, failed, split};

/// Why the field of a user can't be read or changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ShadowProblem {
    NoLine,
    /// The programs of the machine would change one of them and read another.
    SeveralLines,
    /// The line has no second field.
    NoField,
}

impl ShadowProblem {
    pub fn text(self) -> &'static str {
        match self {
            Self::NoLine => "it has no line of this user",
            Self::SeveralLines => "it has several lines of this user",
            Self::NoField => "the line of this user has too few fields",
        }
    }
}

/// The password field of a user.
pub(crate) fn password<'a>(shadow: &'a [u8], user: &str) -> Result<&'a [u8], ShadowProblem> {
    field(shadow, user).map(|field| &shadow[field])
}

/// The file with another password field of a user. `hash` has neither a colon nor a line break.
pub(crate) fn with_password(
    shadow: &[u8],
    user: &str,
    hash: &str,
) -> Result<Vec<u8>, ShadowProblem> {
    let field = field(shadow, user)?;
    Ok([&shadow[..field.start], hash.as_bytes(), &shadow[field.end..]].concat())
}

fn field(shadow: &[u8], user: &str) -> Result<Range<usize>, ShadowProblem> {
    let mut found = None;
    let mut begin = 0;
    for line in shadow.split_inclusive(|byte| *byte == b'\n') {
        if line.strip_prefix(user.as_bytes()).is_some_and(|rest| rest.starts_with(b":")) {
            if found.is_some() {
                return Err(ShadowProblem::SeveralLines);
            }
            let first = user.len() + 1;
            let length = line[first..].iter().position(|byte| *byte == b':');
            let start = begin + first;
            found = Some(length.map(|length| start..start + length));
        }
        begin += line.len();
    }
    found.ok_or(ShadowProblem::NoLine)?.ok_or(ShadowProblem::NoField)
}

const SHADOW: &str = "/etc/shadow";
const ETC: &str = "/etc";
const LOCK: &str = ".pwd.lock";
/// The most bytes that are read.
const LIMIT: u64 = 16 * 1024 * 1024;
/// As long as lckpwdf(3) waits.
const LOCK_LIMIT: Duration = Duration::from_secs(15);
const POLL: Duration = Duration::from_millis(100);

/// The password field of `core`.
pub(crate) fn core_password(root: &HostRoot) -> Result<Secret<String>, Error> {
    let text = read(root)?;
    let field = password(text.expose(), CORE).map_err(bad)?;
    Ok(Secret::new(String::from_utf8_lossy(field).into_owned()))
}

/// Changes that field, and nothing else in the file.
pub(crate) async fn set_password(root: &HostRoot, hash: &str) -> Result<(), Error> {
    let lock = lock(root).await?;
    let text = read(root)?;
    let changed = Secret::new(with_password(text.expose(), CORE, hash).map_err(bad)?);
    replace(root, SHADOW, changed.expose())?;
    drop(lock);
    Ok(())
}

fn read(root: &HostRoot) -> Result<Secret<Vec<u8>>, Error> {
    Ok(Secret::new(root.read(SHADOW, LIMIT)?.unwrap_or_default()))
}

fn bad(problem: ShadowProblem) -> Error {
    Error::BadShadow { path: SHADOW, user: CORE, cause: problem.text() }
}

/// The lock ends with the result, or with this process.
async fn lock(root: &HostRoot) -> Result<OwnedFd, Error> {
    let failed = |error: Errno| failed(&format!("{ETC}/{LOCK}"), "can't be locked", error);
    let folder = root.folder(ETC).map_err(failed)?;
    let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let file = openat(&folder, LOCK, flags, Mode::RUSR | Mode::WUSR).map_err(failed)?;
    let begun = Instant::now();
    loop {
        match fcntl_lock(&file, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => return Ok(file),
            Err(Errno::ACCESS | Errno::AGAIN) if begun.elapsed() < LOCK_LIMIT => {
                tokio::time::sleep(POLL).await;
            }
            Err(Errno::ACCESS | Errno::AGAIN) => {
                return Err(Error::PasswordFileBusy { seconds: LOCK_LIMIT.as_secs() });
            }
            Err(error) => return Err(failed(error)),
        }
    }
}

/// Replaces the content of a regular file, whole or not at all, also if the power fails. Owner, mode
/// and extended attributes, such as SELinux's label, stay.
///
/// # Errors
/// The file is missing or a link, or it can't be replaced.
fn replace(root: &HostRoot, path: &str, bytes: &[u8]) -> Result<(), Error> {
    let failed = |error: Errno| failed(path, "can't be replaced", error);
    let (folder, name) = split(path);
    let folder = root.folder(folder).map_err(failed)?;
    let (old, stat) = open_file(&folder, name).map_err(failed)?;
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
    use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, symlink};

    use rustix::fs::{XattrFlags, fgetxattr, fsetxattr};

    use super::*;

    #[test]
    fn only_the_field_of_the_user_changes() {
        for (what, before, after) in [
            (
                "plain",
                &b"root:*:1:0:99999:7:::\ncore:*:1:0:99999:7:::\nx:!:::::::\n"[..],
                &b"root:*:1:0:99999:7:::\ncore:NEW:1:0:99999:7:::\nx:!:::::::\n"[..],
            ),
            ("no line break at the end", b"core:*:1::::::", b"core:NEW:1::::::"),
            (
                "carriage returns",
                b"a:*:::::::\r\ncore:*:::::::\r\n",
                b"a:*:::::::\r\ncore:NEW:::::::\r\n",
            ),
            ("an empty field", b"core::1::::::\n", b"core:NEW:1::::::\n"),
            ("a locked one", b"core:!$y$x:1::::::\n", b"core:NEW:1::::::\n"),
            (
                "longer names",
                b"corex:*:::::::\nxcore:*:::::::\ncore:*:::::::\n",
                b"corex:*:::::::\nxcore:*:::::::\ncore:NEW:::::::\n",
            ),
            (
                "the name in other fields",
                b"a:core:*:::::::\ncore:*:core:core:::::\n",
                b"a:core:*:::::::\ncore:NEW:core:core:::::\n",
            ),
            (
                "empty lines, comments, lines of NIS, and no UTF-8",
                b"\n#core:*:\n+@x::::::::\n\xff:\0:::::::\ncore:*:\xff\n\n",
                b"\n#core:*:\n+@x::::::::\n\xff:\0:::::::\ncore:NEW:\xff\n\n",
            ),
            ("blanks before the name", b" core:*:\ncore:*:\n", b" core:*:\ncore:NEW:\n"),
        ] {
            assert_eq!(with_password(before, "core", "NEW").unwrap(), after, "{what}");
            assert_eq!(password(after, "core").unwrap(), b"NEW", "{what}");
        }
    }

    #[test]
    fn missing_or_duplicate_lines_are_errors() {
        use ShadowProblem::{NoField, NoLine, SeveralLines};
        for (what, text, want) in [
            ("empty", "", NoLine),
            ("others", "root:*:1\n#core:*:1\n core:*:1\nCORE:*:1\n", NoLine),
            ("no colon", "core\n", NoLine),
            ("one field", "core:\n", NoField),
            ("the field ends with the line", "core:*\nroot:*:1\n", NoField),
            ("twice", "core:*:1\nroot:*:1\ncore:*:1\n", SeveralLines),
            ("twice, once broken", "core:*\ncore:*:1\n", SeveralLines),
        ] {
            assert_eq!(with_password(text.as_bytes(), "core", "NEW"), Err(want), "{what}");
            assert_eq!(password(text.as_bytes(), "core"), Err(want), "{what}");
        }
    }

    #[test]
    fn replacing_keeps_attributes_and_cleans_killed_writes() {
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
    fn links_and_missing_files_are_not_written() {
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
