//! What a machine runs.

use schemars::JsonSchema;
use serde::Serialize;

use super::NodeEtc;
use mosb_plan::api::rollout;

/// What a machine runs, has staged and may go back to.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct NodeReport {
    /// The boot that this was observed in.
    #[serde(rename = "bootID")]
    pub boot_id: String,
    /// `bootc` or `rpm-ostree`; absent if the machine has neither.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tool: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub booted: Option<NodeDeployment>,
    /// What the next reboot applies.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub staged: Option<NodeDeployment>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rollback: Option<NodeDeployment>,
    /// Whether the next reboot boots `rollback`; absent if not.
    #[serde(skip_serializing_if = "std::ops::Not::not", default)]
    pub rollback_queued: bool,
    /// The last target that was applied.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub applied: Option<AppliedTarget>,
    /// Whether it may have some files only of an image that it did not boot; absent if not.
    #[serde(skip_serializing_if = "std::ops::Not::not", default)]
    pub live_incomplete: bool,
    /// Whether `/boot` has not enough space for the kernel of what is staged, beside those that are there;
    /// absent if not.
    #[serde(skip_serializing_if = "std::ops::Not::not", default)]
    pub boot_full: bool,
    /// The last target that the machine rebooted for and does not run.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub attempted: Option<AttemptedTarget>,
    /// Its `/etc`; absent if it could not be read.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub etc: Option<NodeEtc>,
    /// Why the command failed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<NodeError>,
}

/// A target that a machine rebooted for.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct AttemptedTarget {
    pub target: AppliedTarget,
    /// From 1.
    pub attempt: u32,
}

/// A deployment of a machine.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct NodeDeployment {
    /// The image, or the ref of a deployment that is not an image.
    pub image: String,
    /// Digest of the image's manifest.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub digest: Option<String>,
}

/// A target of a roll-out.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct AppliedTarget {
    /// By digest.
    pub image: String,
    /// The rendered config; absent for a stock image.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub config: Option<String>,
    /// Digest of what the machine needs beside the image.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub machine_part: Option<String>,
    /// Digest of the image that the machine may run while it gets this one without a reboot.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub live_from: Option<String>,
}

/// Why a command on a machine failed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct NodeError {
    /// For scripts.
    pub code: String,
    /// For people.
    pub message: String,
}

impl From<&rollout::NodeTarget> for AppliedTarget {
    fn from(target: &rollout::NodeTarget) -> Self {
        Self {
            image: target.image.to_string(),
            config: target.config.as_ref().map(ToString::to_string),
            machine_part: target.machine_part.map(|digest| digest.to_string()),
            live_from: target.live_from.map(|digest| digest.to_string()),
        }
    }
}

impl From<&rollout::NodeReport> for NodeReport {
    fn from(report: &rollout::NodeReport) -> Self {
        let deployment = |one: &Option<rollout::Deployment>| {
            one.as_ref().map(|one| NodeDeployment {
                image: one.image.clone(),
                digest: one.digest.map(|digest| digest.to_string()),
            })
        };
        Self {
            boot_id: report.boot_id.clone(),
            tool: report.tool.map(|tool| tool.to_string()),
            booted: deployment(&report.booted),
            staged: deployment(&report.staged),
            rollback: deployment(&report.rollback),
            rollback_queued: report.rollback_queued,
            applied: report.applied.as_ref().map(AppliedTarget::from),
            live_incomplete: report.live_incomplete,
            boot_full: report.boot_full,
            attempted: report.attempted.as_ref().map(|last| AttemptedTarget {
                target: AppliedTarget::from(&last.target),
                attempt: last.attempt,
            }),
            etc: report.etc.as_ref().map(NodeEtc::from),
            error: report.error.as_ref().map(|error| NodeError {
                code: error.code.clone(),
                message: error.message.clone(),
            }),
        }
    }
}
