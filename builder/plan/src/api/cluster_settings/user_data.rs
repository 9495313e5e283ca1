//! What the user data of new machines contains beside their image.

use schemars::JsonSchema;
use serde::Deserialize;

/// What new machines of pools are given.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct UserDataSettings {
    /// Name of the Secret with the Ignition config that joins a machine to the cluster: its key `ignition.POOL`, or
    /// `ignition` for pools without a key of their own. Without it, new machines boot and do not join.
    pub join_secret: Option<String>,
}
