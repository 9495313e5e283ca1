//! The files of an image that a machine hides.

use schemars::JsonSchema;
use serde::Serialize;

/// The files of the booted image that a machine hides: no later image can change them.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct NodeDrift {
    /// Sorted by path.
    pub paths: Vec<HiddenPath>,
    /// How many more there are than are listed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub omitted: Option<usize>,
}

/// A file, directory or link of the image that the machine has otherwise.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct HiddenPath {
    /// Below `/etc`.
    pub path: String,
    pub differences: Vec<PathDifference>,
}

/// How an entry of the machine differs from that of the image.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum PathDifference {
    /// The machine has no such entry.
    Removed,
    /// One is a file, and the other a directory or a link, for example.
    Type,
    Content,
    /// The target of a link.
    Target,
    Mode,
    /// The user or the group.
    Owner,
}

#[cfg(feature = "cluster")]
impl From<&mosb_node::Drift> for NodeDrift {
    fn from(drift: &mosb_node::Drift) -> Self {
        let paths = drift.paths.iter().map(|hidden| HiddenPath {
            path: hidden.path.clone(),
            differences: hidden.differences.iter().map(|one| PathDifference::from(*one)).collect(),
        });
        Self { paths: paths.collect(), omitted: Some(drift.omitted).filter(|&number| number > 0) }
    }
}

#[cfg(feature = "cluster")]
impl From<mosb_node::Difference> for PathDifference {
    fn from(difference: mosb_node::Difference) -> Self {
        match difference {
            mosb_node::Difference::Removed => Self::Removed,
            mosb_node::Difference::Type => Self::Type,
            mosb_node::Difference::Content => Self::Content,
            mosb_node::Difference::Target => Self::Target,
            mosb_node::Difference::Mode => Self::Mode,
            mosb_node::Difference::Owner => Self::Owner,
        }
    }
}
