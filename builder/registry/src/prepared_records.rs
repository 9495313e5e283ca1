//! Which prepared base was made for a target, or given for it by hand: a directory with one small
//! file for each. Only ever a shortcut, so nothing that goes wrong here is an error.
//!
//! Whoever writes a record decides what runs on machines, so only files and directories count that no
//! user but this one and root can write. The least recently used records are removed first.

use std::fs::{self, DirBuilder, FileTimes};
use std::io::{self, Write as _};
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::SystemTime;

use super::atomic::{Temporary, failed};
use super::cache::check_writers;
use super::error::Error;
use super::folder::Folder;
use super::location::Source;
use mosb_image::Digest;
use mosb_types::{Finding, error_text};

/// Most records; one has less than 1 KiB.
const LIMIT: usize = 64;
/// Longest reference of an image, or path of a layout.
const LONGEST: u64 = 8 << 10;
const SUFFIX: &str = ".prepared";

/// A directory of records.
#[derive(Debug, Clone)]
pub struct PreparedRecords {
    directory: PathBuf,
}

impl PreparedRecords {
    /// The records in a directory, which is created for the first one.
    pub fn new(directory: impl Into<PathBuf>) -> Self {
        Self { directory: directory.into() }
    }

    /// The image that was recorded under a key, by its digest.
    ///
    /// # Errors
    /// A warning if the record can't be read, or if others could have written it.
    pub fn load(&self, key: &Digest) -> Result<Option<Source>, Finding> {
        let path = self.directory.join(name(key));
        self.read(key).map_err(|cause| warning(&path, "is ignored", &cause))
    }

    fn read(&self, key: &Digest) -> Result<Option<Source>, String> {
        let folder = match Folder::open(&self.directory) {
            Ok(folder) => folder,
            Err(Error::Io { source, .. }) if source.kind() == io::ErrorKind::NotFound => {
                return Ok(None);
            }
            Err(error) => return Err(error_text(&error)),
        };
        check_writers(folder.fd())?;
        let Some((file, _)) = folder.file(&name(key)).map_err(|error| error_text(&error))? else {
            return Ok(None);
        };
        check_writers(&file)?;
        let text = folder.read(&name(key), "the record", LONGEST);
        let text = text.map_err(|error| error_text(&error))?.unwrap_or_default();
        let text = String::from_utf8(text.to_vec()).map_err(|error| error_text(&error))?;
        let source: Source = text.trim_end().parse().map_err(|error: Error| error_text(&error))?;
        if source.digest().is_none() {
            return Err("it has no digest".to_owned());
        }
        // A cache on a read-only disk works; only its order of use is lost.
        let _ = file.set_times(FileTimes::new().set_modified(SystemTime::now()));
        Ok(Some(source))
    }

    /// Records an image, which has a digest, and removes what was used longest ago.
    ///
    /// # Errors
    /// A warning if it can't be written.
    pub fn store(&self, key: &Digest, image: &Source) -> Result<(), Finding> {
        let path = self.directory.join(name(key));
        self.write(key, image)
            .map_err(|error| warning(&path, "can't be written", &error_text(&error)))?;
        self.remove_but(LIMIT)?;
        Ok(())
    }

    fn write(&self, key: &Digest, image: &Source) -> Result<(), Error> {
        let directory = &self.directory;
        let made = DirBuilder::new().recursive(true).mode(0o700).create(directory);
        made.map_err(failed(directory, "the folder can't be made"))?;
        let folder = Arc::new(Folder::open(directory)?);
        let (temporary, mut file) = Temporary::create(Arc::clone(&folder))?;
        let mode = std::os::unix::fs::PermissionsExt::from_mode(0o600);
        file.set_permissions(mode)
            .and_then(|()| writeln!(file, "{image}"))
            .map_err(failed(&temporary.path(), "not writable"))?;
        temporary.rename(&folder, &name(key))
    }

    /// Removes all records.
    ///
    /// # Errors
    /// A warning if one can't be removed.
    pub fn clear(&self) -> Result<(), Finding> {
        self.remove_but(0)
    }

    fn remove_but(&self, most: usize) -> Result<(), Finding> {
        let unreadable =
            |error: io::Error| warning(&self.directory, "can't be read", &error_text(&error));
        let entries = match fs::read_dir(&self.directory) {
            Ok(entries) => entries,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
            Err(error) => return Err(unreadable(error)),
        };
        let mut files = Vec::new();
        for entry in entries {
            let entry = entry.map_err(unreadable)?;
            let is_record = entry.file_name().to_str().is_some_and(|name| name.ends_with(SUFFIX));
            // One that another process just removed.
            let Ok(metadata) = entry.metadata() else { continue };
            if is_record && metadata.is_file() {
                files.push((metadata.modified().map_err(unreadable)?, entry.path()));
            }
        }
        files.sort();
        let surplus = files.len().saturating_sub(most);
        for (_, path) in files.into_iter().take(surplus) {
            match fs::remove_file(&path) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => {
                    return Err(warning(&path, "can't be removed", &error_text(&error)));
                }
                _ => {}
            }
        }
        Ok(())
    }
}

fn name(key: &Digest) -> String {
    format!("{}{SUFFIX}", key.hex())
}

fn warning(path: &Path, what: &str, cause: &str) -> Finding {
    let shown = path.display();
    let message = format!("the record {shown} of a prepared base {what}: {cause}");
    Finding::new("prepared-record", message).object(shown.to_string())
}

#[cfg(test)]
mod tests {
    use std::fs::Permissions;
    use std::os::unix::fs::PermissionsExt as _;
    use std::time::Duration;

    use super::*;

    fn image(n: usize) -> Source {
        format!("quay.io/acme/os@{}", Digest::of(&n.to_le_bytes())).parse().unwrap()
    }

    fn key(n: usize) -> Digest {
        Digest::of(&n.to_le_bytes())
    }

    #[test]
    fn a_record_comes_back_and_the_oldest_are_removed() {
        let directory = tempfile::tempdir().unwrap();
        let records = PreparedRecords::new(directory.path().join("a/b"));
        assert_eq!(records.load(&key(0)), Ok(None));
        for n in 0..=LIMIT {
            records.store(&key(n), &image(n)).unwrap();
            assert_eq!(records.load(&key(n)), Ok(Some(image(n))));
            let file = fs::File::options().append(true).open(records.directory.join(name(&key(n))));
            let then = SystemTime::now() - Duration::from_secs(1000 - n as u64);
            file.unwrap().set_modified(then).unwrap();
        }
        assert_eq!(records.load(&key(0)), Ok(None), "the oldest");
        assert_eq!(records.load(&key(1)), Ok(Some(image(1))));
        let layout: Source = format!("oci:/a b/c@{}", key(7)).parse().unwrap();
        records.store(&key(1), &layout).unwrap();
        assert_eq!(records.load(&key(1)), Ok(Some(layout)));
        records.clear().unwrap();
        assert_eq!(records.load(&key(1)), Ok(None));
    }

    #[test]
    fn what_others_may_have_written_does_not_count() {
        let directory = tempfile::tempdir().unwrap();
        let records = PreparedRecords::new(directory.path().join("records"));
        records.store(&key(1), &image(1)).unwrap();
        let file = records.directory.join(name(&key(1)));
        for (path, mode, good) in [(&file, 0o666, 0o600), (&records.directory, 0o770, 0o700)] {
            fs::set_permissions(path, Permissions::from_mode(mode)).unwrap();
            let warning = records.load(&key(1)).unwrap_err();
            assert!(warning.message.contains("others may write it"), "{warning:?}");
            fs::set_permissions(path, Permissions::from_mode(good)).unwrap();
        }
        assert_eq!(records.load(&key(1)), Ok(Some(image(1))));
        for text in ["quay.io/acme/os:v1\n", "", "x y", &"x".repeat(10_000)] {
            fs::write(&file, text).unwrap();
            assert_eq!(records.load(&key(1)).unwrap_err().code, "prepared-record", "{text:.20}");
        }
    }
}
