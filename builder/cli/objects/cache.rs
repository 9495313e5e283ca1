//! The base trees that are kept on this machine.

use schemars::JsonSchema;
use serde::Serialize;

/// The base trees that are kept on this machine.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct CacheList {
    /// Where they are.
    pub directory: String,
    /// Bytes of all together.
    pub size: u64,
    /// Each, the one used last first.
    pub trees: Vec<CachedTree>,
}

/// One base tree that is kept.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct CachedTree {
    /// Digest of the base's manifest.
    pub base: String,
    /// Bytes on the disk.
    pub size: u64,
    /// Seconds since it was last used.
    pub unused_seconds: u64,
}

/// What was removed from the cache.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct CachePrune {
    /// Where the cache is.
    pub directory: String,
    /// How many files were removed: trees, and what interrupted runs left.
    pub removed: u64,
    /// Bytes that are free again.
    pub size: u64,
}
