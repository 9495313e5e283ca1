//! What a prepared base is made of, and the names that follow from it.

use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use super::OwnInstructions;
use super::trust_files::TrustEntry;
use crate::plan::build_context::BuildContext;
use crate::plan::build_plan::BuildRequest;
use crate::plan::packages;
use mosb_image::{Digest, Platform};
use mosb_types::canonical_json;

/// Raised only when a prepared base of the same inputs becomes another image. Then each is made
/// anew at its next build, and images in service stay.
const FORMAT: u32 = 1;

/// Everything that a prepared base depends on, as the digest of its canonical JSON.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PreparedInputs(Digest);

/// The tag of a prepared base: `prepared-<32 hex digits>`.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PreparedTag(String);

/// Which nodes may make it: any, also by hand, or those of the control plane alone, whose pools take
/// none that another node made.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum BuilderNodes {
    Any,
    ControlPlane,
}

/// What makes it. An OpenShift Build makes none.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct BuiltBy {
    nodes: BuilderNodes,
    program: &'static str,
}

/// What [`PreparedInputs`] are made of. A field may be added only together with [`FORMAT`].
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Parts<'a> {
    prepared_format: u32,
    /// The manifest of the base.
    base: Digest,
    platform: &'a Platform,
    /// The image with packages, if any are installed.
    extensions_image: Option<Digest>,
    /// Sorted.
    extensions: &'a [String],
    packages: &'a [&'a str],
    kernel_type: &'a str,
    trust_bundle: Option<Digest>,
    /// What the config has below `/etc/pki/ca-trust/source`, by path. With the base, it decides what
    /// the image has there.
    trust_files: &'a BTreeMap<String, TrustEntry>,
    built_by: BuiltBy,
    /// The administrator's instructions that need nothing of the config.
    containerfile: Option<&'a str>,
    /// The arguments that these instructions declare.
    build_args: Option<&'a BTreeMap<String, String>>,
    /// What they copy or mount of the build context.
    #[serde(skip_serializing_if = "Option::is_none")]
    context: Option<BuildContext>,
}

/// The part of the build context that the instructions use, if they use any.
pub(super) fn context(
    request: &BuildRequest,
    own: Option<&OwnInstructions>,
) -> Option<BuildContext> {
    let uses = own.map(|own| &*own.context).filter(|uses| !uses.is_empty())?;
    request.context.as_ref().map(|context| context.part(uses))
}

impl PreparedInputs {
    pub(super) fn new(
        request: &BuildRequest,
        trust_files: &BTreeMap<String, TrustEntry>,
        own: Option<&OwnInstructions>,
        nodes: BuilderNodes,
    ) -> Self {
        Self(Digest::of(&Self::canonical(request, trust_files, own, nodes)))
    }

    pub(super) fn canonical(
        request: &BuildRequest,
        trust_files: &BTreeMap<String, TrustEntry>,
        own: Option<&OwnInstructions>,
        nodes: BuilderNodes,
    ) -> Vec<u8> {
        let extensions = sorted_extensions(request);
        canonical_json(&Parts {
            prepared_format: FORMAT,
            base: request.base.manifest_digest,
            platform: &request.base.config.platform,
            extensions_image: request.extensions_image.as_ref().map(|image| image.digest()),
            packages: &packages::packages(&extensions),
            extensions: &extensions,
            kernel_type: request.config.kernel_type.as_str(),
            trust_bundle: request.trust_bundle.as_ref().map(|bundle| Digest::of(bundle)),
            trust_files,
            built_by: BuiltBy { nodes, program: "buildah" },
            containerfile: own.map(|own| &*own.canonical),
            build_args: own.map(|own| &own.build_args),
            context: context(request, own),
        })
    }

    pub fn digest(&self) -> Digest {
        self.0
    }

    /// The label `mosb.dev/prepared-inputs`: 64 hex digits.
    pub fn hex(&self) -> String {
        self.0.hex()
    }

    /// The tag of the image.
    pub fn tag(&self) -> PreparedTag {
        PreparedTag(format!("{PREFIX}{}", &self.hex()[..HEX]))
    }
}

/// The extensions in one order, each once: in which order a config names them makes no other image.
pub(super) fn sorted_extensions(request: &BuildRequest) -> Vec<String> {
    let mut extensions = request.config.extensions.clone();
    extensions.sort();
    extensions.dedup();
    extensions
}

const PREFIX: &str = "prepared-";
const HEX: usize = 32;

/// A text that is no [`PreparedTag`].
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is not a tag of a prepared base: want prepared-<32 hex digits>")]
pub struct PreparedTagError(String);

impl FromStr for PreparedTag {
    type Err = PreparedTagError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let is_hex = |b: u8| b.is_ascii_digit() || (b'a'..=b'f').contains(&b);
        match text.strip_prefix(PREFIX) {
            Some(hex) if hex.len() == HEX && hex.bytes().all(is_hex) => Ok(Self(text.to_owned())),
            _ => Err(PreparedTagError(text.to_owned())),
        }
    }
}

impl fmt::Display for PreparedTag {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}
