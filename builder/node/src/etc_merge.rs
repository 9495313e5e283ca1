//! Whether ostree can merge what was changed in `/etc` into the image that is staged. It does that at
//! shutdown, so an image for which it can't is not booted, and the machine was drained for nothing.
//!
//! ostree refuses a file or link that the machine has of its own, where the next `/etc` has a directory.

use std::path::{Path, PathBuf};

use mosb_image::PinnedRef;

use crate::adopt;
use crate::deployment_folder::DeploymentFolder;
use crate::error::Error;
use crate::file_tree::{EntryKind, FileTree, entry_state, path_text};
use crate::host_root::HostRoot;
use crate::live::staged_deployment;

const ETC: &str = "/etc";
/// The `/etc` of an image, below its root.
const IMAGE_ETC: &str = "/usr/etc";
/// The most entries of an image that are looked at.
const MAX_ENTRIES: usize = 100_000;

/// Checks what is staged of this image. Nothing is checked where its tree is not found, or where `/etc`
/// is not that of a deployment.
///
/// # Errors
/// A path can't be merged, or can't be read.
pub(crate) fn check(root: &HostRoot, image: &PinnedRef) -> Result<(), Error> {
    let booted = match DeploymentFolder::booted(root) {
        Ok(booted) => booted,
        Err(Error::EtcNotOfDeployment) => return Ok(()),
        Err(error) => return Err(error),
    };
    let Some(staged) = staged_deployment(root, image.digest(), &booted)? else {
        return Ok(());
    };
    let next = format!("{}{IMAGE_ETC}", staged.root());
    if !root.exists(&next) {
        return Ok(());
    }
    let (machine, before) = (root.tree(ETC)?, root.tree(IMAGE_ETC)?);
    for path in in_the_way(&root.tree(&next)?, &machine)? {
        let state = entry_state(&machine, &path)?;
        let is_own = state != entry_state(&before, &path)?;
        if is_own && !adopt::may_be_left_out(root, &booted, &path, state.as_ref()) {
            let path = path_text(&Path::new(ETC).join(path));
            return Err(Error::NotMergeable { path, image: image.to_string() });
        }
    }
    Ok(())
}

/// What the machine has where the next image has a directory, and that is none.
fn in_the_way(next: &FileTree, machine: &FileTree) -> Result<Vec<PathBuf>, Error> {
    let mut found = Vec::new();
    let mut folders = vec![PathBuf::new()];
    let mut entries = 0;
    while let Some(folder) = folders.pop() {
        for name in next.names(&folder)? {
            entries += 1;
            if entries > MAX_ENTRIES {
                return Err(Error::TooManyFiles { path: IMAGE_ETC, limit: MAX_ENTRIES });
            }
            let path = folder.join(name);
            let is_folder = next.entry(&path)?.is_some_and(|one| one.kind == EntryKind::Directory);
            match machine.entry(&path)? {
                Some(entry) if is_folder && entry.kind == EntryKind::Directory => {
                    folders.push(path)
                }
                Some(_) if is_folder => found.push(path),
                _ => {}
            }
        }
    }
    found.sort();
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::os::unix::fs::symlink;

    /// A machine that booted the first deployment, with the second one staged, as bind mounts show it.
    fn machine() -> (tempfile::TempDir, PinnedRef) {
        let dir = tempfile::tempdir().unwrap();
        let deploy = dir.path().join("sysroot/ostree/deploy/os/deploy");
        let names = ["0", "1"].map(|digit| format!("{}.0", digit.repeat(64)));
        for name in &names {
            fs::create_dir_all(deploy.join(name).join("usr/etc")).unwrap();
        }
        fs::create_dir_all(deploy.join(&names[0]).join("etc")).unwrap();
        symlink(
            format!("sysroot/ostree/deploy/os/deploy/{}/etc", names[0]),
            dir.path().join("etc"),
        )
        .unwrap();
        symlink(
            format!("sysroot/ostree/deploy/os/deploy/{}/usr", names[0]),
            dir.path().join("usr"),
        )
        .unwrap();
        let image: PinnedRef =
            format!("reg.example/os@{}", mosb_image::Digest::of(b"next")).parse().unwrap();
        let origin =
            format!("[origin]\ncontainer-image-reference=ostree-unverified-registry:{image}\n");
        fs::write(deploy.join(format!("{}.origin", names[1])), origin).unwrap();
        let next = deploy.join(&names[1]).join("usr/etc");
        for folder in ["a", "b/c", "d"] {
            fs::create_dir_all(next.join(folder)).unwrap();
        }
        fs::write(next.join("file"), "").unwrap();
        (dir, image)
    }

    #[test]
    fn own_files_must_not_be_directories_next() {
        type Change = fn(&Path, &Path);
        let cases: [(&str, Change, Option<&str>); 8] = [
            ("nothing", |_, _| (), None),
            ("a file of its own", |etc, _| fs::write(etc.join("a"), "x").unwrap(), Some("/etc/a")),
            ("a link of its own", |etc, _| symlink("x", etc.join("a")).unwrap(), Some("/etc/a")),
            (
                "a file of the image",
                |etc, usr_etc| {
                    fs::write(usr_etc.join("a"), "x").unwrap();
                    fs::write(etc.join("a"), "x").unwrap();
                },
                None,
            ),
            (
                "a changed file of the image",
                |etc, usr_etc| {
                    fs::write(usr_etc.join("a"), "x").unwrap();
                    fs::write(etc.join("a"), "y").unwrap();
                },
                Some("/etc/a"),
            ),
            (
                "a file below a directory",
                |etc, _| {
                    fs::create_dir(etc.join("b")).unwrap();
                    fs::write(etc.join("b/c"), "x").unwrap();
                },
                Some("/etc/b/c"),
            ),
            ("a directory", |etc, _| fs::create_dir(etc.join("d")).unwrap(), None),
            ("a directory for a file", |etc, _| fs::create_dir(etc.join("file")).unwrap(), None),
        ];
        for (what, change, want) in cases {
            let (dir, image) = machine();
            let at = |path: &str| fs::canonicalize(dir.path().join(path)).unwrap();
            change(&at("etc"), &at("usr").join("etc"));
            let checked = check(&HostRoot::open(dir.path()).unwrap(), &image);
            match (want, checked) {
                (None, Ok(())) => {}
                (Some(want), Err(Error::NotMergeable { path, .. })) if path == want => {}
                (_, found) => panic!("{what}: {found:?}"),
            }
        }
    }

    #[test]
    fn other_images_are_not_checked() {
        let (dir, _) = machine();
        fs::write(dir.path().join("etc/a"), "x").unwrap();
        let other = format!("reg.example/os@{}", mosb_image::Digest::of(b"other"));
        check(&HostRoot::open(dir.path()).unwrap(), &other.parse().unwrap()).unwrap();
    }
}
