//! What to build, before any image is resolved.

use std::collections::BTreeMap;

use bytes::Bytes;

use mosb_image::{ImageRef, Platform, RepoRef};
use mosb_plan::api::RenderedConfig;
use mosb_plan::plan::{BaseName, MethodChoice};
use mosb_registry::Source;

/// The inputs of a build; no image is resolved yet.
#[derive(Debug, Clone)]
pub struct BuildRequest {
    pub config: RenderedConfig,
    /// Default: the config's `spec.osImageURL`.
    pub base: Option<Source>,
    /// How labels name the base. Default: derived from where the base comes from.
    pub base_name: Option<BaseName>,
    /// The extensions image; without, the config's `spec.baseOSExtensionsContainerImage`. Asked for only where packages are request.
    pub extensions_image: Option<ImageRef>,
    /// The administrator's Containerfile. One without an instruction is ignored.
    pub containerfile: Option<String>,
    /// ARGs of the Containerfile.
    pub build_args: BTreeMap<String, String>,
    /// Certificates in PEM.
    pub trust_bundle: Option<Bytes>,
    /// Which image of an index.
    pub platform: Option<Platform>,
    pub method: MethodChoice,
    /// Whether the base may itself be built from a rendered config.
    pub on_top: bool,
    /// The repository to push to; `None` for an OCI layout.
    pub push: Option<RepoRef>,
}
