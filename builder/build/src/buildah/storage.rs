//! Reports and removes buildah's storage, which builds share.

use std::fs::{self, File};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use rustix::fs::{FlockOperation, flock};
use tokio::task::spawn_blocking;

use super::commands;
use super::error::Error;
use super::files::io as failed;
use super::store::{self, LOCK, STORE};

/// buildah's storage and work folders below the cache directory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Storage {
    pub directory: PathBuf,
    /// Bytes of all readable files.
    pub size: u64,
}

/// The result of [`remove`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RemovedStorage {
    /// The storage before the removal.
    pub storage: Storage,
    /// False if a build is using it.
    pub is_removed: bool,
}

/// The storage below a cache directory, if any.
pub async fn storage(cache_dir: &Path) -> Option<Storage> {
    let directory = store::places(cache_dir, None).folder;
    let look = move || {
        let metadata = directory.metadata().ok()?;
        let any = !parts(&directory).ok()?.is_empty();
        let size = size(&directory, metadata.dev());
        any.then_some(Storage { directory, size })
    };
    spawn_blocking(look).await.expect("looking does not panic")
}

/// Removes the storage, unless a build is using it.
///
/// # Errors
/// Something can't be removed, or an interrupted build left it mounted.
pub async fn remove(cache_dir: &Path) -> Result<Option<RemovedStorage>, Error> {
    let Some(storage) = storage(cache_dir).await else {
        return Ok(None);
    };
    let folder = fs::canonicalize(&storage.directory).map_err(failed(&storage.directory))?;
    let path = folder.join(LOCK);
    let create = File::options().create(true).truncate(false).write(true).open(&path);
    // Held to the end: a build that starts now waits for it.
    let lock = create.map_err(failed(&path))?;
    if flock(&lock, FlockOperation::NonBlockingLockExclusive).is_err() {
        return Ok(Some(RemovedStorage { storage, is_removed: false }));
    }
    for part in parts(&folder).map_err(failed(&folder))? {
        let name = part.file_name().and_then(|name| name.to_str());
        if let Some(driver) = name.and_then(|name| name.strip_prefix(STORE)) {
            let driver = Some(driver).filter(|driver| *driver != store::DEFAULT);
            let mut places = store::places(cache_dir, driver);
            places.folder.clone_from(&folder);
            if let Err(error) = commands::remove_containers(&places).run(|_, _| ()).await {
                tracing::warn!(%error, "buildah does not take its containers away; going on without it");
            }
        }
    }
    // Mounts are skipped: they may be a folder of the user.
    let mounts = Path::new("/proc/self/mountinfo");
    let mounts = fs::read(mounts).map_err(failed(mounts))?;
    if let Some(path) = mounted_below(&mounts, &folder) {
        return Err(Error::Mounted { path });
    }
    let parts = parts(&folder).map_err(failed(&folder))?;
    let (all, first) = (parts.clone(), folder.clone());
    let removed = spawn_blocking(move || {
        all.iter().try_for_each(|part| {
            if part.is_dir() { fs::remove_dir_all(part) } else { fs::remove_file(part) }
        })
    });
    match removed.await.expect("removing does not panic") {
        // Without root, files of a layer may belong to other users; in buildah's user namespace
        // they are ours.
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
            commands::remove_files(&parts, &folder).run(|_, _| ()).await?;
        }
        removed => removed.map_err(failed(&first))?,
    }
    Ok(Some(RemovedStorage { storage, is_removed: true }))
}

/// Everything in the folder but its lock, which a waiting build has open.
fn parts(folder: &Path) -> io::Result<Vec<PathBuf>> {
    let entries = fs::read_dir(folder)?.map(|entry| Ok(entry?.path()));
    let mut parts = entries.collect::<io::Result<Vec<_>>>()?;
    parts.retain(|part| !part.ends_with(LOCK));
    Ok(parts)
}

/// Bytes of all files of one file system below a folder; what can't be read is not counted.
fn size(folder: &Path, device: u64) -> u64 {
    let Ok(entries) = fs::read_dir(folder) else {
        return 0;
    };
    let sizes = entries.filter_map(Result::ok).map(|entry| match entry.metadata() {
        Ok(metadata) if metadata.is_dir() && metadata.dev() == device => {
            size(&entry.path(), device)
        }
        Ok(metadata) if metadata.is_file() => metadata.len(),
        _ => 0,
    });
    sizes.sum()
}

/// A mount point below a folder, from the kernel's list.
fn mounted_below(mountinfo: &[u8], folder: &Path) -> Option<PathBuf> {
    let lines = mountinfo.split(|byte| *byte == b'\n');
    let points = lines.filter_map(|line| line.split(|byte| *byte == b' ').nth(4));
    let mut paths = points.map(|point| PathBuf::from(std::ffi::OsStr::from_bytes(&plain(point))));
    paths.find(|path| path != folder && path.starts_with(folder))
}

/// A path of the kernel's list, in which a space is `\040`.
fn plain(text: &[u8]) -> Vec<u8> {
    let (mut bytes, mut rest) = (Vec::new(), text);
    while let Some((first, after)) = rest.split_first() {
        let octal = after.get(..3).and_then(|digits| std::str::from_utf8(digits).ok());
        let byte = octal.and_then(|digits| u8::from_str_radix(digits, 8).ok());
        match (first, byte) {
            (b'\\', Some(byte)) => {
                bytes.push(byte);
                rest = &after[3..];
            }
            _ => {
                bytes.push(*first);
                rest = after;
            }
        }
    }
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mounts_below_a_folder_are_found() {
        let list = b"22 1 0:2 / / rw - ext4 /dev/x rw\n\
            23 22 0:3 / /c/buildah rw - ext4 /dev/y rw\n\
            24 22 0:3 / /c/buildah\\040b/store-overlay/overlay rw - overlay overlay rw\n";
        for (folder, want) in [
            ("/c/buildah", None),
            ("/c/b", None),
            ("/c", Some("/c/buildah")),
            ("/c/buildah b", Some("/c/buildah b/store-overlay/overlay")),
        ] {
            let found = mounted_below(list, Path::new(folder));
            assert_eq!(found.as_deref(), want.map(Path::new), "{folder}");
        }
    }

    #[tokio::test]
    async fn only_an_unused_store_is_deleted() {
        let cache = tempfile::tempdir().unwrap();
        assert_eq!(remove(cache.path()).await.unwrap(), None);
        let folder = cache.path().join("buildah");
        fs::create_dir_all(folder.join("work/build-1")).unwrap();
        fs::write(folder.join("work/build-1/file"), "12345").unwrap();
        fs::write(folder.join("work/build-1.image"), "").unwrap();
        let lock = File::create(folder.join(LOCK)).unwrap();
        flock(&lock, FlockOperation::LockShared).unwrap();
        let there = storage(cache.path()).await.unwrap();
        assert_eq!((&there.directory, there.size), (&folder, 5));
        let removed = |is_removed| Some(RemovedStorage { storage: there.clone(), is_removed });
        assert_eq!(remove(cache.path()).await.unwrap(), removed(false));
        assert!(folder.join("work/build-1/file").exists());
        drop(lock);
        assert_eq!(remove(cache.path()).await.unwrap(), removed(true));
        assert_eq!(storage(cache.path()).await, None);
        assert!(folder.join(LOCK).exists());
    }
}
