//! `mosb cache list` and `mosb cache prune`.

use std::time::SystemTime;

use crate::cli::error::Error;
use crate::cli::objects::{CacheList, CachePrune, CachedTree};
use crate::registry::cache::TreeCache;

/// The base trees that are kept.
///
/// # Errors
/// The folder can't be read.
pub fn list(cache: &TreeCache) -> Result<CacheList, Error> {
    let entries = cache
        .list()
        .map_err(|finding| Error::Cache(finding.message))?;
    let now = SystemTime::now();
    Ok(CacheList {
        directory: cache.directory().display().to_string(),
        size: entries.iter().map(|entry| entry.size).sum(),
        trees: entries
            .iter()
            .map(|entry| CachedTree {
                base: entry.manifest.to_string(),
                size: entry.size,
                // A time to come counts as now.
                unused_seconds: now.duration_since(entry.used).unwrap_or_default().as_secs(),
            })
            .collect(),
    })
}

/// Removes all base trees.
///
/// # Errors
/// One can't be removed.
pub fn prune(cache: &TreeCache) -> Result<CachePrune, Error> {
    let pruned = cache.prune(0);
    match pruned.warnings.into_iter().next() {
        Some(warning) => Err(Error::Cache(warning.message)),
        None => Ok(CachePrune {
            directory: cache.directory().display().to_string(),
            removed: pruned.files,
            size: pruned.bytes,
        }),
    }
}
