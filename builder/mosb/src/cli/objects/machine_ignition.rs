//! The Ignition config of a pool's new machines.

use std::fmt;

use schemars::JsonSchema;
use serde::Serialize;
use serde_json::Value;

use mosb_types::Finding;

/// The Ignition config of a pool's new machines.
#[derive(Clone, PartialEq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct MachineIgnition {
    /// The pool.
    pub pool: String,
    /// Its MachineOSConfig.
    #[serde(rename = "machineOSConfig")]
    pub machine_os_config: String,
    /// The build whose image machines boot.
    pub build: String,
    /// That image, with its digest.
    pub image: String,
    /// The rendered config that it was built of.
    pub rendered_config: String,
    /// Whether it contains what joins a machine to the cluster.
    pub joins: bool,
    /// Whether it contains credentials of registries.
    pub holds_credentials: bool,
    /// The config, in the oldest spec that has all of it.
    pub config: Value,
    /// Notices for the administrator.
    pub notices: Vec<Finding>,
}

/// The config contains credentials.
impl fmt::Debug for MachineIgnition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MachineIgnition").field("pool", &self.pool).finish_non_exhaustive()
    }
}
