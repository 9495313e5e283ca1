//! Where everything in a rendered config comes from.

use schemars::JsonSchema;
use serde::Serialize;

use mosb_plan::render::Explanation;
use mosb_types::Finding;

/// Where everything in a rendered config comes from.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct RenderExplanation {
    /// Name of the rendered MachineConfig.
    pub rendered_config: String,
    /// Its pool.
    pub pool: String,
    /// The MachineConfigs, and the fields.
    #[serde(flatten)]
    pub explanation: Explanation,
    /// With `--previous`: the changes that nodes can't apply without a reinstallation.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub unreconcilable: Option<Vec<Finding>>,
    /// Warnings for the administrator.
    pub warnings: Vec<Finding>,
}
