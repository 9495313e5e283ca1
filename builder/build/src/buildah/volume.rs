//! Folders of this machine that the steps of a build see. Never part of a layer.

use std::ffi::OsString;
use std::os::unix::fs::{OpenOptionsExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::{fs, io};

use super::Error;
use super::files::{io as unusable, make_dir};

/// The copies, in the folder of a build.
const COPIES: &str = "volumes";
/// Limit of a copy: far more than entitlements, repositories and keys have.
const FILES: usize = 10_000;
const BYTES: u64 = 64 << 20;
const DEPTH: usize = 16;
/// Where the container runtime of a node with a subscription puts what its package manager needs,
/// into each container.
const SUBSCRIPTION: &str = "run/secrets/rhsm";

/// `SRC:DST`, and what steps may do there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Volume {
    source: PathBuf,
    target: String,
    access: Access,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Access {
    ReadWrite,
    ReadOnly,
    /// Steps write into a copy, which is removed with the build.
    Copy,
}

impl FromStr for Volume {
    type Err = String;
    fn from_str(text: &str) -> Result<Self, String> {
        let parts: Vec<_> = text.split(':').collect();
        let places = match parts[..] {
            [source, target] | [source, target, "rw"] => Some((source, target, Access::ReadWrite)),
            [source, target, "ro"] => Some((source, target, Access::ReadOnly)),
            [source, target, "copy"] => Some((source, target, Access::Copy)),
            _ => None,
        };
        let absolute =
            |path: &str| path.starts_with('/') && !path.split('/').any(|part| part == "..");
        match places {
            Some((source, target, access)) if absolute(source) && absolute(target) => {
                Ok(Self { source: source.into(), target: target.to_owned(), access })
            }
            _ => Err(format!(
                "{text:?} is not a volume: want /source:/target, /source:/target:ro or /source:/target:copy, both absolute and without .."
            )),
        }
    }
}

impl Volume {
    /// The value of `--volume` for buildah, for this volume of the build with its files in this
    /// folder.
    pub(super) fn argument(&self, at: &Path, number: usize) -> OsString {
        let (source, mode) = match self.access {
            Access::ReadWrite => (self.source.clone(), "rw"),
            Access::ReadOnly => (self.source.clone(), "ro"),
            Access::Copy => (copy_of(at, number), "rw"),
        };
        let mut argument = source.into_os_string();
        argument.push(format!(":{}:{mode}", self.target));
        argument
    }
}

fn copy_of(at: &Path, number: usize) -> PathBuf {
    at.join(COPIES).join(number.to_string())
}

/// What the container runtime of the node mounts into a build's container, if `root` has it; `RUN`
/// lines need it too.
pub fn of_the_node(root: &Path) -> Option<Volume> {
    let source = root.join(SUBSCRIPTION);
    source.is_dir().then(|| Volume {
        source,
        target: format!("/{SUBSCRIPTION}"),
        access: Access::Copy,
    })
}

/// Makes the copies that a build needs.
///
/// # Errors
/// A source that can't be read, or is too large.
pub(super) fn copy(volumes: &[Volume], at: &Path) -> Result<(), Error> {
    let mut left = Left { files: FILES, bytes: BYTES };
    for (number, volume) in volumes.iter().enumerate() {
        if volume.access == Access::Copy {
            make_dir(&at.join(COPIES))?;
            left.folder(&volume.source, &copy_of(at, number), DEPTH)?;
        }
    }
    Ok(())
}

/// How much more may be copied.
struct Left {
    files: usize,
    bytes: u64,
}

impl Left {
    fn folder(&mut self, from: &Path, to: &Path, depth: usize) -> Result<(), Error> {
        fs::create_dir(to).map_err(unusable(to))?;
        // The owner is this user, which is root in the steps that buildah runs.
        let open = fs::Permissions::from_mode(0o755);
        fs::set_permissions(to, open).map_err(unusable(to))?;
        for entry in fs::read_dir(from).map_err(unusable(from))? {
            let name = entry.map_err(unusable(from))?.file_name();
            // A kubelet's own: the names beside it are links into it.
            if name.as_encoded_bytes().starts_with(b"..") {
                continue;
            }
            let (from, to) = (from.join(&name), to.join(&name));
            let there = fs::metadata(&from).map_err(unusable(&from))?;
            self.files = match (self.files.checked_sub(1), depth) {
                (Some(files), 1..) => files,
                _ => return Err(too_large(&from)),
            };
            if there.is_dir() {
                self.folder(&from, &to, depth - 1)?;
            } else if there.is_file() {
                self.file(&from, &to, there.permissions().mode())?;
            } else {
                let other = io::Error::other("it is neither a file nor a folder");
                return Err(unusable(&from)(other));
            }
        }
        Ok(())
    }

    fn file(&mut self, from: &Path, to: &Path, mode: u32) -> Result<(), Error> {
        use io::Read as _;
        let source = fs::File::open(from).map_err(unusable(from))?;
        let mut target = fs::OpenOptions::new()
            .write(true)
            .create_new(true)
            .mode(mode & 0o777 | 0o600)
            .open(to)
            .map_err(unusable(to))?;
        let mut source = source.take(self.bytes + 1);
        let copied = io::copy(&mut source, &mut target).map_err(unusable(to))?;
        let left = self.bytes.checked_sub(copied);
        self.bytes = left.ok_or_else(|| too_large(from))?;
        Ok(())
    }
}

fn too_large(path: &Path) -> Error {
    let limits = format!(
        "volumes that are copied have at most {FILES} files, {DEPTH} levels and {} MiB in all; give a larger one as SRC:DST:ro",
        BYTES >> 20
    );
    unusable(path)(io::Error::other(limits))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn a_volume_is_two_absolute_paths() {
        for (text, want) in [
            (
                "/etc/pki/entitlement:/etc/pki/entitlement:ro",
                Some("/etc/pki/entitlement:/etc/pki/entitlement:ro"),
            ),
            ("/a:/b", Some("/a:/b:rw")),
            ("/a:/b:rw", Some("/a:/b:rw")),
            ("/a:/b:copy", Some("/work/volumes/3:/b:rw")),
            ("/a", None),
            ("a:/b", None),
            ("/a:/b:z,exec", None),
            ("/a:/b/../etc", None),
            ("/a:/b:ro:x", None),
        ] {
            let volume = text.parse::<Volume>().ok();
            let argument = volume.map(|volume| volume.argument(Path::new("/work"), 3));
            assert_eq!(argument, want.map(OsString::from), "{text}");
        }
    }

    /// As a kubelet mounts a ConfigMap.
    fn mounted(root: &Path) -> PathBuf {
        let folder = root.join("repositories");
        fs::create_dir_all(folder.join("..2026/deep")).unwrap();
        fs::write(folder.join("..2026/a.repo"), "a").unwrap();
        fs::write(folder.join("..2026/deep/b.repo"), "b").unwrap();
        let own = fs::Permissions::from_mode(0o440);
        fs::set_permissions(folder.join("..2026/a.repo"), own).unwrap();
        symlink("..2026", folder.join("..data")).unwrap();
        for name in ["a.repo", "deep"] {
            symlink(Path::new("..data").join(name), folder.join(name)).unwrap();
        }
        folder
    }

    #[test]
    fn copy_is_writable_with_files_instead_of_links() {
        let root = tempfile::tempdir().unwrap();
        let source = mounted(root.path());
        let at = root.path().join("work");
        fs::create_dir(&at).unwrap();
        let text = |kind: &str| format!("{}:/etc/yum.repos.d:{kind}", source.display());
        let volumes = ["ro", "copy"].map(|kind| text(kind).parse().unwrap());
        copy(&volumes, &at).unwrap();
        let copied = at.join("volumes/1");
        let names = |folder: &Path| {
            let entries = fs::read_dir(folder).unwrap();
            let mut names: Vec<_> = entries.map(|entry| entry.unwrap().file_name()).collect();
            names.sort();
            names
        };
        assert_eq!(names(&at.join("volumes")), ["1"]);
        assert_eq!(names(&copied), ["a.repo", "deep"]);
        let mode = |path: &Path| fs::symlink_metadata(path).unwrap().permissions().mode();
        assert_eq!(mode(&copied), 0o40755);
        assert_eq!(mode(&copied.join("a.repo")), 0o100640);
        assert_eq!(fs::read(copied.join("deep/b.repo")).unwrap(), b"b");
        fs::write(copied.join("a.repo"), "other").unwrap();
        assert_eq!(fs::read(source.join("a.repo")).unwrap(), b"a");
    }

    #[test]
    fn a_copy_has_an_end() {
        let root = tempfile::tempdir().unwrap();
        let refused = |source: &Path| {
            let at = tempfile::tempdir().unwrap();
            let volume = format!("{}:/x:copy", source.display()).parse().unwrap();
            let error = copy(&[volume], at.path()).unwrap_err();
            std::error::Error::source(&error).unwrap().to_string()
        };
        let large = root.path().join("large");
        fs::create_dir(&large).unwrap();
        fs::File::create(large.join("hole")).unwrap().set_len(BYTES + 1).unwrap();
        assert!(refused(&large).contains("at most"), "{}", refused(&large));
        let round = root.path().join("round");
        fs::create_dir(&round).unwrap();
        symlink(".", round.join("again")).unwrap();
        assert!(refused(&round).contains("16 levels"), "{}", refused(&round));
        let device = root.path().join("device");
        fs::create_dir(&device).unwrap();
        symlink("/dev/zero", device.join("zero")).unwrap();
        assert!(refused(&device).contains("neither"), "{}", refused(&device));
    }

    #[test]
    fn subscription_of_the_node_is_passed_on() {
        let root = tempfile::tempdir().unwrap();
        assert_eq!(of_the_node(root.path()), None);
        let there = root.path().join("run/secrets/rhsm");
        fs::create_dir_all(&there).unwrap();
        let volume = of_the_node(root.path()).unwrap();
        let argument = volume.argument(Path::new("/work"), 0);
        assert_eq!(argument, "/work/volumes/0:/run/secrets/rhsm:rw");
    }
}
