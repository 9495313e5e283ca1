//! The input of a decision about the user data of a pool's new machines.

use std::collections::BTreeMap;

use super::content::MachineInputs;
use super::join_tokens::ClusterInfo;
use mosb_cluster::secret_ref::SecretRef;
use mosb_cluster::user_data_secret::FoundSecret;
use mosb_cluster::versions::Versions;
use mosb_plan::api::cluster_settings::Endpoint;
use mosb_plan::api::{MachineOsBuild, MachineOsConfig};
use mosb_reconcile::Problem;

/// Everything observed for a MachineOSConfig.
#[derive(Debug, Clone)]
pub struct UserDataSnapshot {
    pub config: MachineOsConfig,
    pub builds: Vec<MachineOsBuild>,
    /// mosb's namespace.
    pub namespace: String,
    /// Where machines fetch their config; without it, user data has the whole config. Else why the
    /// settings can't be read.
    pub endpoint: Result<Option<Endpoint>, String>,
    /// Other MachineOSConfigs of the same pool, by name.
    pub rivals: Vec<String>,
    /// Other MachineOSConfigs that name the same Secret, by name.
    pub sharing: Vec<String>,
    /// A controller that gives machines their images.
    pub other_controller: Option<String>,
    /// resourceVersions of what the config is made of.
    pub versions: Versions,
    /// A pass found the Secret as it should be, not long ago, with the same inputs.
    pub is_current: bool,
    pub lookup_results: UserDataLookupResults,
}

/// Results of the lookups of this pass.
#[derive(Debug, Clone, Default)]
pub struct UserDataLookupResults {
    pub secrets: BTreeMap<SecretRef, FoundSecret>,
    /// What the config is made of, or why it can't be read.
    pub inputs: Option<Result<MachineInputs, Problem>>,
    pub cluster_info: Option<ClusterInfo>,
}
