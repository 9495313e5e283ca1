//! What an installation was given.

use schemars::JsonSchema;
use serde::Serialize;

use mosb_types::Finding;

/// What an installation was given, so that its machines run images that exist already.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct BootstrapResult {
    /// `openshift` or `kubernetes`.
    #[serde(rename = "for")]
    pub cluster: String,
    /// The directory.
    pub output: String,
    /// The pools with an image to begin with, by name.
    pub pools: Vec<SeededPool>,
    /// All files, below `output`.
    pub files: Vec<String>,
    /// What an administrator may want to know.
    pub notices: Vec<Finding>,
}

/// A pool with an image to begin with.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SeededPool {
    /// Its name, and that of its MachineOSConfig.
    pub pool: String,
    /// `repo@digest`.
    pub image: String,
    /// The rendered config that it names; none where the cluster renders.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rendered_config: Option<String>,
    /// The file with the Ignition config of its new machines; none where the cluster serves them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ignition: Option<String>,
    /// Whether logins are in that file.
    pub holds_credentials: bool,
}
