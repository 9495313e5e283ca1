//! An OCI image layout directory, written: blobs by rename, `index.json` last, so that a reader
//! never sees half an image and a killed writer leaves nothing that a later one doesn't clear away.

use std::path::Path;
use std::sync::Arc;

use bytes::Bytes;
use futures_util::StreamExt as _;
use serde_json::{Value, json};
use tokio::io::AsyncWriteExt as _;

use mosb_image::media_type::OCI_INDEX;
use mosb_image::{BlobRef, Digest};

use crate::error::Error;
use crate::layout::atomic::{Temporary, clear, failed, made, replace, sync, take};
use crate::layout::folder::{Folder, odd};
use crate::layout::{REF_NAME, check_version, read_index};
use crate::store::BlobStream;

/// A layout being written. Several processes may write to one.
#[derive(Debug, Clone)]
pub(crate) struct LayoutWriter(Arc<Folders>);

#[derive(Debug)]
struct Folders {
    dir: Arc<Folder>,
    blobs: Folder,
}

async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, Error> + Send + 'static,
) -> Result<T, Error> {
    tokio::task::spawn_blocking(work)
        .await
        .expect("file operations don't panic, and the runtime outlives them")
}

impl LayoutWriter {
    /// Opens a layout, or makes one of a folder that is new or empty, and clears away what killed
    /// writers left.
    pub async fn open(dir: &Path) -> Result<Self, Error> {
        let dir = dir.to_owned();
        blocking(move || {
            std::fs::create_dir_all(&dir).map_err(failed(&dir, "the folder can't be made"))?;
            let folder = Arc::new(Folder::open(&dir)?);
            let not_ours = || -> Result<bool, Error> {
                // In this order: whoever makes one writes oci-layout first.
                Ok(foreign(&dir)? && folder.file("oci-layout")?.is_none())
            };
            let refused =
                || odd(&dir, "holds files and is not an OCI layout; choose a new or empty folder");
            // A folder of somebody else doesn't even get a lock file.
            if not_ours()? {
                return Err(refused());
            }
            let lock = take(&folder)?;
            if folder.file("oci-layout")?.is_some() {
                check_version(&folder)?;
            } else if foreign(&dir)? {
                return Err(refused());
            } else {
                replace(&folder, "oci-layout", br#"{"imageLayoutVersion":"1.0.0"}"#)?;
            }
            clear(&folder, &dir)?;
            let blobs = made(&made(&folder, "blobs")?, "sha256")?;
            drop(lock);
            Ok(Self(Arc::new(Folders { dir: folder, blobs })))
        })
        .await
    }

    /// Whether a blob of this size is there.
    pub fn has(&self, digest: &Digest, size: u64) -> Result<bool, Error> {
        Ok(self.0.blobs.file(&digest.hex())?.is_some_and(|(_, found)| found == size))
    }

    /// Whether a blob is there with these very bytes; what only has its name is written anew.
    pub fn holds(&self, digest: &Digest, bytes: &Bytes) -> Result<bool, Error> {
        let size = bytes.len() as u64;
        if !self.has(digest, size)? {
            return Ok(false);
        }
        let there = self.0.blobs.read(&digest.hex(), "a blob", size)?;
        Ok(there.as_ref() == Some(bytes))
    }

    /// The tags of these that name another image now, and which.
    pub fn moving(&self, digest: &Digest, tags: &[String]) -> Result<Vec<(String, Digest)>, Error> {
        let index = read_index(&self.0.dir)?;
        Ok(index.map_or_else(Vec::new, |index| moved(&index, digest, tags)))
    }

    /// Writes a blob. The stream ends in an error if the bytes are not the blob's.
    pub async fn put(&self, blob: &BlobRef, mut bytes: BlobStream<Error>) -> Result<(), Error> {
        let dir = Arc::clone(&self.0.dir);
        let (temporary, file) = blocking(move || Temporary::create(dir)).await?;
        let path = temporary.path();
        let mut file = tokio::fs::File::from_std(file);
        while let Some(chunk) = bytes.next().await {
            file.write_all(&chunk?).await.map_err(failed(&path, "not writable"))?;
        }
        file.flush().await.map_err(failed(&path, "not writable"))?;
        file.sync_all().await.map_err(failed(&path, "not writable"))?;
        let (folders, hex) = (Arc::clone(&self.0), blob.digest.hex());
        blocking(move || {
            let named = temporary.rename(&folders.blobs, &hex);
            // Open, and so locked, until it had its name.
            drop(file);
            named
        })
        .await
    }

    /// Makes the tags name the manifest, in one step. Its blobs must be there. Gives the tags that
    /// named something else before, and what.
    pub async fn commit(
        &self,
        manifest: &Bytes,
        media_type: &str,
        tags: &[String],
    ) -> Result<Vec<(String, Digest)>, Error> {
        let digest = Digest::of(manifest);
        let blob = BlobRef {
            media_type: media_type.to_owned(),
            digest,
            size: manifest.len() as u64,
            annotations: Default::default(),
        };
        if !self.holds(&digest, manifest)? {
            let bytes = manifest.clone();
            self.put(&blob, futures_util::stream::once(async { Ok(bytes) }).boxed()).await?;
        }
        let folders = Arc::clone(&self.0);
        let tags = tags.to_vec();
        blocking(move || {
            // The names of the blobs are on disk before anything names them.
            sync(&folders.blobs)?;
            let _lock = take(&folders.dir)?;
            let old = read_index(&folders.dir)?;
            let new = tagged(old.clone(), &blob, &tags);
            if old.as_ref() == Some(&new) {
                return Ok(Vec::new());
            }
            let text = serde_json::to_vec(&new).expect("a JSON value can be written to memory");
            replace(&folders.dir, "index.json", &text)?;
            Ok(old.map_or_else(Vec::new, |old| moved(&old, &digest, &tags)))
        })
        .await
    }
}

/// An index in which the tags name the blob, and nothing else; other images and unknown fields
/// stay.
fn tagged(index: Option<Value>, blob: &BlobRef, tags: &[String]) -> Value {
    let mut index = index
        .unwrap_or_else(|| json!({"schemaVersion": 2, "mediaType": OCI_INDEX, "manifests": []}));
    let entry = |tag: Option<&String>| {
        let mut entry =
            json!({"mediaType": blob.media_type, "digest": blob.digest, "size": blob.size});
        if let Some(tag) = tag {
            entry["annotations"] = json!({REF_NAME: tag});
        }
        entry
    };
    if let Some(manifests) = index["manifests"].as_array_mut() {
        let name = |entry: &Value| entry["annotations"][REF_NAME].as_str().map(str::to_owned);
        manifests.retain(|old| match name(old) {
            Some(tag) => !tags.contains(&tag) || old["digest"] == json!(blob.digest),
            None => true,
        });
        for tag in tags {
            if !manifests.iter().any(|old| name(old).as_ref() == Some(tag)) {
                manifests.push(entry(Some(tag)));
            }
        }
        if tags.is_empty() && !manifests.iter().any(|old| old["digest"] == json!(blob.digest)) {
            manifests.push(entry(None));
        }
    }
    index
}

/// The tags that name something other than this in an index, and what.
fn moved(index: &Value, digest: &Digest, tags: &[String]) -> Vec<(String, Digest)> {
    let entries = index["manifests"].as_array().into_iter().flatten();
    let moved = entries.filter_map(|entry| {
        let tag = entry["annotations"][REF_NAME].as_str()?;
        let named: Digest = entry["digest"].as_str()?.parse().ok()?;
        let moves = named != *digest && tags.iter().any(|wanted| wanted == tag);
        moves.then(|| (tag.to_owned(), named))
    });
    moved.collect()
}

/// Whether a folder holds anything that isn't ours.
fn foreign(dir: &Path) -> Result<bool, Error> {
    for entry in std::fs::read_dir(dir).map_err(failed(dir, "not readable"))? {
        let entry = entry.map_err(failed(dir, "not readable"))?;
        if !entry.file_name().to_string_lossy().starts_with(".mosb") {
            return Ok(true);
        }
    }
    Ok(false)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::layout::atomic::TEMPORARY;

    fn blob(bytes: &[u8]) -> BlobRef {
        BlobRef {
            media_type: "m".to_owned(),
            digest: Digest::of(bytes),
            size: bytes.len() as u64,
            annotations: Default::default(),
        }
    }

    #[test]
    fn tags_move_and_everything_else_stays() {
        let tags = |names: &[&str]| names.iter().map(|n| (*n).to_owned()).collect::<Vec<_>>();
        let (a, b) = (blob(b"a"), blob(b"b"));
        let first = tagged(None, &a, &tags(&["moves", "a"]));
        assert_eq!(
            first,
            tagged(Some(first.clone()), &a, &tags(&["moves", "a"])),
            "the same again"
        );
        let mut first = first;
        first["annotations"] = json!({"x": "y"});
        for (digest, want) in
            [(b.digest, vec![("moves".to_owned(), a.digest)]), (a.digest, Vec::new())]
        {
            assert_eq!(moved(&first, &digest, &tags(&["moves", "b"])), want);
        }
        let second = tagged(Some(first), &b, &tags(&["moves", "b"]));
        let names: Vec<_> = second["manifests"]
            .as_array()
            .unwrap()
            .iter()
            .map(|e| {
                (
                    e["annotations"][REF_NAME].as_str().unwrap(),
                    e["digest"].as_str().unwrap().to_owned(),
                )
            })
            .collect();
        let (a, b) = (a.digest.to_string(), b.digest.to_string());
        assert_eq!(names, [("a", a), ("moves", b.clone()), ("b", b)]);
        assert_eq!(second["annotations"]["x"], "y");
    }

    #[tokio::test]
    async fn only_files_of_dead_writers_are_deleted() {
        let dir = tempfile::tempdir().unwrap();
        let left = dir.path().join(format!("{TEMPORARY}1-1"));
        std::fs::write(&left, "left").unwrap();
        let layout = LayoutWriter::open(dir.path()).await.unwrap();
        assert!(!left.exists());
        let (living, _file) = Temporary::create(Arc::clone(&layout.0.dir)).unwrap();
        let path = living.path();
        LayoutWriter::open(dir.path()).await.unwrap();
        assert!(path.exists());
        drop(living);
        assert!(!path.exists());
    }

    #[tokio::test]
    async fn a_manifest_with_wrong_content_is_written_again() {
        let dir = tempfile::tempdir().unwrap();
        let layout = LayoutWriter::open(dir.path()).await.unwrap();
        let manifest = Bytes::from_static(b"right");
        let path = format!("blobs/sha256/{}", Digest::of(&manifest).hex());
        let path = dir.path().join(path);
        std::fs::write(&path, "wrong").unwrap();
        layout.commit(&manifest, "m", &[]).await.unwrap();
        assert_eq!(std::fs::read(&path).unwrap(), manifest);
    }

    #[tokio::test]
    async fn a_failed_blob_leaves_nothing() {
        let dir = tempfile::tempdir().unwrap();
        let layout = LayoutWriter::open(dir.path()).await.unwrap();
        let wrong =
            futures_util::stream::iter([Ok(Bytes::from_static(b"x")), Err(odd(dir.path(), "cut"))]);
        assert!(layout.put(&blob(b"a"), wrong.boxed()).await.is_err());
        assert_eq!(std::fs::read_dir(dir.path().join("blobs/sha256")).unwrap().count(), 0);
        let left = std::fs::read_dir(dir.path()).unwrap();
        let left = left
            .filter(|e| e.as_ref().unwrap().file_name().to_string_lossy().starts_with(TEMPORARY));
        assert_eq!(left.count(), 0);
        assert!(!dir.path().join("index.json").exists());
    }
}
