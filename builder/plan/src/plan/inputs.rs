//! What an image is made of, and the names that follow from it (`ARCHITECTURE.md`, Names that
//! follow from inputs).

use std::collections::BTreeMap;

use serde::Serialize;
use serde_json::{Value, json};

use mosb_image::{Digest, PinnedRef, Platform, RepoRef, edit};
use mosb_types::canonical_json;

use super::Base;
use super::base::base_annotations;
use super::build_context::BuildContext;
use super::build_plan::BuildRequest;
use super::method::Method;
use mosb_api::{BuildName, PoolName, labels};

/// Which bytes this version makes of the same inputs: the label `mosb.dev/format`. Raised only when
/// the bytes of an image change, so that a new version of mosb alone names no other images.
pub const FORMAT: u32 = 2;

/// Everything that an image depends on, as the digest of its canonical JSON. Where it is pushed,
/// and under whose credentials, is not part of it.
#[derive(Debug, Clone, PartialEq)]
pub struct Inputs(Digest);

/// What [`Inputs`] are made of.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Parts<'a> {
    pub format: u32,
    /// Whether the image brings files below `/var`, kernel arguments and the boot check to machines.
    pub every_config: bool,
    pub config: &'a Value,
    pub pool: &'a PoolName,
    pub base_name: &'a str,
    pub base: Digest,
    /// With its name, which is a label of the image.
    pub extensions: Option<&'a PinnedRef>,
    pub containerfile: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub context: Option<&'a BuildContext>,
    pub build_args: &'a BTreeMap<String, String>,
    pub platform: &'a Platform,
    pub trust_bundle: Option<Digest>,
}

impl Inputs {
    pub(super) fn new(parts: &Parts<'_>) -> Self {
        Self::of(parts)
    }

    pub(super) fn of(parts: &impl Serialize) -> Self {
        Self(Digest::of(&canonical_json(parts)))
    }

    /// The label `mosb.dev/inputs`: 64 hex digits.
    pub fn hex(&self) -> String {
        self.0.hex()
    }

    /// The name of the build that makes this image for this push repository; none for an OCI
    /// layout.
    pub fn build_name(&self, pool: &PoolName, push: Option<&RepoRef>) -> BuildName {
        let push = push.map(RepoRef::to_string).unwrap_or_default();
        let value: Value = json!({ "inputs": self.hex(), "pushRepository": push });
        BuildName::new(pool, &Digest::of(&canonical_json(&value)).hex())
            .expect("a pool's name and hex digits")
    }
}

pub(super) fn image_labels(request: &BuildRequest, inputs: &Inputs) -> BTreeMap<String, String> {
    let extensions = request.extensions_image.as_ref();
    let extensions =
        extensions.map(|image| (labels::IMAGE_EXTENSIONS.to_owned(), image.to_string()));
    let base = request.base.name.as_str().to_owned();
    [
        (labels::IMAGE_MACHINE_CONFIG, request.config.name().to_string()),
        (labels::IMAGE_MACHINE_CONFIG_POOL, request.config.pool().to_string()),
        (labels::IMAGE_BASE, base.clone()),
        (labels::OCI_BASE_NAME, base),
        (labels::OCI_BASE_DIGEST, request.base.manifest_digest.to_string()),
        (labels::IMAGE_INPUTS, inputs.hex()),
        (labels::IMAGE_FORMAT, FORMAT.to_string()),
    ]
    .map(|(key, value)| (key.to_owned(), value))
    .into_iter()
    .chain(extensions)
    .collect()
}

/// What names the base in the image's manifest. `lower` is the image that the layer of a direct build
/// is put on.
pub(super) fn annotations(base: &Base, lower: &Base, method: &Method) -> BTreeMap<String, String> {
    // buildah always makes an OCI image; a direct build has the media types of what it is put on.
    let has_none = match method {
        Method::Direct | Method::Prepared(_) => edit::is_docker(&lower.manifest),
        Method::LastPart(_) | Method::Containerfile(_) => false,
    };
    if has_none { BTreeMap::new() } else { base_annotations(base) }
}
