//! Limits of a roll-out.

use schemars::JsonSchema;
use serde::Deserialize;

/// How images are brought to machines.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct RolloutLimits {
    /// How many machines may stage an image from one registry host at once, over all pools; 1 to 100.
    pub staging_per_registry: u16,
    /// After how many minutes a machine that reboots and is not back counts as lost; 5 to 1440.
    pub node_timeout_minutes: u16,
}

impl Default for RolloutLimits {
    fn default() -> Self {
        Self { staging_per_registry: 3, node_timeout_minutes: 30 }
    }
}
