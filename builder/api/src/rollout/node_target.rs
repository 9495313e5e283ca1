//! What a machine should run.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::RenderedName;
use mosb_image::{Digest, PinnedRef};
use mosb_types::canonical_json;

/// What a machine should run. Every mark, record and file of a roll-out has the whole target, so
/// that two targets with one image are not taken for each other. What a later version adds is ignored:
/// after a downgrade, the record of a machine must still show what it rebooted for.
#[derive(
    Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "AppliedTarget", description = "A target of a roll-out.")]
pub struct NodeTarget {
    #[schemars(with = "String", description = "By digest.")]
    pub image: PinnedRef,
    /// The rendered config that the image was built of; none for the stock image.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    #[schemars(
        with = "Option<String>",
        description = "The rendered config; absent for a stock image."
    )]
    pub config: Option<RenderedName>,
    /// Digest of what the machine needs beside the image. With none, as for the stock image, all of
    /// that stays as it is.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    #[schemars(
        with = "Option<String>",
        description = "Digest of what the machine needs beside the image."
    )]
    pub machine_part: Option<Digest>,
    /// Digest of an image that differs from this one only in files that are written on the running
    /// machine. In a Job that reboots nothing, it is the one that the machine runs; otherwise the first
    /// of several such images.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    #[schemars(
        with = "Option<String>",
        description = "Digest of the image that the machine may run while it gets this one without a reboot."
    )]
    pub live_from: Option<Digest>,
    /// Whether the machine takes the image only with a signature that its own policy requires. Where
    /// the machine runs the image already, nothing is pulled, so nothing is verified.
    #[serde(skip_serializing_if = "std::ops::Not::not", default)]
    #[schemars(
        description = "Whether the image is pulled only with a signature that the machine's policy requires."
    )]
    pub verify: bool,
}

/// Hex digits of [`NodeTarget::id`]: names of Jobs have little more space.
const ID: usize = 12;

impl NodeTarget {
    /// The canonical JSON: one text for one target.
    pub fn to_json(&self) -> String {
        String::from_utf8(canonical_json(self)).expect("JSON is UTF-8")
    }

    /// Whether a machine with this machine part has that of the target.
    pub fn accepts_part(&self, part: Option<Digest>) -> bool {
        self.machine_part.is_none() || self.machine_part == part
    }

    /// Whether a machine that has one of the two has the other one: from which image it comes live, and
    /// how it is pulled, does not count.
    pub fn is_same_to_machines(&self, other: &Self) -> bool {
        (&self.image, &self.config, self.machine_part)
            == (&other.image, &other.config, other.machine_part)
    }

    /// 12 hex digits that identify the target in names of objects.
    pub fn id(&self) -> String {
        Digest::of(&canonical_json(self)).hex()[..ID].to_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_target_without_a_machine_part_accepts_each() {
        let part = |text: &str| Some(Digest::of(text.as_bytes()));
        let image = format!("reg.example/os@{}", Digest::of(b"a")).parse().unwrap();
        let mut target =
            NodeTarget { image, config: None, machine_part: None, live_from: None, verify: false };
        let accepted = |target: &NodeTarget| {
            [None, part("a"), part("b")].map(|found| target.accepts_part(found))
        };
        assert_eq!(accepted(&target), [true, true, true]);
        target.machine_part = part("a");
        assert_eq!(accepted(&target), [false, true, false]);
    }

    #[test]
    fn each_field_changes_id_and_json_round_trips() {
        let image = |byte: &str| format!("reg.example/os@{}", Digest::of(byte.as_bytes()));
        let target = |json: String| serde_json::from_str::<NodeTarget>(&json).unwrap();
        let config = format!("rendered-worker-{}", "0".repeat(32));
        let targets = [
            target(format!(r#"{{"image":"{}"}}"#, image("a"))),
            target(format!(r#"{{"image":"{}"}}"#, image("b"))),
            target(format!(r#"{{"image":"{}","config":"{config}"}}"#, image("a"))),
            target(format!(
                r#"{{"image":"{}","machinePart":"{}"}}"#,
                image("a"),
                Digest::of(b"part")
            )),
            target(format!(r#"{{"image":"{}","liveFrom":"{}"}}"#, image("a"), Digest::of(b"b"))),
            target(format!(r#"{{"image":"{}","verify":true}}"#, image("a"))),
        ];
        let ids: std::collections::BTreeSet<String> = targets.iter().map(NodeTarget::id).collect();
        assert_eq!(ids.len(), targets.len());
        for one in targets {
            assert_eq!(one.id().len(), ID);
            assert_eq!(serde_json::from_str::<NodeTarget>(&one.to_json()).unwrap(), one);
        }
        let with_tag = r#"{"image":"reg.example/os:latest"}"#;
        assert!(serde_json::from_str::<NodeTarget>(with_tag).is_err());
    }

    /// Nodes, Jobs and records of machines have ids and JSON of targets, so a release that adds a
    /// field changes neither for targets without it.
    #[test]
    fn older_targets_keep_their_json_and_id() {
        let image: PinnedRef = format!("reg.example/os@sha256:{}", "a".repeat(64)).parse().unwrap();
        let config = format!("rendered-worker-{}", "0".repeat(32)).parse().unwrap();
        let target = NodeTarget {
            image,
            config: Some(config),
            machine_part: Some(Digest::of(b"part")),
            live_from: None,
            verify: false,
        };
        let json = format!(
            r#"{{"config":"rendered-worker-{}","image":"reg.example/os@sha256:{}","machinePart":"{}"}}"#,
            "0".repeat(32),
            "a".repeat(64),
            Digest::of(b"part"),
        );
        assert_eq!(target.to_json(), json);
        assert_eq!(target.id(), "7692f8061ddf");
    }
}
