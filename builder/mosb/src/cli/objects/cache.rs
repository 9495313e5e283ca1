//! What is kept on this machine.

use schemars::JsonSchema;
use serde::Serialize;

/// The base trees that are kept on this machine.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct CacheList {
    /// Where they are.
    pub directory: String,
    /// Bytes of all trees together.
    pub size: u64,
    /// Each, the one used last first.
    pub trees: Vec<CachedTree>,
    /// What buildah keeps, if it keeps anything.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub buildah: Option<BuildahStore>,
}

/// Storage of buildah: bases that were pulled and unpacked.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct BuildahStore {
    /// Where it is.
    pub directory: String,
    /// Bytes of its files.
    pub size: u64,
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
    /// Where the base trees are.
    pub directory: String,
    /// How many files were removed: trees, and what interrupted runs left.
    pub removed: u64,
    /// Bytes of these files.
    pub size: u64,
    /// What buildah kept, if it kept anything.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub buildah: Option<PrunedStore>,
}

/// Storage of buildah that was to be removed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PrunedStore {
    /// Where it is.
    pub directory: String,
    /// Bytes that its files had.
    pub size: u64,
    /// Whether it is gone; not if a build is using it.
    pub removed: bool,
}
