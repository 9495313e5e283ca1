//! The few fields of manifests and indexes that are read here. Nothing is ever written back from these: bytes travel
//! unchanged (OCI image spec 1.1; Docker image manifest, version 2, schema 2).

use std::collections::BTreeMap;

use serde::Deserialize;

use crate::image::{Digest, Platform};

use super::error::Error;

/// OCI image manifest.
pub const OCI_MANIFEST: &str = "application/vnd.oci.image.manifest.v1+json";
/// OCI image index.
pub const OCI_INDEX: &str = "application/vnd.oci.image.index.v1+json";
/// Docker image manifest, schema 2.
pub const DOCKER_MANIFEST: &str = "application/vnd.docker.distribution.manifest.v2+json";
/// Docker manifest list.
pub const DOCKER_LIST: &str = "application/vnd.docker.distribution.manifest.list.v2+json";
/// What is asked for.
pub(super) const ACCEPT: &str = "application/vnd.oci.image.manifest.v1+json, \
    application/vnd.oci.image.index.v1+json, \
    application/vnd.docker.distribution.manifest.v2+json, \
    application/vnd.docker.distribution.manifest.list.v2+json";

/// Most bytes of a manifest or index (the limit that registries have).
pub(super) const MANIFEST_LIMIT: u64 = 4 << 20;
/// Most bytes of a config.
pub(super) const CONFIG_LIMIT: u64 = 8 << 20;

/// A blob that a manifest names.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct BlobRef {
    /// What it is.
    pub media_type: String,
    /// Its name.
    pub digest: Digest,
    /// Its bytes.
    pub size: u64,
    /// What else its maker tells; a zstd:chunked layer says here where its table of contents is.
    #[serde(default)]
    pub annotations: BTreeMap<String, String>,
}

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
    platform: Option<RawPlatform>,
    #[serde(default)]
    pub annotations: Option<BTreeMap<String, String>>,
}

#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
struct RawPlatform {
    #[serde(default)]
    os: String,
    #[serde(default)]
    architecture: String,
    #[serde(default)]
    variant: Option<String>,
}

#[derive(Debug, Deserialize)]
struct RawIndex {
    #[serde(default)]
    manifests: Vec<IndexEntry>,
}

/// The fields by which a document without a media type tells what it is.
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

/// A document, told apart.
#[derive(Debug)]
pub(super) enum Document {
    Image(ImageManifest),
    Index(Vec<IndexEntry>),
}

fn invalid(image: &str, cause: impl ToString) -> Error {
    Error::ManifestInvalid {
        image: image.to_owned(),
        cause: cause.to_string(),
    }
}

/// The media type: what the document says of itself, else what came with it, else what it looks like. A document that
/// could be taken for both kinds is refused (CVE-2021-41190).
pub(super) fn media_type(image: &str, bytes: &[u8], told: Option<&str>) -> Result<String, Error> {
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
    let told = told
        .map(|t| t.split(';').next().unwrap_or(t).trim().to_owned())
        .filter(|t| t.starts_with("application/vnd."));
    Ok(
        match (
            shape.media_type.filter(|t| !t.is_empty()).or(told),
            &shape.manifests,
        ) {
            (Some(media_type), _) => media_type,
            (None, Some(_)) => OCI_INDEX.to_owned(),
            (None, None) => OCI_MANIFEST.to_owned(),
        },
    )
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

    /// Whether it can be an image at all: attestations have the platform unknown/unknown (BuildKit) or name what they
    /// attest in an annotation, and artifacts have other media types.
    fn is_image(&self) -> bool {
        let unknown = self
            .platform
            .as_ref()
            .is_some_and(|p| p.os == "unknown" || p.architecture == "unknown");
        let attests = self
            .annotations
            .as_ref()
            .is_some_and(|a| a.contains_key("vnd.docker.reference.type"));
        let known = matches!(
            &*self.media_type,
            "" | OCI_MANIFEST | OCI_INDEX | DOCKER_MANIFEST | DOCKER_LIST
        );
        known && !unknown && !attests
    }

    fn shown(&self) -> String {
        self.platform().map_or_else(
            || format!("{} without a platform", self.digest),
            |p| p.to_string(),
        )
    }
}

/// The one image of an index: of the platform that was asked for, or the only one.
pub(super) fn choose<'a>(
    image: &str,
    entries: &'a [IndexEntry],
    wanted: Option<&Platform>,
) -> Result<&'a IndexEntry, Error> {
    let images: Vec<_> = entries.iter().filter(|e| e.is_image()).collect();
    let shown = |of: &[&IndexEntry]| of.iter().map(|e| e.shown()).collect::<Vec<_>>();
    let Some(wanted) = wanted else {
        return match images[..] {
            [] => Err(invalid(image, "the index holds no image")),
            [only] => Ok(only),
            _ => Err(Error::PlatformAmbiguous {
                image: image.to_owned(),
                has: shown(&images),
            }),
        };
    };
    let fitting: Vec<_> = images
        .iter()
        .copied()
        // An entry without a platform is judged by its config, if it is the only one.
        .filter(|e| match e.platform() {
            Some(platform) => wanted.accepts(&platform),
            None => images.len() == 1,
        })
        .collect();
    match fitting[..] {
        [] => Err(Error::PlatformMissing {
            image: image.to_owned(),
            wanted: wanted.clone(),
            has: shown(&images),
        }),
        [only] => Ok(only),
        // Without a variant asked for, several may fit; an entry of exactly this platform is what was meant.
        _ => match fitting
            .iter()
            .filter(|e| e.platform().as_ref() == Some(wanted))
            .collect::<Vec<_>>()[..]
        {
            [exact] => Ok(exact),
            _ => Err(Error::PlatformAmbiguous {
                image: image.to_owned(),
                has: shown(&fitting),
            }),
        },
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
        .map_err(|source| Error::Platform {
            image: image.to_owned(),
            source,
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entries(list: &[(&str, &str)]) -> Vec<IndexEntry> {
        list.iter()
            .enumerate()
            .map(|(n, (media_type, platform))| IndexEntry {
                media_type: (*media_type).to_owned(),
                digest: Digest::of(&[u8::try_from(n).unwrap()]),
                size: 1,
                platform: (!platform.is_empty()).then(|| {
                    let mut parts = platform.split('/').map(str::to_owned);
                    RawPlatform {
                        os: parts.next().unwrap(),
                        architecture: parts.next().unwrap(),
                        variant: parts.next(),
                    }
                }),
                annotations: None,
            })
            .collect()
    }

    #[test]
    fn the_platform_is_never_guessed() {
        let m = OCI_MANIFEST;
        let amd = (m, "linux/amd64");
        let arm = (m, "linux/arm64/v8");
        let attestation = (m, "unknown/unknown");
        let artifact = ("application/vnd.acme.sbom", "linux/amd64");
        for (what, list, wanted, want) in [
            ("only one", vec![amd], None, Ok(0)),
            (
                "one and its attestation",
                vec![attestation, amd, artifact],
                None,
                Ok(1),
            ),
            ("several", vec![amd, arm], None, Err("platform-ambiguous")),
            ("asked", vec![amd, arm], Some("linux/arm64"), Ok(1)),
            (
                "asked with the variant",
                vec![amd, arm],
                Some("linux/arm64/v8"),
                Ok(1),
            ),
            (
                "another variant",
                vec![amd, arm],
                Some("linux/arm64/v9"),
                Err("platform-missing"),
            ),
            (
                "missing",
                vec![amd],
                Some("linux/s390x"),
                Err("platform-missing"),
            ),
            (
                "no platform, only one",
                vec![("", "")],
                Some("linux/amd64"),
                Ok(0),
            ),
            (
                "no platform, several",
                vec![("", ""), arm],
                Some("linux/amd64"),
                Err("platform-missing"),
            ),
            (
                "twice",
                vec![amd, amd],
                Some("linux/amd64"),
                Err("platform-ambiguous"),
            ),
            (
                "with and without variant",
                vec![(m, "linux/arm/v6"), (m, "linux/arm"), (m, "linux/arm/v7")],
                Some("linux/arm"),
                Ok(1),
            ),
            ("empty", vec![], None, Err("bad-manifest")),
            (
                "nothing but attestations",
                vec![attestation],
                None,
                Err("bad-manifest"),
            ),
        ] {
            let list = entries(&list);
            let wanted: Option<Platform> = wanted.map(|p| p.parse().unwrap());
            let got = choose("x", &list, wanted.as_ref());
            let got = got.map(|e| list.iter().position(|o| o.digest == e.digest).unwrap());
            assert_eq!(got.map_err(|e| e.reason()), want, "{what}");
        }
    }

    #[test]
    fn a_document_is_what_it_says_and_never_two_things() {
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
            (
                "told nothing useful",
                index,
                Some("application/json"),
                Ok(OCI_INDEX),
            ),
            ("not told", index, None, Ok(OCI_INDEX)),
            ("says", typed, Some(DOCKER_LIST), Ok(OCI_INDEX)),
            (
                "both",
                r#"{"manifests":[],"config":{}}"#,
                None,
                Err("bad-manifest"),
            ),
            (
                "schema 1",
                r#"{"schemaVersion":1,"name":"x"}"#,
                None,
                Err("unsupported-media-type"),
            ),
            (
                "not JSON",
                "<html>",
                Some(OCI_MANIFEST),
                Err("bad-manifest"),
            ),
        ] {
            let got = media_type("x", text.as_bytes(), told);
            assert_eq!(got.as_deref().map_err(Error::reason), want, "{what}");
        }
        let artifact = br#"{"config":{"mediaType":"application/vnd.oci.empty.v1+json","digest":"sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855","size":0},"layers":[]}"#;
        assert_eq!(
            read("x", artifact, OCI_MANIFEST).unwrap_err().reason(),
            "unsupported-media-type"
        );
    }
}
