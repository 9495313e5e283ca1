//! Reads the directory in which Kubernetes mounts the Secret, and notices when it changes.

use std::fs::{self, File};
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};
use std::sync::{Arc, PoisonError, RwLock};

use bytes::Bytes;
use mosb_types::Diagnostic;

use super::served::{Files, Served};

/// What the kubelet points to another directory when a Secret changes.
const CURRENT_DATA: &str = "..data";
/// The values of a Secret have 1 MiB together.
const MAX_SIZE: usize = 1024 * 1024;
/// More keys than a Secret with that size has use for.
const MAX_FILES: usize = 1024;

/// Why the directory can't be read.
#[derive(Debug, thiserror::Error, Diagnostic)]
#[non_exhaustive]
pub enum DirectoryError {
    #[error("{path}: not readable; name the directory where the Secret is mounted", path = .path.display())]
    #[diagnostic(code = "configs-unreadable", class = InvalidInput)]
    Read { path: PathBuf, source: io::Error },
    #[error("{path}: it has more than {MAX_FILES} files or {MAX_SIZE} bytes, so it is not a mounted Secret; name the directory where it is mounted", path = .path.display())]
    #[diagnostic(code = "configs-too-large", class = InvalidInput)]
    TooLarge { path: PathBuf },
}

/// The directory, and what was in it when it was read last.
#[derive(Debug)]
pub(crate) struct Directory {
    path: PathBuf,
    served: RwLock<Arc<Served>>,
}

/// What a file system shows.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Reload {
    Unchanged,
    /// What of it can't be used.
    Changed(Vec<String>),
}

impl Directory {
    /// Reads it for the first time; also what of it can't be used.
    pub fn open(path: &Path) -> Result<(Self, Vec<String>), DirectoryError> {
        let (served, problems) = Served::new(read(path)?);
        let served = RwLock::new(Arc::new(served));
        Ok((Self { path: path.to_owned(), served }, problems))
    }

    /// What is served at this moment.
    pub fn served(&self) -> Arc<Served> {
        Arc::clone(&self.served.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// Reads it again. After an error, what it had before is served on.
    pub fn reload(&self) -> Result<Reload, DirectoryError> {
        let files = read(&self.path)?;
        if self.served().is_of(&files) {
            return Ok(Reload::Unchanged);
        }
        let (served, problems) = Served::new(files);
        *self.served.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(served);
        Ok(Reload::Changed(problems))
    }
}

/// All files of one version of the Secret.
fn read(path: &Path) -> Result<Files, DirectoryError> {
    let failed = |path: &Path, source| DirectoryError::Read { path: path.to_owned(), source };
    let current = path.join(CURRENT_DATA);
    // Resolved once: the kubelet may replace the link while the files are read.
    let version = match fs::canonicalize(&current) {
        Ok(version) => version,
        Err(error) if error.kind() == io::ErrorKind::NotFound => path.to_owned(),
        Err(error) => return Err(failed(&current, error)),
    };
    let too_large = || DirectoryError::TooLarge { path: path.to_owned() };
    let mut files = Files::new();
    let mut left = MAX_SIZE;
    for entry in fs::read_dir(&version).map_err(|error| failed(&version, error))? {
        let entry = entry.map_err(|error| failed(&version, error))?;
        let Ok(name) = entry.file_name().into_string() else {
            continue;
        };
        let place = entry.path();
        if name.starts_with('.') || !place.is_file() {
            continue;
        }
        let file = File::open(&place).map_err(|error| failed(&place, error))?;
        let mut bytes = Vec::new();
        let most = u64::try_from(left).unwrap_or(u64::MAX).saturating_add(1);
        file.take(most).read_to_end(&mut bytes).map_err(|error| failed(&place, error))?;
        left = left.checked_sub(bytes.len()).ok_or_else(too_large)?;
        files.insert(name, Bytes::from(bytes));
        if files.len() > MAX_FILES {
            return Err(too_large());
        }
    }
    Ok(files)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;
    use tempfile::TempDir;

    #[test]
    fn secrets_are_read_as_kubelet_replaces_them() {
        let mount = TempDir::new().unwrap();
        let version = |name: &str, content: &str| {
            let version = mount.path().join(name);
            fs::create_dir(&version).unwrap();
            fs::write(version.join("worker.tokens"), "[]").unwrap();
            fs::write(version.join("worker.ign.gz"), content).unwrap();
            let link = mount.path().join("..data_tmp");
            symlink(name, &link).unwrap();
            fs::rename(link, mount.path().join(CURRENT_DATA)).unwrap();
        };
        let (directory, _) = Directory::open(mount.path()).unwrap();
        assert_eq!(directory.served().pools().count(), 0, "an empty Secret");
        version("..one", "first");
        // Beside the versions are links to the files of the current one.
        symlink("..data/worker.tokens", mount.path().join("worker.tokens")).unwrap();
        assert_eq!(directory.reload().unwrap(), Reload::Changed(vec![]));
        assert_eq!(directory.served().pools().collect::<Vec<_>>(), ["worker"]);
        assert_eq!(directory.reload().unwrap(), Reload::Unchanged);
        version("..two", "second");
        assert_eq!(directory.reload().unwrap(), Reload::Changed(vec![]));
        // What was there before is served while it can't be read.
        fs::remove_dir_all(mount.path()).unwrap();
        assert!(matches!(directory.reload(), Err(DirectoryError::Read { .. })));
        assert_eq!(directory.served().pools().collect::<Vec<_>>(), ["worker"]);
    }

    #[test]
    fn what_is_no_mounted_secret_is_rejected() {
        let place = TempDir::new().unwrap();
        let missing = Directory::open(&place.path().join("none")).map(drop);
        assert!(matches!(missing, Err(DirectoryError::Read { .. })));
        fs::write(place.path().join("a"), vec![0; MAX_SIZE]).unwrap();
        assert!(Directory::open(place.path()).is_ok());
        fs::write(place.path().join("b"), "b").unwrap();
        let large = Directory::open(place.path()).map(drop);
        assert!(matches!(large, Err(DirectoryError::TooLarge { .. })));
    }
}
