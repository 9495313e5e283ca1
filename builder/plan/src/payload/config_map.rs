//! A ConfigMap as `kubectl apply --server-side` takes it.

use std::collections::BTreeMap;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::{Deserialize, Serialize};

use super::Error;
use mosb_api::{BuildName, RenderedConfig, label_value, labels, object_name, shortened};

/// Bytes in one ConfigMap. The API server refuses more than 1 MiB of data; the rest is left for
/// keys, labels, and what the server adds.
pub(super) const DATA_LIMIT: usize = 1024 * 1024 - 64 * 1024;
/// The longest name of an object.
const NAME_LIMIT: usize = 253;

/// A ConfigMap (`v1`).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ConfigMap {
    /// `v1`.
    pub api_version: String,
    pub kind: String,
    /// Name, namespace, labels, annotations.
    pub metadata: ObjectMeta,
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub data: BTreeMap<String, String>,
    /// Bytes in base64.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub binary_data: BTreeMap<String, String>,
}

/// The part of `metadata` that we write.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ObjectMeta {
    pub name: String,
    /// Its namespace; the caller's own if none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub namespace: Option<String>,
    #[serde(default)]
    pub labels: BTreeMap<String, String>,
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub annotations: BTreeMap<String, String>,
}

impl ConfigMap {
    /// An empty one that serves this build, called `<prefix>-<build name>`.
    pub(super) fn new(
        prefix: &str,
        config: &RenderedConfig,
        build: &BuildName,
        namespace: Option<&str>,
    ) -> Self {
        let labels = [
            (labels::EPHEMERAL_BUILD_OBJECT, ""),
            (labels::ON_CLUSTER_LAYERING, ""),
            (labels::RENDERED_MACHINE_CONFIG, config.name().as_str()),
            (labels::TARGET_MACHINE_CONFIG_POOL, config.pool().as_str()),
            (labels::MACHINE_OS_BUILD, build.as_str()),
        ];
        let label = |(key, value): (&str, &str)| (key.to_owned(), label_value(value));
        Self {
            api_version: "v1".to_owned(),
            kind: "ConfigMap".to_owned(),
            metadata: ObjectMeta {
                name: object_name(prefix, build),
                namespace: namespace.map(str::to_owned),
                labels: labels.map(label).into(),
                annotations: BTreeMap::new(),
            },
            data: BTreeMap::new(),
            binary_data: BTreeMap::new(),
        }
    }

    /// The same, as part `part` of several.
    pub(super) fn numbered(mut self, prefix: &str, build: &BuildName, part: usize) -> Self {
        self.metadata.name = shortened(&format!("{prefix}-{build}-{part}"), NAME_LIMIT);
        self
    }

    fn fits(&self, key: &str, size: usize) -> Result<(), Error> {
        if size > DATA_LIMIT {
            return Err(Error::TooLarge {
                what: format!("{key} of ConfigMap {}", self.metadata.name),
                size,
                limit: DATA_LIMIT,
            });
        }
        Ok(())
    }

    pub(super) fn text(mut self, key: &str, text: &str) -> Result<Self, Error> {
        self.fits(key, text.len())?;
        self.data.insert(key.to_owned(), text.to_owned());
        Ok(self)
    }

    pub(super) fn binary(mut self, key: &str, bytes: &[u8]) -> Result<Self, Error> {
        self.fits(key, bytes.len())?;
        self.binary_data.insert(key.to_owned(), STANDARD.encode(bytes));
        Ok(self)
    }
}
