//! Base trees on disk, one file for each base manifest.
//!
//! The name of a file contains the manifest's digest and the version of the format. Its SHA-256 is
//! checked when it is read; that doesn't identify the writer, as the `CacheDirectory` does. A tree
//! has contents of the base that not everybody may read on a machine, such as `/etc/shadow`, so only
//! this user can read them here. The least recently used files are removed first.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

pub use crate::base_tree::cache_directory::Pruned;
use crate::base_tree::cache_directory::{CacheDirectory, CachedFile};
use mosb_image::Digest;
use mosb_image::tree::{self, BaseTree};
use mosb_types::{Finding, error_text};

/// Default limit of the bytes of all entries: some fifty of the largest bases.
pub const DEFAULT_LIMIT: u64 = 256 << 20;
/// Biggest file that is read as an entry; a tree of 100 000 paths has some 4 MB.
const LARGEST: u64 = 512 << 20;

/// A directory of base trees.
#[derive(Debug, Clone)]
pub struct TreeCache {
    directory: CacheDirectory,
    limit: u64,
}

/// A base tree in the cache.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CacheEntry {
    /// Digest of the base's manifest.
    pub manifest: Digest,
    /// Bytes on disk.
    pub size: u64,
    /// When it was last written or read.
    pub used: SystemTime,
}

impl TreeCache {
    /// The cache in a directory, which is created for the first entry. It contains at most `limit`
    /// bytes.
    pub fn new(directory: impl Into<PathBuf>, limit: u64) -> Self {
        let directory = CacheDirectory {
            path: directory.into(),
            code: "base-tree-cache",
            entry: "cached base tree",
            is_entry,
            is_current: |name| name.ends_with(&suffix()),
        };
        Self { directory, limit }
    }

    /// Where it is.
    pub fn directory(&self) -> &Path {
        &self.directory.path
    }

    fn path(&self, manifest: &Digest) -> PathBuf {
        self.directory.path.join(name(manifest))
    }

    /// The tree of a base; `None` if it isn't there.
    ///
    /// # Errors
    /// A warning if it can't be read, if others could have written it, or if it is damaged: then it
    /// is removed too.
    pub fn load(&self, manifest: &Digest) -> Result<Option<BaseTree>, Finding> {
        let name = name(manifest);
        let Some(bytes) = self.directory.read(&name, LARGEST)? else {
            return Ok(None);
        };
        BaseTree::from_bytes(bytes).map(Some).map_err(|error| {
            // Writing it again replaces it in any case.
            let _ = fs::remove_file(self.path(manifest));
            self.directory.warning(&name, "is made again", &error_text(&error))
        })
    }

    /// Keeps the tree of a base, and removes what is then too much.
    ///
    /// # Errors
    /// A warning if it can't be written.
    pub fn store(&self, manifest: &Digest, tree: &BaseTree) -> Result<(), Finding> {
        self.directory.store(&name(manifest), tree.as_bytes(), within(self.limit))
    }

    /// The trees that are there, last used first.
    ///
    /// # Errors
    /// A warning if the directory can't be read; a missing one is empty.
    pub fn list(&self) -> Result<Vec<CacheEntry>, Finding> {
        let mut entries: Vec<CacheEntry> = self
            .directory
            .files()?
            .iter()
            .filter_map(|file| {
                let name = file.name.strip_suffix(&suffix())?;
                Some(CacheEntry {
                    manifest: format!("sha256:{name}").parse().ok()?,
                    size: file.size,
                    used: file.used,
                })
            })
            .collect();
        entries.sort_by_key(|entry| std::cmp::Reverse((entry.used, entry.manifest)));
        Ok(entries)
    }

    /// Removes what was used longest ago until at most `keep` bytes are left (0: all), entries of
    /// other versions first, and what interrupted runs left behind.
    pub fn prune(&self, keep: u64) -> Pruned {
        self.directory.prune(within(keep))
    }
}

/// Whether files, one after the other, still have at most so many bytes.
fn within(limit: u64) -> impl FnMut(&CachedFile) -> bool {
    let mut kept = 0;
    move |file| {
        let fits = kept + file.size <= limit;
        kept += if fits { file.size } else { 0 };
        fits
    }
}

/// Whether this is the name of a tree of any version.
fn is_entry(name: &str) -> bool {
    name.split_once(".tree-").is_some_and(|(hex, version)| {
        format!("sha256:{hex}").parse::<Digest>().is_ok() && version.parse::<u32>().is_ok()
    })
}

fn name(manifest: &Digest) -> String {
    format!("{}{}", manifest.hex(), suffix())
}

fn suffix() -> String {
    format!(".tree-{}", tree::VERSION)
}

#[cfg(test)]
mod tests {
    use std::fs::{File, Permissions};
    use std::os::unix::fs::PermissionsExt as _;
    use std::sync::Arc;
    use std::time::Duration;

    use rustix::process::geteuid;

    use super::*;
    use crate::layout::atomic::{TEMPORARY, Temporary};
    use crate::layout::folder::Folder;
    use mosb_image::tree::OwnedEntry;

    fn tree(content: &str) -> BaseTree {
        BaseTree::from_entries([(b"etc/a".to_vec(), OwnedEntry::file(content.as_bytes()))])
    }

    fn manifest(n: u8) -> Digest {
        Digest::of(&[n])
    }

    fn age(cache: &TreeCache, n: u8, seconds: u64) {
        let file = File::options().append(true).open(cache.path(&manifest(n))).unwrap();
        let then = SystemTime::now() - Duration::from_secs(seconds);
        file.set_modified(then).unwrap();
    }

    #[test]
    fn trees_are_loaded_by_their_manifest() {
        let directory = tempfile::tempdir().unwrap();
        let cache = TreeCache::new(directory.path().join("a/b"), DEFAULT_LIMIT);
        assert_eq!(cache.list(), Ok(Vec::new()));
        assert_eq!(cache.load(&manifest(1)), Ok(None));
        cache.store(&manifest(1), &tree("x")).unwrap();
        cache.store(&manifest(1), &tree("y")).unwrap();
        assert_eq!(cache.load(&manifest(1)), Ok(Some(tree("y"))));
        assert_eq!(cache.load(&manifest(2)), Ok(None));
        let list = cache.list().unwrap();
        assert_eq!(list.len(), 1);
        assert_eq!(list[0].manifest, manifest(1));
        assert_eq!(list[0].size, tree("y").as_bytes().len() as u64);
    }

    #[test]
    fn a_tree_of_another_version_is_made_anew() {
        let directory = tempfile::tempdir().unwrap();
        let cache = TreeCache::new(directory.path(), DEFAULT_LIMIT);
        let mut bytes = tree("x").as_bytes().to_vec();
        bytes[8] -= 1;
        let old = format!("{}.tree-{}", manifest(1).hex(), tree::VERSION - 1);
        fs::write(directory.path().join(&old), &bytes).unwrap();
        assert_eq!(cache.load(&manifest(1)), Ok(None), "it is not a warning");
        assert_eq!(cache.list(), Ok(Vec::new()));
        cache.store(&manifest(1), &tree("x")).unwrap();
        assert_eq!(cache.load(&manifest(1)), Ok(Some(tree("x"))));
        assert!(directory.path().join(&old).exists(), "an older mosb may use it");
        let pruned = cache.prune(tree("x").as_bytes().len() as u64);
        assert_eq!((pruned.files, directory.path().join(&old).exists()), (1, false));
        assert_eq!(cache.load(&manifest(1)), Ok(Some(tree("x"))));
        // Under the name of this version it is damaged.
        fs::write(cache.path(&manifest(2)), &bytes).unwrap();
        let warning = cache.load(&manifest(2)).unwrap_err();
        let want = format!("a base tree of version {}, want {}", tree::VERSION - 1, tree::VERSION);
        assert!(warning.message.contains(&want), "{warning:?}");
    }

    #[test]
    fn a_damaged_entry_is_a_warning_once() {
        let directory = tempfile::tempdir().unwrap();
        let cache = TreeCache::new(directory.path(), DEFAULT_LIMIT);
        for damaged in [&b""[..], b"rubbish", &tree("x").as_bytes()[..100]] {
            fs::write(cache.path(&manifest(1)), damaged).unwrap();
            let warning = cache.load(&manifest(1)).unwrap_err();
            assert_eq!(warning.code, "base-tree-cache");
            assert_eq!(cache.load(&manifest(1)), Ok(None));
        }
    }

    #[test]
    fn files_that_others_can_write_are_ignored() {
        let directory = tempfile::tempdir().unwrap();
        let cache = TreeCache::new(directory.path().join("trees"), DEFAULT_LIMIT);
        let mode = |path: &Path, mode: u32| {
            fs::set_permissions(path, Permissions::from_mode(mode)).unwrap();
        };
        let (file, folder) = (cache.path(&manifest(1)), cache.directory());
        let mine = tree("mine");
        cache.store(&manifest(1), &mine).unwrap();
        let modes = [&*file, folder].map(|p| fs::metadata(p).unwrap().permissions().mode() & 0o777);
        assert_eq!(modes, [0o600, 0o700], "whatever the umask");
        for (what, path, writable) in [
            ("its group", &*file, 0o664),
            ("anybody", &file, 0o666),
            ("the directory's group", folder, 0o775),
            ("anybody in a directory like /tmp", folder, 0o1777),
        ] {
            mode(path, writable);
            let warning = cache.load(&manifest(1)).unwrap_err();
            let told = format!("{} is ignored: others may write it", path.display());
            assert!(warning.message.contains(&told), "{what}: {warning:?}");
            assert!(file.exists(), "{what}: it may be of somebody who wants it");
            // Written anew it is ours again, but not in a directory where others replace it.
            cache.store(&manifest(1), &mine).unwrap();
            assert_eq!(cache.load(&manifest(1)).is_ok(), path == file, "{what}");
            mode(folder, 0o755);
        }
        let other = directory.path().join("other");
        fs::rename(&file, &other).unwrap();
        std::os::unix::fs::symlink(&other, &file).unwrap();
        let warning = cache.load(&manifest(1)).unwrap_err();
        assert!(warning.message.contains("links are not followed"), "{warning:?}");
        if geteuid().is_root() {
            fs::remove_file(&file).unwrap();
            fs::rename(&other, &file).unwrap();
            for (path, want) in [(&*file, false), (folder, false)] {
                std::os::unix::fs::chown(path, Some(1234), None).unwrap();
                let loaded = cache.load(&manifest(1));
                assert_eq!(loaded.is_ok(), want, "{loaded:?}");
                let told = loaded.unwrap_err().message;
                assert!(told.contains("it belongs to user 1234"), "{told}");
                std::os::unix::fs::chown(path, Some(0), None).unwrap();
            }
            assert_eq!(cache.load(&manifest(1)), Ok(Some(mine)));
        }
    }

    #[test]
    fn the_least_recently_used_tree_is_removed_first() {
        let directory = tempfile::tempdir().unwrap();
        let size = tree("x").as_bytes().len() as u64;
        let cache = TreeCache::new(directory.path(), 2 * size);
        for n in [1, 2] {
            cache.store(&manifest(n), &tree("x")).unwrap();
            age(&cache, n, 100 - u64::from(n));
        }
        // Reading it makes the older one the newer.
        cache.load(&manifest(1)).unwrap();
        cache.store(&manifest(3), &tree("x")).unwrap();
        let left = |cache: &TreeCache| {
            let mut left: Vec<_> = cache.list().unwrap().iter().map(|e| e.manifest).collect();
            left.sort();
            left
        };
        let mut want = vec![manifest(1), manifest(3)];
        want.sort();
        assert_eq!(left(&cache), want);

        fs::write(directory.path().join("other"), "of somebody else").unwrap();
        let folder = Arc::new(Folder::open(directory.path()).unwrap());
        let (writing, _writer) = Temporary::create(folder).unwrap();
        let living = writing.path();
        fs::write(directory.path().join(format!("{TEMPORARY}of-the-killed")), "").unwrap();
        let old = format!("{}.tree-0", manifest(9).hex());
        fs::write(directory.path().join(&old), "old version").unwrap();
        let pruned = cache.prune(2 * size);
        assert_eq!((pruned.files, pruned.warnings.len()), (2, 0));
        assert_eq!(cache.prune(0).files, 2);
        let mut names: Vec<_> = fs::read_dir(directory.path())
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        names.sort();
        let living = living.file_name().unwrap().to_str().unwrap();
        assert_eq!(names, [living, ".mosb.lock", "other"]);
    }
}
