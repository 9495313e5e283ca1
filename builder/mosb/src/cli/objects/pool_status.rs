//! The state of a cluster's pools.

use schemars::JsonSchema;
use serde::Serialize;

/// The pools of a cluster, and why each is or isn't building.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ClusterStatus {
    /// mosb's namespace.
    pub namespace: String,
    /// Each pool, by name.
    pub pools: Vec<PoolStatus>,
}

/// A pool, and why it is or isn't building.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PoolStatus {
    /// The pool.
    pub pool: String,
    /// The rendered config that its machines should have.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rendered_config: Option<String>,
    /// The MachineOSConfig of the pool.
    #[serde(rename = "machineOSConfig", skip_serializing_if = "Option::is_none")]
    pub machine_os_config: Option<String>,
    /// The image in service.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub image: Option<String>,
    /// Why it is or isn't building.
    pub reason: ReasonInfo,
    /// The current build.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub build: Option<BuildInfo>,
}

/// Why a pool is or isn't building.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct ReasonInfo {
    /// One of a fixed, documented set of words.
    pub code: String,
    /// One sentence.
    pub message: String,
}

/// A build.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct BuildInfo {
    /// Its name.
    pub name: String,
    /// `Prepared`, `Building`, `Failed`, `Interrupted` or `Succeeded`; none if nothing was done yet.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub state: Option<String>,
    /// When it began.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub start: Option<String>,
    /// When it ended.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub end: Option<String>,
    /// When the prepared base was made that it is built on.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub prepared_at: Option<String>,
}

/// A requested rebuild.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct RebuildRequest {
    /// The pool.
    pub pool: String,
    /// The MachineOSConfig that was annotated.
    #[serde(rename = "machineOSConfig")]
    pub machine_os_config: String,
}
