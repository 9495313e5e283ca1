//! The objects of `mosb cache`: base trees and buildah's storage on this machine.

use schemars::JsonSchema;
use serde::Serialize;

/// The base trees that are cached on this machine.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct CacheList {
    /// The directory.
    pub directory: String,
    /// Bytes of all trees together.
    pub size: u64,
    /// Each base tree, the one used last first.
    pub trees: Vec<CachedTree>,
    /// buildah's storage, if there is one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub buildah: Option<BuildahStore>,
}

/// Storage of buildah: bases that were pulled and unpacked.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct BuildahStore {
    /// The directory.
    pub directory: String,
    /// Bytes of its files.
    pub size: u64,
}

/// One cached base tree.
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
    /// The directory of the base trees.
    pub directory: String,
    /// The number of removed files: trees, and incomplete files of interrupted runs.
    pub removed: u64,
    /// Bytes of these files.
    pub size: u64,
    /// buildah's storage, if there was one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub buildah: Option<PrunedStore>,
}

/// buildah's storage, which was to be removed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PrunedStore {
    /// The directory.
    pub directory: String,
    /// Bytes of its files.
    pub size: u64,
    /// Whether it was removed; false if a build is using it.
    pub removed: bool,
}
