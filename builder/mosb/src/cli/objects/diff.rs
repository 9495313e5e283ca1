//! What changes from one side to the other.

use schemars::JsonSchema;
use serde::Serialize;

use mosb_plan::plan::diff;

/// What changes from one config or image to another.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Diff {
    /// Before.
    pub from: Side,
    /// After.
    pub to: Side,
    /// Whether nothing changes.
    pub same: bool,
    /// All changes.
    #[serde(flatten)]
    pub changes: diff::Diff,
}

/// One side.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Side {
    /// The operand: a file, `stdin`, or an image with its digest.
    pub operand: String,
    /// Name of its rendered MachineConfig.
    pub rendered_config: String,
}
