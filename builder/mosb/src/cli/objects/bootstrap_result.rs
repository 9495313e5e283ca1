//! What an installation was given.

use schemars::JsonSchema;
use serde::Serialize;

use mosb_types::Finding;

/// The files for a new cluster whose machines run images that exist already.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct BootstrapResult {
    /// `openshift` or `kubernetes`.
    #[serde(rename = "for")]
    pub cluster: String,
    /// The directory.
    pub output: String,
    /// The pools whose first image exists already, by name.
    pub pools: Vec<SeededPool>,
    /// All files, below `output`.
    pub files: Vec<String>,
    /// Notices for the administrator.
    pub notices: Vec<Finding>,
}

/// A pool whose first image exists already.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SeededPool {
    /// Its name, and that of its MachineOSConfig.
    pub pool: String,
    /// `repo@digest`.
    pub image: String,
    /// The rendered config that the image names; none if the cluster renders.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rendered_config: Option<String>,
    /// The file with the Ignition config of new machines; none if the cluster serves them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ignition: Option<String>,
    /// Whether that file contains credentials.
    pub holds_credentials: bool,
}
