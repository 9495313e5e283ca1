//! The `/etc` of machines: what they hide of their images, and what they could adopt.

use schemars::JsonSchema;
use serde::Serialize;

use mosb_plan::api::rollout;

/// The `/etc` of a machine beside that of its image, and beside what its first config wrote.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct NodeEtc {
    /// Paths of the booted image that the machine hides.
    pub hidden: PathList,
    /// Paths that are still as the config left them, and are not the image's; absent if the machine
    /// has no record of its config.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub adoptable: Option<PathList>,
    /// Paths of the config that were changed since.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub kept: Option<PathList>,
    /// Whether the next image brings those that can be adopted.
    pub adopted: bool,
}

/// How many paths there are, and the first of them.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PathList {
    pub count: usize,
    /// At most 16; `mosb node drift` and `mosb node adopt` on the machine list all.
    pub paths: Vec<String>,
}

/// The `/etc` of the machines of a pool.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PoolDrift {
    pub pool: String,
    /// Whether machines adopt what their first config wrote.
    pub adopts: bool,
    /// Each node, by name.
    pub nodes: Vec<NodeEtcOf>,
}

/// The `/etc` of one machine.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct NodeEtcOf {
    pub node: String,
    /// As of the last report of this boot; absent if there is none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub etc: Option<NodeEtc>,
}

impl From<&rollout::EtcReport> for NodeEtc {
    fn from(report: &rollout::EtcReport) -> Self {
        let list =
            |list: &rollout::PathList| PathList { count: list.count, paths: list.paths.clone() };
        Self {
            hidden: list(&report.hidden),
            adoptable: report.adoptable.as_ref().map(list),
            kept: report.kept.as_ref().map(list),
            adopted: report.adopted,
        }
    }
}
