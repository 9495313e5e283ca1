//! The few fields of manifests and indexes that are read here. Nothing is ever written back from
//! these: bytes travel unchanged (OCI image spec 1.1; Docker image manifest, version 2, schema 2).

use std::collections::BTreeMap;

use serde::Deserialize;

use mosb_image::layer::MAX_LAYERS;
use mosb_image::media_type::{DOCKER_LIST, DOCKER_MANIFEST, OCI_INDEX, OCI_MANIFEST};
use mosb_image::{BlobRef, Digest, Platform};

use crate::error::Error;

/// The `Accept` header of a request for a manifest.
pub(super) const ACCEPT: &str = "application/vnd.oci.image.manifest.v1+json, \
    application/vnd.oci.image.index.v1+json, \
    application/vnd.docker.distribution.manifest.v2+json, \
    application/vnd.docker.distribution.manifest.list.v2+json";

/// Most bytes of a manifest or index: enough for 512 layers with a table of contents each. That of
/// a base with 40 layers has 9 KiB.
pub(super) const MANIFEST_LIMIT: u64 = 512 << 10;
/// Most bytes of a config: enough for 512 layers with 1 KiB of history each, and as much for labels.
pub(super) const CONFIG_LIMIT: u64 = 1 << 20;

/// Config and layers.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct ImageManifest {
    pub config: BlobRef,
    pub layers: Vec<BlobRef>,
}

#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct IndexEntry {
    #[serde(default)]
    pub media_type: String,
    pub digest: Digest,
    pub size: u64,
    #[serde(default)]
    pub platform: Option<RawPlatform>,
    #[serde(default)]
    pub annotations: Option<BTreeMap<String, String>>,
}

#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub(super) struct RawPlatform {
    #[serde(default)]
    pub os: String,
    #[serde(default)]
    pub architecture: String,
    #[serde(default)]
    pub variant: Option<String>,
}

#[derive(Debug, Deserialize)]
struct RawIndex {
    #[serde(default)]
    manifests: Vec<IndexEntry>,
}

/// The fields that identify a document without a media type.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Shape {
    #[serde(default)]
    schema_version: Option<u64>,
    #[serde(default)]
    media_type: Option<String>,
    #[serde(default)]
    manifests: Option<serde_json::Value>,
    #[serde(default)]
    config: Option<serde_json::Value>,
}

/// A manifest or an index.
#[derive(Debug)]
pub(super) enum Document {
    Image(ImageManifest),
    Index(Vec<IndexEntry>),
}

pub(super) fn invalid(image: &str, cause: impl ToString) -> Error {
    Error::ManifestInvalid { image: image.to_owned(), cause: cause.to_string() }
}

/// The media type: the document's own, else its `Content-Type`, else by its fields. A document that
/// could be of both kinds is rejected (CVE-2021-41190).
pub(super) fn media_type(
    image: &str,
    bytes: &[u8],
    content_type: Option<&str>,
) -> Result<String, Error> {
    let shape: Shape = serde_json::from_slice(bytes).map_err(|e| invalid(image, e))?;
    if shape.manifests.is_some() && shape.config.is_some() {
        return Err(invalid(image, "both an index and a manifest"));
    }
    if shape.schema_version == Some(1) {
        return Err(Error::UnsupportedMediaType {
            image: image.to_owned(),
            media_type: "application/vnd.docker.distribution.manifest.v1+json".to_owned(),
        });
    }
    let content_type = content_type
        .map(|t| t.split(';').next().unwrap_or(t).trim().to_owned())
        .filter(|t| t.starts_with("application/vnd."));
    Ok(match (shape.media_type.filter(|t| !t.is_empty()).or(content_type), &shape.manifests) {
        (Some(media_type), _) => media_type,
        (None, Some(_)) => OCI_INDEX.to_owned(),
        (None, None) => OCI_MANIFEST.to_owned(),
    })
}

/// Reads a manifest or an index of a known media type.
pub(super) fn read(image: &str, bytes: &[u8], media_type: &str) -> Result<Document, Error> {
    match media_type {
        OCI_MANIFEST | DOCKER_MANIFEST => {
            let manifest: ImageManifest =
                serde_json::from_slice(bytes).map_err(|e| invalid(image, e))?;
            let fine = |t: &str| t.contains("image.config") || t.contains("container.image.v1");
            if !fine(&manifest.config.media_type) {
                return Err(Error::UnsupportedMediaType {
                    image: image.to_owned(),
                    media_type: manifest.config.media_type,
                });
            }
            let found = manifest.layers.len();
            if found > MAX_LAYERS {
                let cause =
                    format!("it has {found} layers, and no more than {MAX_LAYERS} are read");
                return Err(invalid(image, cause));
            }
            Ok(Document::Image(manifest))
        }
        OCI_INDEX | DOCKER_LIST => {
            let index: RawIndex = serde_json::from_slice(bytes).map_err(|e| invalid(image, e))?;
            Ok(Document::Index(index.manifests))
        }
        other => Err(Error::UnsupportedMediaType {
            image: image.to_owned(),
            media_type: other.to_owned(),
        }),
    }
}

impl IndexEntry {
    /// The platform, where one is written that means something.
    pub fn platform(&self) -> Option<Platform> {
        let raw = self.platform.as_ref()?;
        let variant = raw.variant.as_deref().filter(|v| !v.is_empty());
        Platform::new(&raw.os, &raw.architecture, variant).ok()
    }
}

/// The platform that a config says the image is for.
pub(super) fn config_platform(image: &str, config: &[u8]) -> Result<Option<Platform>, Error> {
    let raw: RawPlatform =
        serde_json::from_slice(config).map_err(|e| invalid(image, format!("config: {e}")))?;
    if raw.os.is_empty() && raw.architecture.is_empty() {
        return Ok(None);
    }
    let variant = raw.variant.as_deref().filter(|v| !v.is_empty());
    Platform::new(&raw.os, &raw.architecture, variant)
        .map(Some)
        .map_err(|source| Error::Platform { image: image.to_owned(), source })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use mosb_types::Diagnostic as _;

    #[test]
    fn the_media_type_of_a_document_is_unambiguous() {
        let index = r#"{"schemaVersion":2,"manifests":[]}"#;
        let typed = r#"{"schemaVersion":2,"mediaType":"application/vnd.oci.image.index.v1+json","manifests":[]}"#;
        for (what, text, told, want) in [
            (
                "told",
                r#"{"schemaVersion":2,"config":{}}"#,
                Some(DOCKER_MANIFEST),
                Ok(DOCKER_MANIFEST),
            ),
            (
                "told with a charset",
                "{}",
                Some("application/vnd.oci.image.manifest.v1+json; charset=utf-8"),
                Ok(OCI_MANIFEST),
            ),
            ("told nothing useful", index, Some("application/json"), Ok(OCI_INDEX)),
            ("not told", index, None, Ok(OCI_INDEX)),
            ("says", typed, Some(DOCKER_LIST), Ok(OCI_INDEX)),
            ("both", r#"{"manifests":[],"config":{}}"#, None, Err("bad-manifest")),
            ("schema 1", r#"{"schemaVersion":1,"name":"x"}"#, None, Err("unsupported-media-type")),
            ("not JSON", "<html>", Some(OCI_MANIFEST), Err("bad-manifest")),
        ] {
            let got = media_type("x", text.as_bytes(), told);
            assert_eq!(got.as_deref().map_err(Error::code), want, "{what}");
        }
        let artifact = br#"{"config":{"mediaType":"application/vnd.oci.empty.v1+json","digest":"sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855","size":0},"layers":[]}"#;
        assert_eq!(read("x", artifact, OCI_MANIFEST).unwrap_err().code(), "unsupported-media-type");
    }

    #[test]
    fn too_many_layers_are_rejected() {
        let blob = |media_type: &str| {
            let digest = Digest::of(b"");
            json!({ "mediaType": media_type, "digest": digest, "size": 0 })
        };
        for (layers, fine) in [(MAX_LAYERS, true), (MAX_LAYERS + 1, false)] {
            let layer = blob("application/vnd.oci.image.layer.v1.tar+gzip");
            let manifest = json!({
                "config": blob("application/vnd.oci.image.config.v1+json"),
                "layers": vec![layer; layers],
            });
            let manifest = manifest.to_string();
            assert!((manifest.len() as u64) < MANIFEST_LIMIT);
            let found = read("x", manifest.as_bytes(), OCI_MANIFEST);
            assert_eq!(found.is_ok(), fine, "{layers}");
            if let Err(error) = found {
                let text = error.to_string();
                assert!(text.contains("it has 513 layers, and no more than 512"), "{text}");
            }
        }
    }
}
