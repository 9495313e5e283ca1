//! Whether `/boot` has space for the kernel of the staged image, beside those that are there. If not,
//! ostree deletes the machine's way back before it writes that kernel ("early pruning"), and an older
//! ostree does not finalize the deployment.

use std::path::Path;

use crate::deployment_folder;
use crate::error::Error;
use crate::file_tree::{EntryKind, FileTree};
use crate::host_root::HostRoot;

/// Below it, ostree has a directory for each kernel with its initramfs, `OS-CHECKSUM`.
const IN_BOOT: &str = "/boot/ostree";
/// Below it, a deployment has a directory for each version of a kernel.
const MODULES: &str = "usr/lib/modules";

/// A kernel and its initramfs, by their sizes: those of other images differ.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Kernel {
    version: String,
    bytes: u64,
    initramfs_bytes: u64,
}

/// Whether a kernel of a deployment is not in `/boot`, and does not fit there.
///
/// # Errors
/// The kernels can't be listed.
pub(crate) fn lacks_space(root: &HostRoot) -> Result<bool, Error> {
    if !root.exists(IN_BOOT) {
        return Ok(false);
    }
    let in_boot = kernels_in_boot(&root.tree(IN_BOOT)?)?;
    let mut needed = 0;
    for deployment in deployment_folder::all(root)? {
        let kernels = kernels_of_deployment(&root.tree(&deployment.root())?)?;
        let missing = kernels.iter().filter(|kernel| !in_boot.contains(kernel));
        let bytes = missing.map(|kernel| kernel.bytes.saturating_add(kernel.initramfs_bytes));
        needed = bytes.fold(needed, u64::max);
    }
    if needed == 0 {
        return Ok(false);
    }
    Ok(root.free_bytes(IN_BOOT)? < needed)
}

fn kernels_of_deployment(tree: &FileTree) -> Result<Vec<Kernel>, Error> {
    let modules = Path::new(MODULES);
    let mut kernels = Vec::new();
    if tree.entry(modules)?.is_none() {
        return Ok(kernels);
    }
    for version in tree.names(modules)? {
        let folder = modules.join(&version);
        if let Some(bytes) = size(tree, &folder.join("vmlinuz"))? {
            let initramfs_bytes = size(tree, &folder.join("initramfs.img"))?.unwrap_or_default();
            let version = version.to_string_lossy().into_owned();
            kernels.push(Kernel { version, bytes, initramfs_bytes });
        }
    }
    Ok(kernels)
}

fn kernels_in_boot(tree: &FileTree) -> Result<Vec<Kernel>, Error> {
    let mut kernels = Vec::new();
    for folder in tree.names(Path::new(""))? {
        let folder = Path::new(&folder);
        for name in tree.names(folder)? {
            let name = name.to_string_lossy();
            let Some(version) = name.strip_prefix("vmlinuz-") else { continue };
            let Some(bytes) = size(tree, &folder.join(&*name))? else { continue };
            let initramfs = folder.join(format!("initramfs-{version}.img"));
            let initramfs_bytes = size(tree, &initramfs)?.unwrap_or_default();
            kernels.push(Kernel { version: version.to_owned(), bytes, initramfs_bytes });
        }
    }
    Ok(kernels)
}

fn size(tree: &FileTree, path: &Path) -> Result<Option<u64>, Error> {
    Ok(tree.entry(path)?.and_then(|entry| match entry.kind {
        EntryKind::File { size } => Some(size),
        EntryKind::Directory | EntryKind::Link { .. } | EntryKind::Other => None,
    }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::{self, File};

    /// More than any disk of a test has; the files have no blocks.
    const HUGE: u64 = 1 << 43;

    #[test]
    fn kernels_in_boot_need_no_space() {
        for (what, in_boot, booted, staged, want) in [
            ("the same kernel", 1, 1, 1, false),
            ("another one that fits", 1, 1, 2, false),
            ("another one that does not fit", 1, 1, HUGE, true),
            ("a large one that is there", HUGE, HUGE, HUGE, false),
        ] {
            let dir = tempfile::tempdir().unwrap();
            let file = |path: String, bytes: u64| {
                let path = dir.path().join(path);
                fs::create_dir_all(path.parent().unwrap()).unwrap();
                File::create(path).unwrap().set_len(bytes).unwrap();
            };
            file("boot/ostree/os-0a/vmlinuz-6.1".to_owned(), in_boot);
            file("boot/ostree/os-0a/initramfs-6.1.img".to_owned(), 7);
            for (name, bytes) in [("0a.0", booted), ("0b.0", staged)] {
                let folder = format!("sysroot/ostree/deploy/os/deploy/{name}/{MODULES}/6.1");
                file(format!("{folder}/vmlinuz"), bytes);
                file(format!("{folder}/initramfs.img"), 7);
            }
            let root = HostRoot::open(dir.path()).unwrap();
            assert_eq!(lacks_space(&root).unwrap(), want, "{what}");
        }
        let empty = tempfile::tempdir().unwrap();
        assert!(!lacks_space(&HostRoot::open(empty.path()).unwrap()).unwrap());
    }
}
