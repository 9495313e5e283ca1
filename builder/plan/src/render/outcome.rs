//! What rendering comes to.

use serde_json::Value;

use super::explain::Explanation;
use crate::api::RenderedConfig;
use mosb_ignition::snapshot::Reference;
use mosb_types::Finding;

/// A rendered config, or the references that it needs.
#[derive(Debug)]
pub enum Outcome {
    /// It is done.
    Rendered(Box<Rendered>),
    /// These must be fetched first. The place of each names its MachineConfig.
    Needs(Vec<Reference>),
}

/// A rendered config.
#[derive(Debug)]
pub struct Rendered {
    /// Checked, as a build takes it.
    pub config: RenderedConfig,
    /// The whole object, to be printed or created.
    pub object: Value,
    /// What an administrator may want to look at.
    pub warnings: Vec<Finding>,
    /// Where everything comes from, if [`super::Request::explain`] asked for it.
    pub explanation: Option<Explanation>,
}
