//! The paths that a build added or changed.

use schemars::JsonSchema;
use serde::Serialize;

use super::path_entry::PathEntry;

/// The paths that a build added or changed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct FileList {
    /// `repo@digest`, or `oci:DIR@digest`.
    pub image: String,
    /// The layers that the build added, from the base up.
    pub layers: Vec<FileLayer>,
}

/// One layer.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct FileLayer {
    /// Digest of the blob.
    pub digest: String,
    /// Whether it contains the rendered config.
    pub config: bool,
    /// Every path, sorted.
    pub paths: Vec<PathEntry>,
}
