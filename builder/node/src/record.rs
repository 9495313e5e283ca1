//! The machine's record of the last target that it rebooted for. It is written before a reboot and
//! survives it, so that an attempt reboots the machine once.

use mosb_image::Digest;
use mosb_plan::api::rollout::NodeTarget;
use serde::{Deserialize, Serialize};

use crate::error::Error;
use crate::host_root::HostRoot;
use crate::machine_state::MachineState;

/// In the machine's own state, which no image replaces.
const FILE: &str = "/var/lib/mosb/rollout.json";
/// The most bytes that are read.
const LIMIT: u64 = 16 * 1024;

/// What the machine rebooted for, or runs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Record {
    pub target: NodeTarget,
    pub attempt: u32,
    /// The boot in which the record was written.
    #[serde(rename = "bootID")]
    pub boot_id: String,
    pub phase: Phase,
    /// Whether a finalized deployment had the image before the reboot already. If not, one that has
    /// it after the reboot was finalized by it.
    pub had_image: bool,
    /// What the machine ran when the record was written. None if that was not an image.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub booted: Option<Digest>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) enum Phase {
    /// The machine runs the target.
    Applied,
    /// The machine was asked to reboot into the target. A phase of a later version counts as this one,
    /// so that its attempt has no other reboot.
    #[serde(other)]
    Rebooting,
}

impl Record {
    pub fn new(target: &NodeTarget, attempt: u32, state: &MachineState, phase: Phase) -> Self {
        Self {
            target: target.clone(),
            attempt,
            boot_id: state.boot_id.clone(),
            phase,
            had_image: state.deployments.has_other(target.image.digest()),
            booted: state.booted_digest(),
        }
    }

    /// The record; none if there is none, or one that can't be parsed.
    pub fn read(root: &HostRoot) -> Result<Option<Self>, Error> {
        let Some(text) = root.read(FILE, LIMIT)? else {
            return Ok(None);
        };
        let record = serde_json::from_slice(&text);
        Ok(record
            .inspect_err(|error| tracing::warn!("{FILE} is no record, so it is ignored: {error}"))
            .ok())
    }

    /// The record of an attempt that rebooted the machine into its target; none if it did not.
    /// Without it, a later try of the target, after others changed the machine, would be taken for
    /// one that had its reboot.
    pub fn ended(&self, state: &MachineState) -> Option<Self> {
        let has_ended = self.phase == Phase::Rebooting && state.runs(&self.target.image);
        let boot_id = state.boot_id.clone();
        has_ended.then(|| Self { boot_id, phase: Phase::Applied, ..self.clone() })
    }

    /// Writes it to the disk.
    pub fn write(&self, root: &HostRoot) -> Result<(), Error> {
        let text = serde_json::to_vec(self).expect("a record is JSON");
        root.write(FILE, &text, 0o600)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::deployments::Deployments;
    use mosb_plan::api::rollout::Deployment;

    #[test]
    fn a_record_is_read_back_and_an_unreadable_one_is_none() {
        let dir = tempfile::tempdir().unwrap();
        let root = HostRoot::open(dir.path()).unwrap();
        assert_eq!(Record::read(&root).unwrap(), None);
        let image = format!("reg.example/os@{}", Digest::of(b"image"));
        let record = Record {
            target: serde_json::from_value(serde_json::json!({ "image": image })).unwrap(),
            attempt: 2,
            boot_id: "0".repeat(32),
            phase: Phase::Rebooting,
            had_image: true,
            booted: Some(Digest::of(b"old")),
        };
        record.write(&root).unwrap();
        assert_eq!(Record::read(&root).unwrap(), Some(record.clone()));
        let of_later = serde_json::json!({
            "target": { "image": image, "later": 1 }, "attempt": 2, "bootID": record.boot_id, "phase": "later",
            "hadImage": true, "later": {},
        });
        root.write(FILE, of_later.to_string().as_bytes(), 0o600).unwrap();
        let later = Record::read(&root).unwrap();
        assert_eq!(later, Some(Record { booted: None, ..record }));
        root.write(FILE, b"{", 0o600).unwrap();
        assert_eq!(Record::read(&root).unwrap(), None);
        root.write(FILE, &[b' '; LIMIT as usize + 1], 0o600).unwrap();
        assert!(Record::read(&root).is_err());
    }

    #[test]
    fn an_attempt_has_ended_if_the_machine_rebooted_for_its_target_and_runs_it() {
        let image = |name: &str| format!("reg.example/os@{}", Digest::of(name.as_bytes()));
        let record = |name: &str, phase| Record {
            target: serde_json::from_value(serde_json::json!({ "image": image(name) })).unwrap(),
            attempt: 2,
            boot_id: "before".to_owned(),
            phase,
            had_image: true,
            booted: None,
        };
        let booted =
            Deployment { image: "reg.example/os".to_owned(), digest: Some(Digest::of(b"new")) };
        let state = MachineState {
            boot_id: "now".to_owned(),
            deployments: Deployments { booted: Some(booted), ..Deployments::default() },
            ..MachineState::default()
        };
        let ended = record("new", Phase::Rebooting).ended(&state);
        let applied = record("new", Phase::Applied);
        assert_eq!(ended, Some(Record { boot_id: "now".to_owned(), ..applied.clone() }));
        assert_eq!(applied.ended(&state), None, "it is recorded");
        assert_eq!(record("old", Phase::Rebooting).ended(&state), None, "it runs another image");
    }
}
