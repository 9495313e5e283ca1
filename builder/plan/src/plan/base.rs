//! The base OS image, by its manifest and config.

use std::collections::BTreeMap;
use std::fmt;

use k8s_openapi::jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use mosb_api::labels;
use mosb_image::{DiffId, Digest, ImageRef, Platform, RepoRef};
use mosb_types::Diagnostic;

/// Label of an image that composefs-rs sealed: the digest of its file system.
pub const SEALED: &str = "containers.composefs.fsverity";

/// The text that names the base in labels: `spec.osImageURL` unchanged, or `host/repo@digest` of
/// `--base`, or the bare digest of an OCI layout. One line without blanks. It is an input of the
/// image (`ARCHITECTURE.md`, Names that follow from inputs).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct BaseName(String);

/// That of an image in a registry.
impl TryFrom<String> for BaseName {
    type Error = mosb_image::ReferenceError;
    fn try_from(text: String) -> Result<Self, Self::Error> {
        Self::from_os_image_url(&text)
    }
}

impl From<BaseName> for String {
    fn from(name: BaseName) -> Self {
        name.0
    }
}

impl BaseName {
    /// `spec.osImageURL`, a valid reference, unchanged.
    pub fn from_os_image_url(text: &str) -> Result<Self, mosb_image::ReferenceError> {
        text.parse::<ImageRef>().map(|_| Self(text.to_owned()))
    }

    /// `--base` in a registry.
    pub fn from_registry(repo: &RepoRef, manifest: Digest) -> Self {
        Self(repo.pinned(manifest).to_string())
    }

    /// `--base` in an OCI layout: its place on a disk is not part of an image.
    pub fn from_layout(manifest: Digest) -> Self {
        Self(manifest.to_string())
    }

    /// Whether the base is in an OCI layout: a reference is never a bare digest.
    pub fn is_layout(&self) -> bool {
        self.0.parse::<Digest>().is_ok()
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// The annotations of a manifest that say what an image was built on.
pub(super) fn base_annotations(base: &Base) -> BTreeMap<String, String> {
    // A bare digest, which names a base in an OCI layout, would be read as the name of an image.
    let name = (!base.name.is_layout()).then(|| base.name.as_str().to_owned());
    let name = name.map(|name| (labels::OCI_BASE_NAME.to_owned(), name));
    let digest = base.manifest_digest.to_string();
    [(labels::OCI_BASE_DIGEST.to_owned(), digest)].into_iter().chain(name).collect()
}

/// A base image, resolved once to one manifest.
#[derive(Debug, Clone)]
pub struct Base {
    /// The text for labels.
    pub name: BaseName,
    /// Where it is read from, for people: `host/repo@sha256:…` or `oci:DIR@sha256:…`.
    pub image: String,
    /// The index it was found in, if any.
    pub index: Option<Digest>,
    pub manifest_digest: Digest,
    /// The manifest, with every field it has.
    pub manifest: Value,
    /// The whole config, and the fields of it that the plan reads.
    pub config: BaseConfig,
}

/// The config of an image, with every field it has.
#[derive(Debug, Clone)]
pub struct BaseConfig {
    pub raw: Value,
    /// `os`, `architecture`, `variant`.
    pub platform: Platform,
    /// `config.Labels`.
    pub labels: BTreeMap<String, String>,
    /// `rootfs.diff_ids`.
    pub diff_ids: Vec<DiffId>,
}

/// When a base was made, and which version it is.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct BaseRelease {
    /// Label `org.opencontainers.image.created`, else `created` of the config.
    pub created: Option<Timestamp>,
    /// Label `org.opencontainers.image.version`, else `version`.
    pub version: Option<String>,
}

impl BaseRelease {
    /// Whether this was certainly made before the other.
    pub fn is_before(&self, other: &Self) -> bool {
        self.created.zip(other.created).is_some_and(|(this, other)| this < other)
    }
}

/// How what the tag of a base names now compares with the base.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TagState {
    Current,
    /// It names an image that was certainly made before.
    MovedBack,
    Newer,
}

impl TagState {
    /// Compares by the digests of both manifests, and by when they were made.
    pub fn of(base: (&Digest, &BaseRelease), newest: (&Digest, &BaseRelease)) -> Self {
        if base.0 == newest.0 {
            Self::Current
        } else if newest.1.is_before(base.1) {
            Self::MovedBack
        } else {
            Self::Newer
        }
    }
}

/// `version 41.1, made 2026-01-02T03:04:05Z`; empty if nothing is known.
impl fmt::Display for BaseRelease {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (&self.version, &self.created) {
            (Some(version), Some(created)) => write!(f, "version {version}, made {created:.0}"),
            (Some(version), None) => write!(f, "version {version}"),
            (None, Some(created)) => write!(f, "made {created:.0}"),
            (None, None) => Ok(()),
        }
    }
}

/// Where the directories of kernels are.
pub(super) const MODULES: &str = "usr/lib/modules";

/// One word that fits into an annotation and a sentence; a base may have any text there.
fn is_version(text: &str) -> bool {
    (1..=64).contains(&text.len()) && text.bytes().all(|b| b.is_ascii_graphic())
}

/// Manifest or config violate the OCI image spec.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error, Diagnostic)]
#[error("{image}: {problem}; the image is damaged or no container image")]
#[diagnostic(code = "bad-base", class = InvalidInput)]
pub struct BaseError {
    image: String,
    /// The field and its problem.
    problem: String,
}

impl Base {
    /// Checks the bytes of a registry or layout.
    ///
    /// # Errors
    /// A manifest or config without the fields that the OCI image spec requires.
    pub fn new(
        name: BaseName,
        image: String,
        index: Option<Digest>,
        manifest: &[u8],
        config: &[u8],
    ) -> Result<Self, BaseError> {
        let malformed = |problem: String| BaseError { image: image.clone(), problem };
        let json = |what: &str, bytes: &[u8]| {
            serde_json::from_slice::<Value>(bytes)
                .map_err(|e| malformed(format!("its {what} is not JSON ({e})")))
        };
        let manifest_json = json("manifest", manifest)?;
        let layers = manifest_json.get("layers").and_then(Value::as_array).map(Vec::len);
        let layers = layers.ok_or_else(|| malformed("its manifest has no layers".to_owned()))?;
        let config = BaseConfig::new(json("config", config)?).map_err(&malformed)?;
        if config.diff_ids.len() != layers {
            let problem = format!(
                "its manifest has {layers} layers and its config {}",
                config.diff_ids.len()
            );
            return Err(malformed(problem));
        }
        let manifest_digest = Digest::of(manifest);
        Ok(Self {
            name,
            image: image.clone(),
            index,
            manifest_digest,
            manifest: manifest_json,
            config,
        })
    }

    /// When it was made, and which version it is, as it says itself.
    pub fn release(&self) -> BaseRelease {
        let label = |key: &str| self.config.labels.get(key).map(String::as_str);
        let created = self.config.raw.get("created").and_then(Value::as_str);
        let created = label("org.opencontainers.image.created").or(created);
        let version = label("org.opencontainers.image.version").or_else(|| label("version"));
        BaseRelease {
            created: created.and_then(|text| text.parse().ok()),
            version: version.filter(|version| is_version(version)).map(str::to_owned),
        }
    }

    /// Whether it says of itself that it is sealed: composefs puts the digest of the file system there.
    pub fn is_said_to_be_sealed(&self) -> bool {
        self.config.labels.contains_key(SEALED)
    }

    /// Whether nodes can boot it: an ostree-native image (`ostree.bootable`, `containers.bootc`).
    pub fn is_bootable(&self) -> bool {
        ["ostree.bootable", "containers.bootc"].iter().any(|key| {
            self.config
                .labels
                .get(*key)
                .is_some_and(|value| value != "0" && !value.eq_ignore_ascii_case("false"))
        })
    }

    /// Whether it is an ostree commit in layers, so that `ostree container commit` belongs to a
    /// build on it.
    pub fn is_ostree(&self) -> bool {
        self.is_bootable() || self.config.labels.keys().any(|key| key.starts_with("ostree."))
    }
}

/// Whether a user of an image may write all of it; the group does not matter.
pub(crate) fn is_root(user: &str) -> bool {
    matches!(user.split(':').next(), Some("" | "0" | "root"))
}

impl BaseConfig {
    fn new(raw: Value) -> Result<Self, String> {
        let text = |pointer: &str| raw.pointer(pointer).and_then(Value::as_str);
        let (os, architecture) =
            (text("/os").unwrap_or("linux"), text("/architecture").unwrap_or_default());
        let variant = text("/variant").filter(|variant| !variant.is_empty());
        let platform = Platform::new(os, architecture, variant).map_err(|_| {
            format!("its config names no platform (os {os:?}, architecture {architecture:?})")
        })?;
        let labels = match raw.pointer("/config/Labels") {
            None | Some(Value::Null) => BTreeMap::new(),
            Some(labels) => serde_json::from_value(labels.clone())
                .map_err(|e| format!("its config.Labels are not labels ({e})"))?,
        };
        let diff_ids = raw.pointer("/rootfs/diff_ids").cloned().unwrap_or_default();
        let diff_ids = serde_json::from_value(diff_ids)
            .map_err(|e| format!("its rootfs.diff_ids are not digests ({e})"))?;
        Ok(Self { platform, labels, diff_ids, raw })
    }
}
