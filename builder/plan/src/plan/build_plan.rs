//! All decisions about a build.

use std::collections::BTreeMap;

use bytes::Bytes;

use mosb_ignition as ignition;
use mosb_image::overlay::LayerEntry;
use mosb_image::{PinnedRef, RepoRef};
use mosb_types::Finding;

use super::base::Base;
use super::build_context::BuildContext;
use super::inputs::Inputs;
use super::method::{Method, MethodChoice};
use super::prepared::PreparedBase;
use mosb_api::{BuildName, BuildOn, RenderedConfig};

/// All decisions about a build, with their reasons.
#[derive(Debug, Clone)]
pub struct BuildPlan {
    pub request: BuildRequest,
    /// The config's Ignition part, read and checked; none if the config has none.
    pub ignition: Option<ignition::Config>,
    pub method: Method,
    /// What the layer is put on instead of the base, if the method is [`Method::Prepared`] or
    /// [`Method::LastPart`].
    pub prepared: Option<PreparedBase>,
    pub inputs: Inputs,
    /// Name of the build, and second tag.
    pub build_name: BuildName,
    /// The tags: the rendered name, then the build name.
    pub tags: [String; 2],
    pub labels: BTreeMap<String, String>,
    /// Name the base in the image's manifest; empty for a Docker manifest, which has no annotations.
    pub annotations: BTreeMap<String, String>,
    /// The entries of the config's layer, in order; empty for a build that runs everything at once.
    pub layer: Vec<LayerEntry>,
    /// The units to preset once Ignition has run, in the order of the config.
    pub preset_units: Vec<String>,
    /// The paths of the config that a Containerfile build looks for below `/var`, to bring them to
    /// machines; nothing for an image that brings none and removes none.
    pub var_paths: Option<Vec<String>>,
    /// The kernel arguments of the file that an image has for bootc, which may be none; nothing for an
    /// image without that file. A Containerfile build adds it to an image without rpm-ostree.
    pub kernel_arguments: Option<Vec<String>>,
    /// What mosb adds to the image beside what the config says.
    pub added: Vec<Finding>,
    /// The parts of the config that are not in the image, and the program that applies them.
    pub left_out: Vec<Finding>,
    /// Notices about the image.
    pub warnings: Vec<Finding>,
    /// How a node will use the image.
    pub notes: Vec<Finding>,
}

impl BuildPlan {
    /// Whether the image has what no update of an image does by itself on a machine: files below
    /// `/var`, the boot check.
    pub fn brings_to_machines(&self) -> bool {
        self.var_paths.is_some()
    }

    /// The image that the layer is put on.
    pub fn lower(&self) -> &Base {
        self.prepared.as_ref().map_or(&self.request.base, |prepared| &prepared.image)
    }
}

/// How far a request is resolved: the types that its inputs have by then.
pub trait Stage {
    type Config;
    type Containerfile;
    /// The directory that the Containerfile copies of.
    type Context;
    /// Certificates in PEM.
    type TrustBundle;
    type Base;
    type ExtensionsImage;
    /// None as long as it follows from a config that is not read.
    type BuildOn: Default;
}

/// Every file is read, and every image has a digest.
#[derive(Debug, Clone)]
pub struct Pinned;

impl Stage for Pinned {
    type Config = RenderedConfig;
    type Containerfile = String;
    type Context = BuildContext;
    type TrustBundle = Bytes;
    type Base = Base;
    type ExtensionsImage = PinnedRef;
    type BuildOn = BuildOn;
}

/// The inputs of a build.
#[derive(Debug, Clone)]
pub struct BuildRequest<S: Stage = Pinned> {
    pub config: S::Config,
    pub base: S::Base,
    /// Overrides the config's `spec.baseOSExtensionsContainerImage`; once pinned, only there if the
    /// config needs packages.
    pub extensions_image: Option<S::ExtensionsImage>,
    /// The administrator's own.
    pub containerfile: Option<S::Containerfile>,
    /// What the Containerfile copies of a directory; none in a cluster.
    pub context: Option<S::Context>,
    /// ARGs of the Containerfile.
    pub build_args: BTreeMap<String, String>,
    pub trust_bundle: Option<S::TrustBundle>,
    pub method: MethodChoice,
    /// Whether the base may itself be built from a rendered config.
    pub on_top: bool,
    /// Which configs get an image: with `every-config`, it brings files below `/var` to machines.
    pub build_on: S::BuildOn,
    /// The repository to push to; `None` for an OCI layout.
    pub push: Option<RepoRef>,
}

impl<S: Stage> BuildRequest<S> {
    /// A build of nothing but a config on a base, into an OCI layout.
    pub fn new(config: S::Config, base: S::Base) -> Self {
        Self {
            config,
            base,
            extensions_image: None,
            containerfile: None,
            context: None,
            build_args: BTreeMap::new(),
            trust_bundle: None,
            method: MethodChoice::Auto,
            on_top: false,
            build_on: S::BuildOn::default(),
            push: None,
        }
    }
}
