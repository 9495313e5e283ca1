//! Which files of its image a machine hides: an update keeps each entry of `/etc` that differs from
//! the one in the booted `/usr/etc`, so that a later image can't change it.

use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use crate::error::Error;
use crate::file_tree::{Entry, EntryKind, FileTree, entry_state, path_text};
use crate::host::Host;
use crate::host_root::HostRoot;
use crate::live::LiveRecord;
use crate::machine_state::BOOTED_OSTREE;
use schemars::JsonSchema;
use serde::Serialize;

/// The machine's configuration.
const ETC: &str = "/etc";
/// The configuration that the booted image has.
const IMAGE_ETC: &str = "/usr/etc";
/// The most entries of an image that are compared.
const MAX_ENTRIES: usize = 100_000;
/// The most paths that are listed.
const MAX_LISTED: usize = 1_000;
/// How much of two files is compared at once.
const PIECE: usize = 64 * 1024;

/// The files of the booted image that a machine hides: no later image can change them.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Drift {
    /// Sorted by path.
    pub paths: Vec<HiddenPath>,
    /// How many more there are than are listed.
    #[serde(skip_serializing_if = "is_zero")]
    #[schemars(with = "Option<usize>")]
    pub omitted: usize,
}

/// A file, directory or link of the image that the machine has otherwise.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct HiddenPath {
    /// Below `/etc`.
    pub path: String,
    pub differences: Vec<Difference>,
}

/// How an entry of the machine differs from that of the image.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "PathDifference")]
pub enum Difference {
    /// The machine has no such entry.
    Removed,
    /// One is a file, and the other a directory or a link, for example.
    Type,
    Content,
    /// The target of a link.
    Target,
    Mode,
    /// The user or the group.
    Owner,
}

pub(crate) fn is_zero(number: &usize) -> bool {
    *number == 0
}

/// Compares the machine's `/etc` with that of the image that it booted. What only the machine has
/// hides nothing. Extended attributes are not compared, because ostree does not compare them either.
///
/// # Errors
/// The machine did not boot an image, or an entry can't be read.
pub fn drift(host: &Host) -> Result<Drift, Error> {
    of_root(host.root())
}

pub(crate) fn of_root(root: &HostRoot) -> Result<Drift, Error> {
    if !root.exists(BOOTED_OSTREE) {
        return Err(Error::NotImageBased);
    }
    let machine = root.tree(ETC)?;
    let mut paths = hidden_paths(&root.tree(IMAGE_ETC)?, &machine)?;
    if let Some(live) = LiveRecord::of_booted(root)? {
        paths = not_live(paths, &live, &machine)?;
    }
    paths.sort_by(|one, other| one.0.cmp(&other.0));
    let omitted = paths.len().saturating_sub(MAX_LISTED);
    let listed = paths.into_iter().take(MAX_LISTED);
    let paths = listed
        .map(|(path, differences)| HiddenPath {
            path: path_text(&Path::new(ETC).join(path)),
            differences,
        })
        .collect();
    Ok(Drift { paths, omitted })
}

/// Without what was written for an image that the machine did not boot: the next one brings its own.
fn not_live(
    paths: Vec<(PathBuf, Vec<Difference>)>,
    live: &LiveRecord,
    machine: &FileTree,
) -> Result<Vec<(PathBuf, Vec<Difference>)>, Error> {
    let mut rest = Vec::new();
    for (path, differences) in paths {
        let is_live = match path.to_str().filter(|text| live.files.contains_key(*text)) {
            Some(text) => live.has_written(text, entry_state(machine, &path)?.as_ref()),
            None => false,
        };
        if !is_live {
            rest.push((path, differences));
        }
    }
    Ok(rest)
}

fn hidden_paths(
    image: &FileTree,
    machine: &FileTree,
) -> Result<Vec<(PathBuf, Vec<Difference>)>, Error> {
    let mut hidden = Vec::new();
    let mut folders = vec![PathBuf::new()];
    let mut entries = 0;
    while let Some(folder) = folders.pop() {
        for name in image.names(&folder)? {
            entries += 1;
            if entries > MAX_ENTRIES {
                return Err(Error::TooManyFiles { path: IMAGE_ETC, limit: MAX_ENTRIES });
            }
            let path = folder.join(name);
            let Some(wanted) = image.entry(&path)? else { continue };
            let found = machine.entry(&path)?;
            let mut differences = differences(&wanted, found.as_ref());
            if needs_content(&wanted, found.as_ref()) && !has_same_content(image, machine, &path)? {
                differences.insert(0, Difference::Content);
            }
            let is_folder = |entry: &Entry| entry.kind == EntryKind::Directory;
            if is_folder(&wanted) && found.as_ref().is_some_and(is_folder) {
                folders.push(path.clone());
            }
            if !differences.is_empty() {
                hidden.push((path, differences));
            }
        }
    }
    Ok(hidden)
}

/// What is seen without reading files.
fn differences(wanted: &Entry, found: Option<&Entry>) -> Vec<Difference> {
    let Some(found) = found else { return vec![Difference::Removed] };
    let mut differences = Vec::new();
    match (&wanted.kind, &found.kind) {
        (EntryKind::File { size: wanted }, EntryKind::File { size: found }) => {
            if wanted != found {
                differences.push(Difference::Content);
            }
        }
        (EntryKind::Link { target: wanted }, EntryKind::Link { target: found }) => {
            if wanted != found {
                differences.push(Difference::Target);
            }
        }
        (EntryKind::Directory, EntryKind::Directory) | (EntryKind::Other, EntryKind::Other) => {}
        _ => return vec![Difference::Type],
    }
    let has_mode = !matches!(wanted.kind, EntryKind::Link { .. });
    if has_mode && wanted.mode != found.mode {
        differences.push(Difference::Mode);
    }
    if (wanted.uid, wanted.gid) != (found.uid, found.gid) {
        differences.push(Difference::Owner);
    }
    differences
}

/// Whether only the bytes of two files can show that they differ.
fn needs_content(wanted: &Entry, found: Option<&Entry>) -> bool {
    let is_file = matches!(wanted.kind, EntryKind::File { .. });
    is_file && found.is_some_and(|found| found.kind == wanted.kind)
}

fn has_same_content(image: &FileTree, machine: &FileTree, path: &Path) -> Result<bool, Error> {
    let (mut wanted, mut found) = (image.open(path)?, machine.open(path)?);
    loop {
        let wanted = read_piece(&mut wanted).map_err(|error| image.not_readable(path, error))?;
        let found = read_piece(&mut found).map_err(|error| machine.not_readable(path, error))?;
        if wanted != found {
            return Ok(false);
        }
        if wanted.is_empty() {
            return Ok(true);
        }
    }
}

/// The next bytes; fewer than a piece only at the end.
fn read_piece(file: &mut File) -> io::Result<Vec<u8>> {
    let mut piece = Vec::with_capacity(PIECE);
    file.take(PIECE as u64).read_to_end(&mut piece)?;
    Ok(piece)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::{self, Permissions};
    use std::os::unix::fs::{PermissionsExt as _, symlink};

    /// A machine whose `/etc` is as its image has it.
    fn machine() -> tempfile::TempDir {
        let dir = tempfile::tempdir().unwrap();
        fs::create_dir_all(dir.path().join("run")).unwrap();
        fs::write(dir.path().join("run/ostree-booted"), "").unwrap();
        for etc in ["etc", "usr/etc"] {
            let etc = dir.path().join(etc);
            fs::create_dir_all(etc.join("folder/deep")).unwrap();
            for name in ["file", "folder/deep/file", "folder/other", "z"] {
                fs::write(etc.join(name), format!("content of {name}")).unwrap();
                fs::set_permissions(etc.join(name), Permissions::from_mode(0o644)).unwrap();
            }
            fs::set_permissions(etc.join("folder"), Permissions::from_mode(0o755)).unwrap();
            symlink("file", etc.join("link")).unwrap();
        }
        dir
    }

    fn of(dir: &Path) -> Result<Drift, Error> {
        of_root(&HostRoot::open(dir).unwrap())
    }

    /// Changes one entry of the machine.
    type Change = fn(&Path);
    /// A path, and how it differs.
    type Listed = (&'static str, &'static [Difference]);

    #[test]
    fn each_difference_is_listed_with_its_kind() {
        use Difference::{Content, Mode, Removed, Target, Type};
        let cases: [(&str, Change, &[Listed]); 12] = [
            ("nothing changed", |_| (), &[]),
            ("an added file hides nothing", |etc| fs::write(etc.join("new"), "").unwrap(), &[]),
            (
                "other bytes of the same length",
                |etc| fs::write(etc.join("file"), "CONTENT OF FILE").unwrap(),
                &[("/etc/file", &[Content])],
            ),
            (
                "another length",
                |etc| fs::write(etc.join("file"), "").unwrap(),
                &[("/etc/file", &[Content])],
            ),
            (
                "a mode",
                |etc| fs::set_permissions(etc.join("file"), Permissions::from_mode(0o600)).unwrap(),
                &[("/etc/file", &[Mode])],
            ),
            (
                "content and mode",
                |etc| {
                    fs::write(etc.join("file"), "CONTENT OF FILE").unwrap();
                    fs::set_permissions(etc.join("file"), Permissions::from_mode(0o600)).unwrap();
                },
                &[("/etc/file", &[Content, Mode])],
            ),
            (
                "a removed file",
                |etc| fs::remove_file(etc.join("z")).unwrap(),
                &[("/etc/z", &[Removed])],
            ),
            (
                "a removed directory is one path",
                |etc| fs::remove_dir_all(etc.join("folder")).unwrap(),
                &[("/etc/folder", &[Removed])],
            ),
            (
                "a mode of a directory, and a file below it",
                |etc| {
                    fs::write(etc.join("folder/deep/file"), "").unwrap();
                    fs::set_permissions(etc.join("folder"), Permissions::from_mode(0o700)).unwrap();
                },
                &[("/etc/folder", &[Mode]), ("/etc/folder/deep/file", &[Content])],
            ),
            (
                "a link to elsewhere",
                |etc| {
                    fs::remove_file(etc.join("link")).unwrap();
                    symlink("z", etc.join("link")).unwrap();
                },
                &[("/etc/link", &[Target])],
            ),
            (
                "a link with the same content behind it is not followed",
                |etc| {
                    fs::rename(etc.join("folder"), etc.join("moved")).unwrap();
                    symlink("moved", etc.join("folder")).unwrap();
                },
                &[("/etc/folder", &[Type])],
            ),
            (
                "a directory in place of a file",
                |etc| {
                    fs::remove_file(etc.join("z")).unwrap();
                    fs::create_dir(etc.join("z")).unwrap();
                },
                &[("/etc/z", &[Type])],
            ),
        ];
        for (what, change, want) in cases {
            let dir = machine();
            change(&dir.path().join("etc"));
            let paths = want
                .iter()
                .map(|(path, differences)| HiddenPath {
                    path: (*path).to_owned(),
                    differences: differences.to_vec(),
                })
                .collect();
            assert_eq!(of(dir.path()).unwrap(), Drift { paths, omitted: 0 }, "{what}");
        }
    }

    #[test]
    fn large_files_are_compared_to_the_end() {
        let dir = machine();
        let mut content = vec![b'x'; 2 * PIECE + 1];
        fs::write(dir.path().join("usr/etc/z"), &content).unwrap();
        fs::write(dir.path().join("etc/z"), &content).unwrap();
        assert_eq!(of(dir.path()).unwrap().paths, []);
        content[2 * PIECE] = b'y';
        fs::write(dir.path().join("etc/z"), &content).unwrap();
        assert_eq!(of(dir.path()).unwrap().paths.len(), 1);
    }

    #[test]
    fn an_owner_is_compared_by_user_and_group() {
        let entry = |uid, gid| Entry { kind: EntryKind::Directory, mode: 0o755, uid, gid };
        assert_eq!(differences(&entry(0, 0), Some(&entry(0, 0))), []);
        for other in [entry(1, 0), entry(0, 1)] {
            assert_eq!(differences(&entry(0, 0), Some(&other)), [Difference::Owner]);
        }
        let link =
            |mode| Entry { kind: EntryKind::Link { target: b"x".to_vec() }, mode, uid: 0, gid: 0 };
        assert_eq!(differences(&link(0o777), Some(&link(0o700))), [], "a link has no mode");
    }

    #[test]
    fn the_list_is_limited_and_counts_the_rest() {
        let dir = machine();
        for number in 0..MAX_LISTED + 2 {
            fs::write(dir.path().join(format!("usr/etc/many-{number:04}")), "").unwrap();
        }
        let drift = of(dir.path()).unwrap();
        assert_eq!((drift.paths.len(), drift.omitted), (MAX_LISTED, 2));
        assert!(drift.paths.is_sorted_by_key(|one| &one.path));
    }

    #[test]
    fn a_machine_without_an_image_has_no_drift() {
        let dir = machine();
        fs::remove_file(dir.path().join("run/ostree-booted")).unwrap();
        assert!(matches!(of(dir.path()), Err(Error::NotImageBased)));
        let dir = machine();
        fs::remove_dir_all(dir.path().join("usr/etc")).unwrap();
        assert!(matches!(of(dir.path()), Err(Error::File { .. })));
    }
}
