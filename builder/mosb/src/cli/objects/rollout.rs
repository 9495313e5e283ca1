//! The images of a pool, the nodes, and the roll-out.

use schemars::JsonSchema;
use serde::Serialize;

/// The builds and former images of pools.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct BuildList {
    /// Each image, by pool, newest first.
    pub builds: Vec<PoolBuild>,
}

/// A build, or an image that was in service.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PoolBuild {
    /// Name of the MachineOSBuild. A rebuild has the same name and another image.
    pub build: String,
    /// Its pool.
    pub pool: String,
    /// The rendered config.
    pub config: String,
    /// The base, pinned; none if the MachineOSBuild is deleted.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub base: Option<String>,
    /// `direct` or `containerfile`; none if the MachineOSBuild is deleted.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub method: Option<String>,
    /// The image, with its digest; none before the build succeeded.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub image: Option<String>,
    /// `Prepared`, `Building`, `Failed`, `Interrupted` or `Succeeded`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub state: Option<String>,
    /// When it was built, or came into service.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub time: Option<String>,
    /// How long ago that is, for people.
    #[serde(skip)]
    pub age: String,
    /// Whether it is the image in service.
    pub in_service: bool,
    /// Whether the pool is pinned to it.
    pub pinned: bool,
    /// The nodes that have staged it.
    pub staged_on: Vec<String>,
    /// The nodes that run it.
    pub running_on: Vec<String>,
}

/// Nodes, and which images they run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct NodeList {
    /// Each node, by name.
    pub nodes: Vec<NodeInfo>,
}

/// A node, and which images it runs.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct NodeInfo {
    /// Its name.
    pub node: String,
    /// Its pool; none if it has none, or several custom ones.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pool: Option<String>,
    /// The image that it booted.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub current: Option<String>,
    /// The image that it should boot.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub desired: Option<String>,
    /// The image that is staged on it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub staged: Option<String>,
    /// The image whose files it has although it booted another one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub live: Option<String>,
    /// `Working`, `Rebooting`, `Done`, `Degraded` or `Unreconcilable`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub state: Option<String>,
    /// Since when the roll-out may make it unavailable.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub since: Option<String>,
    /// How long ago that is, for people.
    #[serde(skip)]
    pub age: String,
    /// What it waits for, why it failed, or what its next reboot deletes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// Whether its condition `Ready` is true.
    pub ready: bool,
    /// Whether it is cordoned.
    pub unschedulable: bool,
}

/// How far the roll-out of a pool is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct RolloutStatus {
    /// The pool.
    pub pool: String,
    /// The MachineOSConfig of the pool.
    #[serde(rename = "machineOSConfig", skip_serializing_if = "Option::is_none")]
    pub machine_os_config: Option<String>,
    /// `none`, `stage` or `automatic`.
    pub mode: String,
    /// Whether the pool is paused.
    pub paused: bool,
    /// `updated`, `staged`, `off`, `progressing`, `paused`, `blocked` or `failed`.
    pub phase: String,
    /// One sentence.
    pub message: String,
    /// What the machines should run.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub target: Option<RolloutTarget>,
    /// How many machines there are.
    pub machines: RolloutMachines,
    /// Conditions of the pool.
    pub conditions: Vec<PoolCondition>,
    /// The machines that are not updated.
    pub behind: Vec<NodeInfo>,
}

/// What the machines of a pool should run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct RolloutTarget {
    /// `NAME@sha256:…`.
    pub build: String,
    /// The build in service, if the pool is pinned to another one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub newer: Option<String>,
    /// Whether the pool is pinned to it.
    pub pinned: bool,
    /// Whether it is rolled out once, whatever the mode is.
    pub once: bool,
}

/// Machines of a pool.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct RolloutMachines {
    /// All.
    pub all: usize,
    /// Those that run the target, or have its files.
    pub updated: usize,
    /// Those of them that are available.
    pub ready: usize,
    /// Those that have staged the target, and don't run it.
    pub staged: usize,
    /// Those that have the files of the target, and boot it the next time.
    pub live: usize,
    /// Those that are not available.
    pub unavailable: usize,
    /// Those that failed.
    pub degraded: usize,
}

/// A condition of a pool.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct PoolCondition {
    /// For example `Updated`.
    #[serde(rename = "type")]
    pub kind: String,
    /// `True`, `False` or `Unknown`.
    pub status: String,
    /// One word.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// A text for people.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
}

/// What a request about a roll-out changed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct RolloutRequest {
    /// The pool.
    pub pool: String,
    /// `start`, `pause`, `resume` or `undo`.
    pub action: String,
    /// Whether something was written.
    pub changed: bool,
    /// What the machines get, `NAME@sha256:…`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub build: Option<String>,
    /// Further sentences for the person.
    pub notes: Vec<String>,
}
