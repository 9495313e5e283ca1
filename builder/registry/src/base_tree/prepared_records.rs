//! Which prepared base was made for a target, or given for it by hand: a directory with one small
//! file for each.
//!
//! Whoever writes a record decides what runs on machines, so only those count that the
//! [`CacheDirectory`] does. The least recently used records are removed first.

use std::path::PathBuf;

use crate::base_tree::cache_directory::{CacheDirectory, CachedFile};
use crate::error::Error;
use crate::location::Source;
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
    directory: CacheDirectory,
}

impl PreparedRecords {
    /// The records in a directory, which is created for the first one.
    pub fn new(directory: impl Into<PathBuf>) -> Self {
        let is_entry = |name: &str| name.ends_with(SUFFIX);
        let directory = CacheDirectory {
            path: directory.into(),
            code: "prepared-record",
            entry: "record of a prepared base",
            is_entry,
            is_current: is_entry,
        };
        Self { directory }
    }

    /// The image that was recorded under a key, by its digest.
    ///
    /// # Errors
    /// A warning if the record can't be read, or if others could have written it.
    pub fn load(&self, key: &Digest) -> Result<Option<Source>, Finding> {
        let name = name(key);
        let Some(bytes) = self.directory.read(&name, LONGEST)? else {
            return Ok(None);
        };
        let image = image(bytes);
        image.map(Some).map_err(|cause| self.directory.warning(&name, "is ignored", &cause))
    }

    /// Records an image, which has a digest, and removes what was used longest ago.
    ///
    /// # Errors
    /// A warning if it can't be written.
    pub fn store(&self, key: &Digest, image: &Source) -> Result<(), Finding> {
        self.directory.store(&name(key), format!("{image}\n").as_bytes(), first(LIMIT))
    }

    /// Removes all records.
    ///
    /// # Errors
    /// A warning if one can't be removed.
    pub fn clear(&self) -> Result<(), Finding> {
        self.directory.prune(first(0)).warnings.into_iter().next().map_or(Ok(()), Err)
    }
}

/// Whether a file is one of so many first ones.
fn first(most: usize) -> impl FnMut(&CachedFile) -> bool {
    let mut files = 0..most;
    move |_| files.next().is_some()
}

/// The image of a record.
fn image(bytes: Vec<u8>) -> Result<Source, String> {
    let text = String::from_utf8(bytes).map_err(|error| error_text(&error))?;
    let source: Source = text.trim_end().parse().map_err(|error: Error| error_text(&error))?;
    source.digest().map(|_| ()).ok_or("it has no digest")?;
    Ok(source)
}

fn name(key: &Digest) -> String {
    format!("{}{SUFFIX}", key.hex())
}

#[cfg(test)]
mod tests {
    use std::fs::{self, Permissions};
    use std::os::unix::fs::PermissionsExt as _;
    use std::time::{Duration, SystemTime};

    use super::*;
    use crate::layout::atomic::TEMPORARY;

    fn image(n: usize) -> Source {
        format!("quay.io/acme/os@{}", Digest::of(&n.to_le_bytes())).parse().unwrap()
    }

    fn key(n: usize) -> Digest {
        Digest::of(&n.to_le_bytes())
    }

    #[test]
    fn records_come_back_and_the_oldest_go() {
        let directory = tempfile::tempdir().unwrap();
        let records = PreparedRecords::new(directory.path().join("a/b"));
        assert_eq!(records.load(&key(0)), Ok(None));
        for n in 0..=LIMIT {
            records.store(&key(n), &image(n)).unwrap();
            assert_eq!(records.load(&key(n)), Ok(Some(image(n))));
            let file =
                fs::File::options().append(true).open(records.directory.path.join(name(&key(n))));
            let then = SystemTime::now() - Duration::from_secs(1000 - n as u64);
            file.unwrap().set_modified(then).unwrap();
        }
        assert_eq!(records.load(&key(0)), Ok(None), "the oldest");
        assert_eq!(records.load(&key(1)), Ok(Some(image(1))));
        let layout: Source = format!("oci:/a b/c@{}", key(7)).parse().unwrap();
        records.store(&key(1), &layout).unwrap();
        assert_eq!(records.load(&key(1)), Ok(Some(layout)));
        let left = records.directory.path.join(format!("{TEMPORARY}of-the-killed"));
        fs::write(&left, "").unwrap();
        records.clear().unwrap();
        assert!(!left.exists());
        assert_eq!(records.load(&key(1)), Ok(None));
    }

    #[test]
    fn what_others_may_have_written_does_not_count() {
        let directory = tempfile::tempdir().unwrap();
        let records = PreparedRecords::new(directory.path().join("records"));
        records.store(&key(1), &image(1)).unwrap();
        let file = records.directory.path.join(name(&key(1)));
        for (path, mode, good) in [(&file, 0o666, 0o600), (&records.directory.path, 0o770, 0o700)] {
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
