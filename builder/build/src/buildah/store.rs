//! buildah's store of our own, below the cache directory, so that a base is pulled once.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::fs::{FlockOperation, flock};
use rustix::io::{FdFlags, fcntl_setfd};
use tempfile::TempDir;

use super::commands;
use super::error::Error;
use super::files::{io, make_dir, read_digest};

pub(super) const LOCK: &str = "lock";
/// How the folder with layers and images begins; the driver follows.
pub(super) const STORE: &str = "store-";
/// The name in place of a driver if none is given.
pub(super) const DEFAULT: &str = "default";

/// The folders of a store.
#[derive(Debug)]
pub(super) struct Store {
    pub folder: PathBuf,
    pub driver: Option<String>,
    /// Shared by running builds; its exclusive holder may clean up.
    lock: Option<File>,
}

/// The folders; creates nothing.
pub(super) fn places(cache_dir: &Path, driver: Option<&str>) -> Store {
    Store { folder: cache_dir.join("buildah"), driver: driver.map(str::to_owned), lock: None }
}

impl Store {
    /// Creates the store, and removes what earlier builds left if no other build runs.
    pub(super) async fn open(cache_dir: &Path, driver: Option<&str>) -> Result<Self, Error> {
        let cache_dir = std::path::absolute(cache_dir).map_err(io(cache_dir))?;
        let mut store = places(&cache_dir, driver);
        make_dir(&store.folder)?;
        let path = store.folder.join(LOCK);
        let create = File::options().create(true).truncate(false).write(true).open(&path);
        create.map_err(io(&path))?;
        let lock = File::open(&path).map_err(io(&path))?;
        // Our buildah inherits the lock, so that its files are not removed while it outlives a
        // killed mosb.
        fcntl_setfd(&lock, FdFlags::empty()).map_err(|error| io(&path)(error.into()))?;
        // A process that was just killed releases the lock when it ends; for a running one we wait
        // half a second.
        for _ in 0..10 {
            if flock(&lock, FlockOperation::NonBlockingLockExclusive).is_ok() {
                store.clean().await?;
                break;
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        let shared = {
            let lock = lock.try_clone().map_err(io(&path))?;
            tokio::task::spawn_blocking(move || flock(&lock, FlockOperation::LockShared))
        };
        let locked = shared.await.expect("it does not panic and is not cancelled");
        locked.map_err(|error| Error::Io { path, source: error.into() })?;
        // Only now, because another process may have been emptying the store.
        for folder in [store.root(), store.run(), store.folder.join("work")] {
            make_dir(&folder)?;
        }
        store.lock = Some(lock);
        Ok(store)
    }

    async fn clean(&self) -> Result<(), Error> {
        if self.root().exists()
            && let Err(error) = commands::remove_containers(self).run(|_, _| ()).await
        {
            tracing::warn!(%error, "containers of earlier builds stay in buildah's store");
        }
        let work = self.folder.join("work");
        make_dir(&work)?;
        let left = fs::read_dir(&work)
            .map_err(io(&work))?
            .filter_map(Result::ok)
            .map(|entry| entry.path());
        let left: Vec<PathBuf> = left.collect();
        if left.is_empty() {
            return Ok(());
        }
        tracing::info!("clearing away what an interrupted build left");
        for path in &left {
            // Each build has a folder, and beside it a file with its image as soon as there is one.
            if path.is_dir() {
                fs::remove_dir_all(path).map_err(io(path))?;
                continue;
            }
            if let Ok(image) = read_digest(path)
                && let Err(error) =
                    commands::remove(&image, self, &self.folder).run(|_, _| ()).await
            {
                tracing::warn!(%error, "an image of an interrupted build stays in buildah's store");
            }
            fs::remove_file(path).map_err(io(path))?;
        }
        Ok(())
    }

    /// Where layers and images are; each driver has its own, as one can't read another's.
    pub(super) fn root(&self) -> PathBuf {
        self.folder.join(format!("{STORE}{}", self.driver.as_deref().unwrap_or(DEFAULT)))
    }

    pub(super) fn run(&self) -> PathBuf {
        self.folder.join(format!("run-{}", self.driver.as_deref().unwrap_or(DEFAULT)))
    }

    /// A folder for one build, 0700.
    pub(super) fn work(&self) -> Result<TempDir, Error> {
        let work = self.folder.join("work");
        tempfile::Builder::new().prefix("build-").tempdir_in(&work).map_err(io(&work))
    }
}
