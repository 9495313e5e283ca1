//! A descriptor: how manifests and indexes name what they consist of (OCI image spec 1.1).

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::Digest;

/// A blob or manifest that a manifest names.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct BlobRef {
    pub media_type: String,
    pub digest: Digest,
    pub size: u64,
    /// For example the position of a zstd:chunked layer's table of contents.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub annotations: BTreeMap<String, String>,
}

impl BlobRef {
    /// The descriptor of these bytes.
    pub fn of(media_type: &str, bytes: &[u8]) -> Self {
        Self {
            media_type: media_type.to_owned(),
            digest: Digest::of(bytes),
            size: bytes.len() as u64,
            annotations: BTreeMap::new(),
        }
    }
}
