//! `mosb cache list` and `mosb cache prune`.

use std::path::Path;
use std::time::SystemTime;

use crate::cli::Result;
use crate::cli::error::Error;
use crate::cli::objects::{BuildahStore, CacheList, CachePrune, CachedTree, PrunedStore};
use mosb_build::buildah;
use mosb_registry::PreparedRecords;
use mosb_registry::cache::TreeCache;

/// Lists the cached base trees and buildah's storage.
///
/// # Errors
/// The folder can't be read.
pub async fn list(cache: &TreeCache, cache_dir: &Path) -> Result<CacheList> {
    let entries = cache.list().map_err(|finding| Error::Cache(finding.message))?;
    let now = SystemTime::now();
    Ok(CacheList {
        directory: cache.directory().display().to_string(),
        size: entries.iter().map(|entry| entry.size).sum(),
        trees: entries
            .iter()
            .map(|entry| CachedTree {
                base: entry.manifest.to_string(),
                size: entry.size,
                // A time in the future counts as now.
                unused_seconds: now.duration_since(entry.used).unwrap_or_default().as_secs(),
            })
            .collect(),
        buildah: buildah::storage(cache_dir).await.map(|storage| BuildahStore {
            directory: storage.directory.display().to_string(),
            size: storage.size,
        }),
    })
}

/// Removes all base trees and records of prepared bases, and buildah's storage unless a build is using it.
///
/// # Errors
/// A tree can't be removed.
pub async fn prune(
    cache: &TreeCache,
    records: &PreparedRecords,
    cache_dir: &Path,
) -> Result<CachePrune> {
    records.clear().map_err(|finding| Error::Cache(finding.message))?;
    let pruned = cache.prune(0);
    if let Some(warning) = pruned.warnings.into_iter().next() {
        return Err(Error::Cache(warning.message).into());
    }
    let store = buildah::remove(cache_dir).await.map_err(mosb_build::Error::from)?;
    Ok(CachePrune {
        directory: cache.directory().display().to_string(),
        removed: pruned.files,
        size: pruned.bytes,
        buildah: store.map(|store| PrunedStore {
            directory: store.storage.directory.display().to_string(),
            size: store.storage.size,
            removed: store.is_removed,
        }),
    })
}
