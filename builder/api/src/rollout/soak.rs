//! What is recorded of a target after machines booted it: on the Node while it soaks, on the MachineOSConfig
//! if it failed, in the report of a machine that left it by itself.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::NodeTarget;
use crate::{Metadata, labels};
use mosb_image::Digest;

/// How the checks of a node go that runs its target, until that is confirmed (annotation
/// `mosb.dev/soak`), written by the controller.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Soak {
    pub target: NodeTarget,
    /// The boot in which they held or failed: another boot begins anew.
    #[serde(rename = "bootID")]
    pub boot_id: String,
    pub phase: SoakPhase,
}

/// How the checks go.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub enum SoakPhase {
    /// All hold.
    Holding {
        since: Time,
        /// When the soak time is over. The policy may change meanwhile; then that decides.
        until: Time,
    },
    /// One does not hold, which may pass.
    Failing { since: Time, message: String },
    /// One did not hold for too long. The node does not get the target again.
    Failed {
        at: Time,
        message: String,
        /// What it is brought back to; none if that is not known.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        back_to: Option<NodeTarget>,
    },
}

impl Soak {
    /// The record of a Node. One that can't be read counts as none.
    pub fn of(node: &Metadata) -> Option<Self> {
        serde_json::from_str(node.annotation(labels::NODE_SOAK)?).ok()
    }
}

/// A target that failed on as many machines of a pool as its policy permits (annotation
/// `mosb.dev/failed-target` of its MachineOSConfig), written by the controller. No machine gets it until a
/// person asks for that.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct FailedTarget {
    pub target: NodeTarget,
    pub at: Time,
    /// The machines, and how it failed on each.
    pub message: String,
}

impl FailedTarget {
    /// The record of a MachineOSConfig. One that can't be read counts as none.
    pub fn of(config: &Metadata) -> Option<Self> {
        serde_json::from_str(config.annotation(labels::FAILED_TARGET)?).ok()
    }
}

/// An image that a machine booted, and left for its earlier one by itself.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "NodeWentBack")]
pub struct WentBack {
    /// Digest of its manifest.
    #[schemars(with = "String")]
    pub image: Digest,
    /// For people; what the machine recorded.
    pub cause: String,
}

impl WentBack {
    /// The most characters of a cause: a report has little space.
    pub(super) const CAUSE: usize = 500;

    pub fn new(image: Digest, cause: &str) -> Self {
        let cause = cause.chars().map(|one| if one.is_control() { ' ' } else { one });
        Self { image, cause: cause.take(Self::CAUSE).collect() }
    }
}
