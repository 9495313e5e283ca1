//! The golden ConfigMap `coreos-bootimages`: the streams that boot images should follow.

use std::collections::BTreeMap;

use mosb_types::Diagnostic;
use serde_json::{Map, Value, json};

use crate::{Release, Skip, Stream};

/// The ConfigMap's name, on OpenShift and elsewhere.
pub const CONFIG_MAP: &str = "coreos-bootimages";
const STREAM: &str = "stream";
const STREAMS: &str = "streams";
const RELEASE_VERSION: &str = "releaseVersion";
/// More than the API server stores in a ConfigMap.
const MAX_BYTES: usize = 1 << 20;
/// The default stream of releases that have only one.
const DEFAULT_LABEL: &str = "rhel-9";

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Golden {
    /// For sets without a label.
    default: Stream,
    /// By name; empty where there is only one.
    streams: BTreeMap<String, Stream>,
    release_version: Option<String>,
    stamp: Option<Stamp>,
}

/// Written by the machine-config-operator once a node runs its release.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Stamp {
    pub version_hash: String,
    pub release_image_version: String,
}

/// Why a ConfigMap or a file has no stream.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error, Diagnostic)]
#[diagnostic(class = InvalidInput)]
pub enum GoldenError {
    #[error("ConfigMap {CONFIG_MAP} has no key {STREAM:?}; add the JSON of a stream")]
    #[diagnostic(code = "no-stream")]
    NoStream,
    #[error("{object} is not the JSON of a stream: {cause}; use the JSON as it is published")]
    #[diagnostic(code = "bad-stream")]
    Json { object: String, cause: String },
    #[error("{object} has {bytes} bytes; at most {MAX_BYTES} fit into a ConfigMap")]
    #[diagnostic(code = "stream-too-large")]
    TooLarge { object: String, bytes: usize },
    #[error("{object} has no images of any architecture; use the JSON as it is published")]
    #[diagnostic(code = "empty-stream")]
    Empty { object: String },
}

fn parse<T: serde::de::DeserializeOwned>(object: &str, text: &str) -> Result<T, GoldenError> {
    let object = || object.to_owned();
    if text.len() > MAX_BYTES {
        return Err(GoldenError::TooLarge { object: object(), bytes: text.len() });
    }
    // A list would be read as the fields of a stream in order.
    if !text.trim_start().starts_with('{') {
        return Err(GoldenError::Json {
            object: object(),
            cause: "it is not a JSON object".to_owned(),
        });
    }
    // Only the place and kind of the problem: the text may be long.
    serde_json::from_str(text).map_err(|error| {
        let cause = error.to_string().chars().take(200).collect();
        GoldenError::Json { object: object(), cause }
    })
}

impl Golden {
    /// From the `data` of the ConfigMap.
    ///
    /// # Errors
    /// There is no stream, or it is not JSON.
    pub fn parse(data: &BTreeMap<String, String>) -> Result<Self, GoldenError> {
        let text = |key: &str| data.get(key).filter(|text| !text.trim().is_empty());
        let streams: BTreeMap<String, Stream> = match text(STREAMS) {
            Some(streams) => parse("key streams of ConfigMap coreos-bootimages", streams)?,
            None => BTreeMap::new(),
        };
        let default = match text(STREAM) {
            Some(stream) => parse("key stream of ConfigMap coreos-bootimages", stream)?,
            None => {
                let named = streams.get("").or_else(|| streams.get(DEFAULT_LABEL));
                named.cloned().ok_or(GoldenError::NoStream)?
            }
        };
        let hash_and_version =
            (text("MCOVersionHash").cloned(), text("MCOReleaseImageVersion").cloned());
        let stamp = match hash_and_version {
            (Some(version_hash), Some(release_image_version)) => {
                Some(Stamp { version_hash, release_image_version })
            }
            _ => None,
        };
        let release_version = text(RELEASE_VERSION).map(|text| text.trim().to_owned());
        Ok(Self { default, streams, release_version, stamp })
    }

    /// The stream for a set with this value of the stream label, or without the label.
    ///
    /// # Errors
    /// No such stream: the set is left alone.
    pub fn stream(&self, label: Option<&str>) -> Result<&Stream, Skip> {
        let Some(label) = label.filter(|label| !label.is_empty()) else {
            return Ok(&self.default);
        };
        let is_default = self.default.stream.as_deref() == Some(label)
            || (self.streams.is_empty() && label == DEFAULT_LABEL);
        let named = self.streams.get(label).or_else(|| is_default.then_some(&self.default));
        named.ok_or_else(|| Skip::OsStream { label: label.chars().take(64).collect() })
    }

    /// The version of the release that the ConfigMap came with, as it is written there.
    pub fn release_version(&self) -> Option<&str> {
        self.release_version.as_deref()
    }

    pub fn stamp(&self) -> Option<&Stamp> {
        self.stamp.as_ref()
    }

    fn all(&self) -> impl Iterator<Item = &Stream> {
        std::iter::once(&self.default).chain(self.streams.values())
    }

    /// The release of each image that exists in a cloud, by the image's text.
    pub fn releases(&self) -> BTreeMap<String, Release> {
        let mut releases = BTreeMap::new();
        for images in self.all().flat_map(|stream| stream.architectures.values()) {
            let images = &images.images;
            let aws = images.aws.iter().flat_map(|aws| aws.regions.values());
            let mut pairs: Vec<(Option<String>, &Option<String>)> =
                aws.map(|one| (one.image.clone(), &one.release)).collect();
            pairs.extend(images.gcp.iter().map(|gcp| (gcp.path(), &gcp.release)));
            pairs.extend(images.kubevirt.iter().map(|one| (one.digest_ref.clone(), &one.release)));
            for (image, release) in pairs {
                let release = release.as_deref().and_then(|release| release.parse().ok());
                if let (Some(image), Some(release)) = (image, release) {
                    releases.insert(image, release);
                }
            }
        }
        releases
    }
}

/// The golden ConfigMap for a cluster that has none, from a stream's JSON as Fedora CoreOS
/// publishes it. The stream is written without blanks and with sorted keys, so that one stream
/// always gives one text. `object` is where the text comes from, for errors. The release of the
/// golden ConfigMap is `release_version`, else the newest release of the stream.
///
/// # Errors
/// The text is not a stream with images.
pub fn golden_config_map(
    object: &str,
    stream: &str,
    namespace: &str,
    release_version: Option<&Release>,
) -> Result<Value, GoldenError> {
    let typed: Stream = parse(object, stream)?;
    if typed.architectures.is_empty() {
        return Err(GoldenError::Empty { object: object.to_owned() });
    }
    let value: Map<String, Value> = parse(object, stream)?;
    let mut data = Map::new();
    data.insert(STREAM.to_owned(), json!(Value::Object(value).to_string()));
    if let Some(version) = release_version.cloned().or_else(|| newest_release(&typed)) {
        data.insert(RELEASE_VERSION.to_owned(), json!(version.as_str()));
    }
    Ok(json!({
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": CONFIG_MAP, "namespace": namespace},
        "data": data,
    }))
}

/// Of all artifacts; none if their releases can't be compared.
fn newest_release(stream: &Stream) -> Option<Release> {
    let artifacts = stream.architectures.values().flat_map(|images| images.artifacts.values());
    let mut releases = artifacts.filter_map(|artifact| artifact.release.as_deref()?.parse().ok());
    let first: Release = releases.next()?;
    releases.try_fold(first, |newest, next| {
        Some(if next.compare(&newest)?.is_gt() { next } else { newest })
    })
}

#[cfg(test)]
mod tests;
