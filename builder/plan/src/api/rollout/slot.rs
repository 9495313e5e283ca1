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
    /// Whether the roll-out keeps the cluster autoscaler from removing the node, so that it also ends
    /// that: a drained machine is empty.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub disables_scale_down: bool,
    /// Whether the node reboots with its pods on it. Decided when the slot is given: a drain that
    /// has begun is not skipped later.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub without_drain: bool,
    /// Written before the `apply` Job is created: from then on the node may reboot, although the
    /// Job is not seen.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub applying: Option<Applying>,
    /// How the last `apply` Job ended without the target. It counts until the node gets another
    /// target or boots this one, whether its Job still exists or not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failure: Option<SlotFailure>,
}

/// An `apply` Job that is being created or was created.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Applying {
    pub attempt: u32,
    pub since: Time,
}

/// The end of an `apply` Job that did not boot the target.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct SlotFailure {
    /// UID of the Job.
    pub job: String,
    pub at: Time,
    /// Jobs that failed so far, in this slot and for this target.
    pub tries: u32,
    /// Another try would end the same.
    #[serde(rename = "final", default, skip_serializing_if = "std::ops::Not::not")]
    pub is_final: bool,
    pub message: String,
}

fn one() -> u32 {
    1
}

fn is_one(attempt: &u32) -> bool {
    *attempt == 1
}

/// A target that a node booted, and after which it booted another image (annotation
/// `mosb.dev/fallback`), written by the controller. It counts until the node gets another target.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Fallback {
    pub target: NodeTarget,
    /// When it was seen last.
    pub at: Time,
    /// How often it was seen.
    pub times: u32,
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slot_of_an_earlier_version_is_read_and_written_as_it_was() {
        let image = format!("reg.example/os@sha256:{}", "0".repeat(64));
        let text = format!(
            r#"{{"target":{{"image":"{image}"}},"since":"2026-01-01T00:00:00Z","attempt":2,"bootID":"b","cordoned":true}}"#
        );
        let slot: Slot = serde_json::from_str(&text).unwrap();
        assert!(!slot.without_drain && slot.applying.is_none() && slot.failure.is_none());
        assert_eq!(serde_json::to_string(&slot).unwrap(), text);
    }
}
