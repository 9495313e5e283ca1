//! The plan itself.

use std::collections::BTreeMap;

use super::inputs::Inputs;
use super::method::Method;
use super::request::Request;
use crate::api::BuildName;
use crate::ignition;
use crate::image::overlay::LayerEntry;
use crate::report::Finding;

/// Everything that will be done, and why.
#[derive(Debug, Clone)]
pub struct BuildPlan {
    /// What was asked for.
    pub request: Request,
    /// The config's Ignition part, read and checked.
    pub ignition: ignition::Config,
    /// How it is built.
    pub method: Method,
    /// What the image depends on.
    pub inputs: Inputs,
    /// Name of the build, and second tag.
    pub build_name: BuildName,
    /// The tags: the rendered name, then the build name.
    pub tags: [String; 2],
    /// The labels that the image gets.
    pub labels: BTreeMap<String, String>,
    /// What the direct build writes, in the order of the layer; empty for a Containerfile.
    pub layer: Vec<LayerEntry>,
    /// The units to preset once Ignition has run, in the order of the config.
    pub preset_units: Vec<String>,
    /// What of the config does not go into the image, and who does it.
    pub left_out: Vec<Finding>,
    /// What the reader should know before using the image.
    pub warnings: Vec<Finding>,
    /// What a node will make of it.
    pub notes: Vec<Finding>,
}
