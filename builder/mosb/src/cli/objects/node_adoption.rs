//! What a machine's first config wrote, and what becomes of it.

use mosb_types::Finding;
use schemars::JsonSchema;
use serde::Serialize;

use super::PathDifference;

/// Files that stop being changes of a machine, and those that stay.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct NodeAdoption {
    /// The name of the config that the machine was made from; of an Ignition config, its file.
    pub config: String,
    /// The file that the config was read from.
    pub source: String,
    pub dry_run: bool,
    /// Paths that the next image brings, sorted.
    pub adopted: Vec<String>,
    /// Paths that stay, because they are not as the config wrote them; sorted.
    pub kept: Vec<KeptPath>,
    /// How many more there are than are listed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub omitted: Option<usize>,
    /// What can't be decided, and stays.
    pub undecided: Vec<Finding>,
}

/// A path of the config that is otherwise on the machine.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct KeptPath {
    /// Below `/etc`.
    pub path: String,
    /// How the machine differs from the config.
    pub differences: Vec<PathDifference>,
}

#[cfg(feature = "cluster")]
impl NodeAdoption {
    /// The report of an adoption.
    pub fn new(adoption: &mosb_node::Adoption, dry_run: bool) -> Self {
        let kept = adoption.kept.iter().map(|kept| KeptPath {
            path: kept.path.clone(),
            differences: kept.differences.iter().map(|one| PathDifference::from(*one)).collect(),
        });
        Self {
            config: adoption.config.clone(),
            source: adoption.source.clone(),
            dry_run,
            adopted: adoption.adopted.clone(),
            kept: kept.collect(),
            omitted: Some(adoption.omitted).filter(|&number| number > 0),
            undecided: adoption.undecided.clone(),
        }
    }
}
