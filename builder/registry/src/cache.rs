//! Base trees on disk, one file for each base manifest: only ever a shortcut, so nothing that goes
//! wrong here is an error.
//!
//! The name of a file contains the manifest's digest and the version of the format. A file is
//! written completely or not at all, and its SHA-256 is checked when it is read. A checksum does
//! not identify the writer, so only files and directories count that no user but this one and root
//! can write. A tree has contents of the base that not everybody may read on a machine, such as
//! `/etc/shadow`, so only this user can read them here. Several processes may use one directory
//! concurrently. The least recently used files are removed first.

use std::ffi::OsStr;
use std::fs::{self, DirBuilder, DirEntry, FileTimes, Permissions};
use std::io::{self, Read, Write};
use std::os::fd::AsFd;
use std::os::unix::fs::{DirBuilderExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::SystemTime;

use rustix::fs::fstat;
use rustix::process::geteuid;

use super::atomic::{TEMPORARY, Temporary, failed, take};
use super::error::Error;
use super::folder::Folder;
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
    directory: PathBuf,
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

/// What pruning did.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Pruned {
    /// Removed files: entries, and incomplete files of interrupted runs.
    pub files: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Files that could not be removed.
    pub warnings: Vec<Finding>,
}

impl TreeCache {
    /// The cache in a directory, which is created for the first entry. It contains at most `limit`
    /// bytes.
    pub fn new(directory: impl Into<PathBuf>, limit: u64) -> Self {
        Self { directory: directory.into(), limit }
    }

    /// Where it is.
    pub fn directory(&self) -> &Path {
        &self.directory
    }

    fn path(&self, manifest: &Digest) -> PathBuf {
        self.directory.join(name(manifest))
    }

    /// The tree of a base; `None` if it isn't there.
    ///
    /// # Errors
    /// A warning if it can't be read, if others could have written it, or if it is damaged: then it
    /// is removed too.
    pub fn load(&self, manifest: &Digest) -> Result<Option<BaseTree>, Finding> {
        let Some(folder) = self.folder()? else {
            return Ok(None);
        };
        let path = self.path(manifest);
        let file = folder.file(&name(manifest));
        let Some((file, size)) = file.map_err(|e| warning(&path, "is ignored", &e))? else {
            return Ok(None);
        };
        check_writers(&file)
            .map_err(|cause| ignored("the cached base tree", &path, &cause, "remove it"))?;
        let mut bytes = Vec::new();
        bytes.reserve_exact(usize::try_from(size.min(LARGEST)).unwrap_or(0));
        (&file)
            .take(LARGEST)
            .read_to_end(&mut bytes)
            .map_err(|error| warning(&path, "can't be read", &error))?;
        match BaseTree::from_bytes(bytes) {
            Ok(tree) => {
                let now = FileTimes::new().set_modified(SystemTime::now());
                // A cache on a read-only disk works; only its order of use is lost.
                let _ = file.set_times(now);
                Ok(Some(tree))
            }
            Err(error) => {
                // Writing it again replaces it in any case.
                let _ = fs::remove_file(&path);
                Err(warning(&path, "is made again", &error))
            }
        }
    }

    /// The directory; none if it isn't there.
    fn folder(&self) -> Result<Option<Folder>, Finding> {
        let directory = &self.directory;
        let folder = match Folder::open(directory) {
            Ok(folder) => folder,
            Err(Error::Io { source, .. }) if source.kind() == io::ErrorKind::NotFound => {
                return Ok(None);
            }
            Err(error) => return Err(warning(directory, "can't be read", &error)),
        };
        check_writers(folder.fd()).map_err(|cause| {
            let remedy = format!("chmod go-w {}, or give another --cache-dir", directory.display());
            ignored("the cache of base trees", directory, &cause, &remedy)
        })?;
        Ok(Some(folder))
    }

    /// Keeps the tree of a base, and removes what is then too much.
    ///
    /// # Errors
    /// A warning if it can't be written.
    pub fn store(&self, manifest: &Digest, tree: &BaseTree) -> Result<(), Finding> {
        let path = self.path(manifest);
        if self.folder().is_err() {
            // What is written there is never read. Whoever looked for the tree first has the
            // warning.
            return Ok(());
        }
        self.write(&path, tree.as_bytes())
            .map_err(|error| warning(&path, "can't be written", &error))?;
        let pruned = self.prune(self.limit);
        pruned.warnings.into_iter().next().map_or(Ok(()), Err)
    }

    fn write(&self, path: &Path, bytes: &[u8]) -> Result<(), Error> {
        let directory = &self.directory;
        // Whatever the umask: a group that may write would make it one that is ignored.
        DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(directory)
            .map_err(failed(directory, "the folder can't be made"))?;
        let folder = Arc::new(Folder::open(directory)?);
        let (temporary, mut file) = Temporary::create(Arc::clone(&folder))?;
        file.set_permissions(Permissions::from_mode(0o600))
            .and_then(|()| file.write_all(bytes))
            .map_err(failed(path, "not writable"))?;
        let name = path.file_name().and_then(OsStr::to_str);
        temporary.rename(&folder, name.expect("a digest and a version"))
    }

    /// Whether the writer of this file has ended. Each is created and locked under the directory's lock.
    fn abandoned(&self, name: &str) -> bool {
        let file = Folder::open(&self.directory).and_then(|folder| {
            let _lock = take(&folder)?;
            folder.file(name)
        });
        matches!(file, Ok(Some((file, _))) if file.try_lock().is_ok())
    }

    /// The trees that are there, last used first.
    ///
    /// # Errors
    /// A warning if the directory can't be read; a missing one is empty.
    pub fn list(&self) -> Result<Vec<CacheEntry>, Finding> {
        let mut entries: Vec<CacheEntry> = self
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
        let mut pruned = Pruned::default();
        let mut files = match self.files() {
            Ok(files) => files,
            Err(warning) => {
                pruned.warnings.push(warning);
                return pruned;
            }
        };
        files.sort_by_key(|file| std::cmp::Reverse((file.name.ends_with(&suffix()), file.used)));
        let mut kept = 0;
        for file in files {
            let temporary = file.name.starts_with(TEMPORARY);
            if temporary && !self.abandoned(&file.name) {
                continue;
            }
            if !temporary && kept + file.size <= keep {
                kept += file.size;
                continue;
            }
            let path = self.directory.join(&file.name);
            match fs::remove_file(&path) {
                Ok(()) => {
                    pruned.files += 1;
                    pruned.bytes += file.size;
                }
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                Err(error) => {
                    let warning = warning(&path, "can't be removed", &error);
                    pruned.warnings.push(warning);
                }
            }
        }
        pruned
    }

    /// What of the directory is ours.
    fn files(&self) -> Result<Vec<Cached>, Finding> {
        let unreadable = |error: io::Error| warning(&self.directory, "can't be read", &error);
        let directory = match fs::read_dir(&self.directory) {
            Ok(directory) => directory,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            Err(error) => return Err(unreadable(error)),
        };
        let mut files = Vec::new();
        for entry in directory {
            let entry = entry.map_err(unreadable)?;
            files.extend(Cached::of(&entry));
        }
        Ok(files)
    }
}

fn name(manifest: &Digest) -> String {
    format!("{}{}", manifest.hex(), suffix())
}

/// Why others than this user and root may have written an open file or directory. The group's bits
/// cover what ACLs allow.
pub(super) fn check_writers(file: impl AsFd) -> Result<(), String> {
    let stat = fstat(file).map_err(|error| error_text(&io::Error::from(error)))?;
    if stat.st_uid != 0 && stat.st_uid != geteuid().as_raw() {
        return Err(format!("it belongs to user {}", stat.st_uid));
    }
    match stat.st_mode & 0o022 {
        0 => Ok(()),
        _ => Err(format!("others may write it (mode {:04o})", stat.st_mode & 0o7777)),
    }
}

fn ignored(what: &str, path: &Path, cause: &str, remedy: &str) -> Finding {
    let shown = path.display();
    let text = format!("{what} {shown} is ignored: {cause}; {remedy}");
    Finding::new("base-tree-cache", text).object(shown.to_string())
}

fn suffix() -> String {
    format!(".tree-{}", tree::VERSION)
}

#[derive(Debug)]
struct Cached {
    name: String,
    size: u64,
    used: SystemTime,
}

impl Cached {
    /// A file of the cache; `None` for other files, and for one that no longer exists.
    fn of(entry: &DirEntry) -> Option<Self> {
        let name = entry.file_name().into_string().ok()?;
        let tree = name.split_once(".tree-").is_some_and(|(hex, version)| {
            format!("sha256:{hex}").parse::<Digest>().is_ok() && version.parse::<u32>().is_ok()
        });
        let metadata = entry.metadata().ok()?;
        (metadata.is_file() && (tree || name.starts_with(TEMPORARY))).then_some(Self {
            name,
            size: metadata.len(),
            used: metadata.modified().ok()?,
        })
    }
}

fn warning(path: &Path, what: &str, error: &(dyn std::error::Error + 'static)) -> Finding {
    Finding::new(
        "base-tree-cache",
        format!(
            "the cached base tree {} {what}: {}",
            path.display(),
            error_text(error.source().unwrap_or(error))
        ),
    )
    .object(path.display().to_string())
}

#[cfg(test)]
mod tests {
    use std::fs::File;
    use std::time::Duration;

    use super::*;
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
        assert_eq!(cache.load(&manifest(1)), Ok(None), "it is no warning");
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
