//! All decisions about a build.

use std::collections::BTreeMap;

use super::Base;
use super::build_request::BuildRequest;
use super::inputs::Inputs;
use super::method::Method;
use super::prepared::PreparedBase;
use crate::api::BuildName;
use mosb_ignition as ignition;
use mosb_image::overlay::LayerEntry;
use mosb_types::Finding;

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
    /// The image that the layer is put on.
    pub fn lower(&self) -> &Base {
        self.prepared.as_ref().map_or(&self.request.base, |prepared| &prepared.image)
    }
}
