//! A directory of files that can be made again: only ever a shortcut, so nothing that goes wrong here
//! is an error.
//!
//! A file is written completely or not at all. Who can write a file decides what is built, so only
//! files and directories count that no user but this one and root can write, and only this user can
//! read what is written. Several processes may use one directory concurrently.

use std::fs::{self, DirBuilder, DirEntry, FileTimes, Permissions};
use std::io::{self, Read as _, Write as _};
use std::os::fd::AsFd;
use std::os::unix::fs::{DirBuilderExt as _, PermissionsExt as _};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::SystemTime;

use rustix::fs::fstat;
use rustix::process::geteuid;

use crate::error::Error;
use crate::layout::atomic::{TEMPORARY, Temporary, failed, take};
use crate::layout::folder::Folder;
use mosb_types::{Finding, error_text};

/// A directory, which is created for the first file.
#[derive(Debug, Clone)]
pub(crate) struct CacheDirectory {
    pub path: PathBuf,
    /// The code of all warnings.
    pub code: &'static str,
    /// What a file is, in warnings.
    pub entry: &'static str,
    /// Whether a file with this name is an entry, perhaps of another version.
    pub is_entry: fn(&str) -> bool,
    /// Whether it is one of this version. The others are removed first.
    pub is_current: fn(&str) -> bool,
}

/// A file of the cache, or one that a writer has not renamed yet.
#[derive(Debug)]
pub(crate) struct CachedFile {
    pub name: String,
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

impl CacheDirectory {
    /// The content of a file, which counts as used now; `None` if it isn't there.
    ///
    /// # Errors
    /// A warning if it can't be read, if it has more bytes, or if others could have written it.
    pub fn read(&self, name: &str, limit: u64) -> Result<Option<Vec<u8>>, Finding> {
        let Some(folder) = self.folder()? else {
            return Ok(None);
        };
        let ignored = |cause: String| self.warning(name, "is ignored", &cause);
        let file = folder.file(name).map_err(|error| ignored(cause(&error)))?;
        let Some((file, size)) = file else {
            return Ok(None);
        };
        check_writers(&file).map_err(|cause| ignored(format!("{cause}; remove it")))?;
        if size > limit {
            return Err(ignored(format!("it has {size} bytes, want at most {limit}; remove it")));
        }
        let mut bytes = Vec::new();
        bytes.reserve_exact(usize::try_from(size).unwrap_or(0));
        let read = (&file).take(limit).read_to_end(&mut bytes);
        read.map_err(|error| self.warning(name, "can't be read", &error_text(&error)))?;
        // A cache on a read-only disk works; only its order of use is lost.
        let _ = file.set_times(FileTimes::new().set_modified(SystemTime::now()));
        Ok(Some(bytes))
    }

    /// The directory; none if it isn't there.
    fn folder(&self) -> Result<Option<Folder>, Finding> {
        let folder = match Folder::open(&self.path) {
            Ok(folder) => folder,
            Err(Error::Io { source, .. }) if source.kind() == io::ErrorKind::NotFound => {
                return Ok(None);
            }
            Err(error) => return Err(self.unreadable(&cause(&error))),
        };
        check_writers(folder.fd()).map_err(|cause| {
            let shown = self.path.display();
            let message = format!(
                "the cache {shown} is ignored: {cause}; chmod go-w {shown}, or give another --cache-dir"
            );
            Finding::new(self.code, message).object(shown.to_string())
        })?;
        Ok(Some(folder))
    }

    /// Writes a file, in place of one with this name, and removes the entries that aren't kept.
    ///
    /// # Errors
    /// A warning if it can't be written, or another one not removed.
    pub fn store(
        &self,
        name: &str,
        bytes: &[u8],
        keep: impl FnMut(&CachedFile) -> bool,
    ) -> Result<(), Finding> {
        if self.folder().is_err() {
            // What is written there is never read. Whoever looked for the file first has the
            // warning.
            return Ok(());
        }
        let written = self.write(name, bytes);
        written.map_err(|error| self.warning(name, "can't be written", &cause(&error)))?;
        self.prune(keep).warnings.into_iter().next().map_or(Ok(()), Err)
    }

    fn write(&self, name: &str, bytes: &[u8]) -> Result<(), Error> {
        // Whatever the umask: a group that may write would make it one that is ignored.
        let made = DirBuilder::new().recursive(true).mode(0o700).create(&self.path);
        made.map_err(failed(&self.path, "the folder can't be made"))?;
        let folder = Arc::new(Folder::open(&self.path)?);
        let (temporary, mut file) = Temporary::create(Arc::clone(&folder))?;
        file.set_permissions(Permissions::from_mode(0o600))
            .and_then(|()| file.write_all(bytes))
            .map_err(failed(&temporary.path(), "not writable"))?;
        temporary.rename(&folder, name)
    }

    /// The entries, and the files that writers have not renamed yet.
    ///
    /// # Errors
    /// A warning if the directory can't be read; a missing one is empty.
    pub fn files(&self) -> Result<Vec<CachedFile>, Finding> {
        let unreadable = |error: io::Error| self.unreadable(&error_text(&error));
        let directory = match fs::read_dir(&self.path) {
            Ok(directory) => directory,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            Err(error) => return Err(unreadable(error)),
        };
        let mut files = Vec::new();
        for entry in directory {
            files.extend(self.cached(&entry.map_err(unreadable)?));
        }
        Ok(files)
    }

    /// A file of the cache; `None` for other files, and for one that no longer exists.
    fn cached(&self, entry: &DirEntry) -> Option<CachedFile> {
        let name = entry.file_name().into_string().ok()?;
        let metadata = entry.metadata().ok()?;
        let is_ours = (self.is_entry)(&name) || name.starts_with(TEMPORARY);
        let used = metadata.modified().ok()?;
        let file = CachedFile { name, size: metadata.len(), used };
        (metadata.is_file() && is_ours).then_some(file)
    }

    /// Removes the entries that aren't kept, and what interrupted runs left behind. `keep` gets those of
    /// this version first, and of these the one that was used last.
    pub fn prune(&self, mut keep: impl FnMut(&CachedFile) -> bool) -> Pruned {
        let mut pruned = Pruned::default();
        let mut files = match self.files() {
            Ok(files) => files,
            Err(warning) => {
                pruned.warnings.push(warning);
                return pruned;
            }
        };
        files.sort_by_key(|file| std::cmp::Reverse(((self.is_current)(&file.name), file.used)));
        for file in files {
            let stays = match file.name.starts_with(TEMPORARY) {
                true => !self.is_abandoned(&file.name),
                false => keep(&file),
            };
            if stays {
                continue;
            }
            match fs::remove_file(self.path.join(&file.name)) {
                Ok(()) => {
                    pruned.files += 1;
                    pruned.bytes += file.size;
                }
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                Err(error) => {
                    let warning = self.warning(&file.name, "can't be removed", &error_text(&error));
                    pruned.warnings.push(warning);
                }
            }
        }
        pruned
    }

    /// Whether the writer of this file has ended. Each is created and locked under the directory's lock.
    fn is_abandoned(&self, name: &str) -> bool {
        let file = Folder::open(&self.path).and_then(|folder| {
            let _lock = take(&folder)?;
            folder.file(name)
        });
        matches!(file, Ok(Some((file, _))) if file.try_lock().is_ok())
    }

    /// A warning about a file.
    pub fn warning(&self, name: &str, what: &str, cause: &str) -> Finding {
        let path = self.path.join(name);
        let message = format!("the {} {} {what}: {cause}", self.entry, path.display());
        Finding::new(self.code, message).object(path.display().to_string())
    }

    fn unreadable(&self, cause: &str) -> Finding {
        let shown = self.path.display();
        let message = format!("the cache {shown} can't be read: {cause}");
        Finding::new(self.code, message).object(shown.to_string())
    }
}

/// The cause of an error whose path the warning has already.
fn cause(error: &Error) -> String {
    let error: &(dyn std::error::Error + 'static) = error;
    error_text(error.source().unwrap_or(error))
}

/// Why others than this user and root may have written an open file or directory. The group's bits
/// cover what ACLs allow.
fn check_writers(file: impl AsFd) -> Result<(), String> {
    let stat = fstat(file).map_err(|error| error_text(&io::Error::from(error)))?;
    if stat.st_uid != 0 && stat.st_uid != geteuid().as_raw() {
        return Err(format!("it belongs to user {}", stat.st_uid));
    }
    match stat.st_mode & 0o022 {
        0 => Ok(()),
        _ => Err(format!("others may write it (mode {:04o})", stat.st_mode & 0o7777)),
    }
}
