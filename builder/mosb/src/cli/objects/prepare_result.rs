//! What `build --prepare-only` came to.

use schemars::JsonSchema;
use serde::Serialize;

use super::build_result::PinnedBase;
use mosb_types::Finding;

/// A prepared base, whose digest the target has confirmed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PrepareResult {
    /// `repo@digest`, or `oci:DIR@digest`: the value of `--prepared`.
    pub image: String,
    /// Its tag.
    pub tag: String,
    /// Digest of the manifest.
    pub digest: String,
    /// SHA-256 of its inputs: 64 hex digits, also in its label `mosb.dev/prepared-inputs`.
    pub inputs: String,
    /// Why something must be run.
    pub reasons: Vec<Finding>,
    /// The base.
    pub base: PinnedBase,
    /// Bytes of pulled manifests and blobs.
    pub bytes_pulled: u64,
    /// Bytes of pushed manifests and blobs.
    pub bytes_pushed: u64,
    /// From start to end.
    pub duration_millis: u64,
    /// Warnings about the image.
    pub warnings: Vec<Finding>,
}
