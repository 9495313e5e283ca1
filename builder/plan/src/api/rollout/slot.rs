//! The marks of a roll-out on a Node: what is staged there, and whether it may reboot.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use serde::{Deserialize, Serialize};

use super::NodeTarget;

/// The right of a node to be unavailable (annotation `mosb.dev/slot`), from the choice of the node
/// until it runs the target and is Ready. A failed or lost node keeps it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Slot {
    pub target: NodeTarget,
    pub since: Time,
    /// From 1; raised if the machine rebooted without a try to boot the target.
    pub attempt: u32,
    /// The attempt with which the slot began: later than 1 if the machine tried the target before.
    #[serde(default = "one", skip_serializing_if = "is_one")]
    pub first_attempt: u32,
    /// The boot in which the slot was given.
    #[serde(rename = "bootID")]
    pub boot_id: String,
    /// Whether the roll-out cordoned the node, so that it also uncordons it.
    pub cordoned: bool,
}

fn one() -> u32 {
    1
}

fn is_one(attempt: &u32) -> bool {
    *attempt == 1
}

/// What is staged on a node (annotation `mosb.dev/staged`), written by the controller.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct StagedMark {
    pub target: NodeTarget,
    /// The boot in which it was staged: a reboot applies it, a power cut loses it.
    #[serde(rename = "bootID")]
    pub boot_id: String,
}
