//! An OCI image layout directory, written: blobs by rename, `index.json` last, so that a reader never sees half an image
//! and a killed writer leaves nothing that a later one doesn't clear away.

use std::fs::File;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use bytes::Bytes;
use futures_util::StreamExt as _;
use rustix::fs::{
    AtFlags, FlockOperation, Mode, OFlags, flock, mkdirat, openat, renameat, unlinkat,
};
use rustix::io::Errno;
use serde_json::{Value, json};
use tokio::io::AsyncWriteExt as _;

use crate::image::Digest;

use super::blobs::BlobStream;
use super::error::Error;
use super::folder::{Folder, io, odd};
use super::layout::{REF_NAME, check_version, read_index};
use super::manifest::{BlobRef, OCI_INDEX};

const LOCK: &str = ".mosb.lock";
/// Beginning of the names of what is being written.
const TEMPORARY: &str = ".mosb-tmp-";
/// The lock is held for a few file operations only; whoever holds it longer is stuck.
const LOCK_TIME: Duration = Duration::from_secs(60);

/// A layout being written. Several processes may write to one.
#[derive(Debug, Clone)]
pub(super) struct LayoutWriter(Arc<Folders>);

#[derive(Debug)]
struct Folders {
    dir: Folder,
    blobs: Folder,
}

/// A file being written; gone with its writer unless it got its name.
struct Temporary {
    folders: Arc<Folders>,
    name: String,
}

impl Drop for Temporary {
    fn drop(&mut self) {
        // Not there any more is the good case; what can't be removed now is cleared away by the next writer.
        let _ = unlinkat(self.folders.dir.fd(), &*self.name, AtFlags::empty());
    }
}

/// Held until dropped.
struct Lock(#[expect(dead_code, reason = "closing it is what lets go")] File);

fn failed(path: &Path, doing: &'static str) -> impl FnOnce(std::io::Error) -> Error {
    let path = path.to_owned();
    move |source| Error::Io {
        path,
        doing,
        source,
    }
}

async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, Error> + Send + 'static,
) -> Result<T, Error> {
    tokio::task::spawn_blocking(work)
        .await
        .expect("file operations don't panic, and the runtime outlives them")
}

impl LayoutWriter {
    /// Opens a layout, or makes one of a folder that is new or empty, and clears away what killed writers left.
    pub async fn open(dir: &Path) -> Result<Self, Error> {
        let dir = dir.to_owned();
        blocking(move || {
            std::fs::create_dir_all(&dir).map_err(failed(&dir, "the folder can't be made"))?;
            let folder = Folder::open(&dir)?;
            let lock = take(&folder)?;
            if folder.file("oci-layout")?.is_some() {
                check_version(&folder)?;
            } else if foreign(&dir)? {
                return Err(odd(
                    &dir,
                    "holds files and is no OCI layout; choose a new or empty folder",
                ));
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
        Ok(self
            .0
            .blobs
            .file(&digest.hex())?
            .is_some_and(|(_, found)| found == size))
    }

    /// Writes a blob. The stream ends in an error if the bytes are not the blob's.
    pub async fn put(&self, blob: &BlobRef, mut bytes: BlobStream<Error>) -> Result<(), Error> {
        let folders = Arc::clone(&self.0);
        let (temporary, file) = blocking(move || temporary(&folders)).await?;
        let path = self.0.dir.path().join(&temporary.name);
        let mut file = tokio::fs::File::from_std(file);
        while let Some(chunk) = bytes.next().await {
            file.write_all(&chunk?)
                .await
                .map_err(failed(&path, "not writable"))?;
        }
        file.flush().await.map_err(failed(&path, "not writable"))?;
        file.sync_all()
            .await
            .map_err(failed(&path, "not writable"))?;
        let hex = blob.digest.hex();
        blocking(move || {
            // The file is open, and so locked, until it has its name.
            let folders = &temporary.folders;
            let moved = renameat(folders.dir.fd(), &temporary.name, folders.blobs.fd(), &hex);
            drop(file);
            moved.map_err(|e| io(&folders.blobs.path().join(&hex), "not writable", e))
        })
        .await
    }

    /// Makes the tags name the manifest, in one step. Its blobs must be there.
    pub async fn commit(
        &self,
        manifest: &Bytes,
        media_type: &str,
        tags: &[String],
    ) -> Result<(), Error> {
        let digest = Digest::of(manifest);
        let blob = BlobRef {
            media_type: media_type.to_owned(),
            digest,
            size: manifest.len() as u64,
            annotations: Default::default(),
        };
        if !self.has(&digest, blob.size)? {
            let bytes = manifest.clone();
            self.put(
                &blob,
                futures_util::stream::once(async { Ok(bytes) }).boxed(),
            )
            .await?;
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
                return Ok(());
            }
            let text = serde_json::to_vec(&new).expect("a JSON value can be written to memory");
            replace(&folders.dir, "index.json", &text)
        })
        .await
    }
}

/// An index in which the tags name the blob, and nothing else; other images and unknown fields stay.
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
        if tags.is_empty()
            && !manifests
                .iter()
                .any(|old| old["digest"] == json!(blob.digest))
        {
            manifests.push(entry(None));
        }
    }
    index
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

fn made(folder: &Folder, name: &str) -> Result<Folder, Error> {
    let path = folder.path().join(name);
    match mkdirat(folder.fd(), name, Mode::from_raw_mode(0o777)) {
        Ok(()) | Err(Errno::EXIST) => {}
        Err(e) => return Err(io(&path, "the folder can't be made", e)),
    }
    folder
        .below(name)?
        .ok_or_else(|| odd(&path, "vanished while it was used"))
}

fn take(folder: &Folder) -> Result<Lock, Error> {
    let path = folder.path().join(LOCK);
    let flags = OFlags::RDWR | OFlags::CREATE | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let fd = openat(folder.fd(), LOCK, flags, Mode::from_raw_mode(0o666))
        .map_err(|e| io(&path, "not writable", e))?;
    let began = Instant::now();
    loop {
        match flock(&fd, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => return Ok(Lock(fd.into())),
            Err(Errno::WOULDBLOCK | Errno::INTR) if began.elapsed() < LOCK_TIME => {
                std::thread::sleep(Duration::from_millis(20));
            }
            Err(Errno::WOULDBLOCK) => {
                return Err(odd(
                    folder.path(),
                    "locked by another process for a minute; end it, or choose another folder",
                ));
            }
            Err(e) => return Err(io(&path, "can't be locked", e)),
        }
    }
}

fn created(folder: &Folder, name: &str) -> Result<File, Error> {
    let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    openat(folder.fd(), name, flags, Mode::from_raw_mode(0o666))
        .map(File::from)
        .map_err(|e| io(&folder.path().join(name), "not writable", e))
}

/// A new file that is locked for as long as its writer lives: that is how [`clear`] tells who was killed. Both happen
/// under the layout's lock, so that none is seen between being made and being locked.
fn temporary(folders: &Arc<Folders>) -> Result<(Temporary, File), Error> {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    let folder = &folders.dir;
    let _lock = take(folder)?;
    let next = NEXT.fetch_add(1, Ordering::Relaxed);
    let name = format!("{TEMPORARY}{}-{next}", std::process::id());
    let file = created(folder, &name)?;
    let temporary = Temporary {
        folders: Arc::clone(folders),
        name,
    };
    flock(&file, FlockOperation::NonBlockingLockExclusive)
        .map_err(|e| io(&folder.path().join(&temporary.name), "can't be locked", e))?;
    Ok((temporary, file))
}

/// Removes what killed writers left.
fn clear(folder: &Folder, dir: &Path) -> Result<(), Error> {
    for entry in std::fs::read_dir(dir).map_err(failed(dir, "not readable"))? {
        let name = entry.map_err(failed(dir, "not readable"))?.file_name();
        let Some(name) = name.to_str().filter(|name| name.starts_with(TEMPORARY)) else {
            continue;
        };
        let Some((file, _)) = folder.file(name)? else {
            continue;
        };
        if flock(&file, FlockOperation::NonBlockingLockExclusive).is_ok() {
            unlinkat(folder.fd(), name, AtFlags::empty())
                .map_err(|e| io(&folder.path().join(name), "not removable", e))?;
        }
    }
    Ok(())
}

/// Replaces a file in one step; the layout's lock is held.
fn replace(folder: &Folder, name: &str, bytes: &[u8]) -> Result<(), Error> {
    use std::io::Write as _;
    let temporary = format!("{TEMPORARY}{name}");
    match unlinkat(folder.fd(), &*temporary, AtFlags::empty()) {
        Ok(()) | Err(Errno::NOENT) => {}
        Err(e) => return Err(io(&folder.path().join(&temporary), "not removable", e)),
    }
    let mut file = created(folder, &temporary)?;
    let path = folder.path().join(name);
    let written = file
        .write_all(bytes)
        .and_then(|()| file.sync_all())
        .map_err(failed(&path, "not writable"))
        .and_then(|()| {
            renameat(folder.fd(), &*temporary, folder.fd(), name)
                .map_err(|e| io(&path, "not writable", e))
        });
    if written.is_err() {
        // The error that is told is the first one.
        let _ = unlinkat(folder.fd(), &*temporary, AtFlags::empty());
    }
    written.and_then(|()| sync(folder))
}

fn sync(folder: &Folder) -> Result<(), Error> {
    rustix::fs::fsync(folder.fd()).map_err(|e| io(folder.path(), "not writable", e))
}

#[cfg(test)]
mod tests {
    use super::*;

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
    async fn what_killed_writers_left_goes_and_what_living_ones_write_stays() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(dir.path().join(format!("{TEMPORARY}1-1")), "left").unwrap();
        let layout = LayoutWriter::open(dir.path()).await.unwrap();
        assert!(!dir.path().join(format!("{TEMPORARY}1-1")).exists());
        let (living, _file) = temporary(&layout.0).unwrap();
        let path = dir.path().join(&living.name);
        LayoutWriter::open(dir.path()).await.unwrap();
        assert!(path.exists());
        drop(living);
        assert!(!path.exists());
    }

    #[tokio::test]
    async fn a_failed_blob_leaves_nothing() {
        let dir = tempfile::tempdir().unwrap();
        let layout = LayoutWriter::open(dir.path()).await.unwrap();
        let wrong =
            futures_util::stream::iter([Ok(Bytes::from_static(b"x")), Err(odd(dir.path(), "cut"))]);
        assert!(layout.put(&blob(b"a"), wrong.boxed()).await.is_err());
        assert_eq!(
            std::fs::read_dir(dir.path().join("blobs/sha256"))
                .unwrap()
                .count(),
            0
        );
        let left = std::fs::read_dir(dir.path()).unwrap();
        let left = left.filter(|e| {
            e.as_ref()
                .unwrap()
                .file_name()
                .to_string_lossy()
                .starts_with(TEMPORARY)
        });
        assert_eq!(left.count(), 0);
        assert!(!dir.path().join("index.json").exists());
    }

    #[tokio::test]
    async fn a_folder_with_other_files_is_left_alone() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(dir.path().join("photo.jpg"), "x").unwrap();
        assert_eq!(
            LayoutWriter::open(dir.path()).await.unwrap_err().reason(),
            "bad-layout"
        );
    }
}
