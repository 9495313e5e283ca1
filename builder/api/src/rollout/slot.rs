//! The marks of a roll-out on a Node: what is staged there, and whether it may reboot.

use std::fmt;
use std::str::FromStr;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

use mosb_image::Digest;

use super::NodeTarget;
use crate::AnnotationError;
use crate::{Metadata, is_object_name};

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
    /// When it was seen.
    pub at: Time,
    /// The reason that the machine recorded, if it went back by itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cause: Option<String>,
}

/// A target that a node ran well for the soak time of its pool (annotation `mosb.dev/confirmed`), written
/// by the controller alone. Without a soak time it is written once the node runs the target and is Ready. It
/// stays until the node has run another target as long.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ConfirmedTarget {
    pub target: NodeTarget,
    pub at: Time,
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

/// The name that stands for the stock image instead of a build.
pub const STOCK: &str = "stock";

/// A build of a pool, or [`STOCK`], with the digest of its image. A rebuild makes a build of the
/// same name with another digest, so the name alone identifies no image.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PinnedBuild {
    pub name: String,
    pub digest: Digest,
}

impl PinnedBuild {
    /// The value of an annotation of a MachineOSConfig.
    ///
    /// # Errors
    /// It is not `NAME@sha256:…`.
    pub fn in_annotation(
        config: &Metadata,
        annotation: &'static str,
    ) -> Result<Option<Self>, AnnotationError> {
        let Some(value) = config.annotation(annotation) else {
            return Ok(None);
        };
        value.parse().map(Some).map_err(|cause: &str| {
            AnnotationError::new(
                annotation,
                value,
                cause,
                "set NAME@sha256:…, as `mosb builds` lists it, or remove the annotation",
            )
        })
    }

    pub fn is_stock(&self) -> bool {
        self.name == STOCK
    }
}

impl FromStr for PinnedBuild {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let (name, digest) = text.split_once('@').ok_or("there is no digest")?;
        if !is_object_name(name) {
            return Err("not the name of a MachineOSBuild");
        }
        let digest = digest.parse().map_err(|_| "the digest is not sha256: and 64 hex digits")?;
        Ok(Self { name: name.to_owned(), digest })
    }
}

impl Serialize for PinnedBuild {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for PinnedBuild {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(de::Error::custom)
    }
}

impl fmt::Display for PinnedBuild {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}@{}", self.name, self.digest)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slot_of_earlier_version_round_trips() {
        let image = format!("reg.example/os@sha256:{}", "0".repeat(64));
        let text = format!(
            r#"{{"target":{{"image":"{image}"}},"since":"2026-01-01T00:00:00Z","attempt":2,"bootID":"b","cordoned":true}}"#
        );
        let slot: Slot = serde_json::from_str(&text).unwrap();
        assert!(!slot.without_drain && slot.applying.is_none() && slot.failure.is_none());
        assert_eq!(serde_json::to_string(&slot).unwrap(), text);
    }

    #[test]
    fn a_pin_has_a_name_and_a_digest() {
        let digest = Digest::of(b"image");
        let text = format!("worker-0@{digest}");
        let pin: PinnedBuild = text.parse().unwrap();
        assert_eq!((pin.to_string(), pin.is_stock()), (text, false));
        assert!(format!("stock@{digest}").parse::<PinnedBuild>().unwrap().is_stock());
        for wrong in ["worker-0", "@sha256:00", "worker-0@sha256:00", "Worker@sha256:00"] {
            assert!(wrong.parse::<PinnedBuild>().is_err(), "{wrong}");
        }
    }
}
