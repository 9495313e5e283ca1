//! The machine's record of the last target that it rebooted for, and of the last that it has
//! completely. It is written before a reboot and survives it, so that an attempt reboots the machine
//! once.

use mosb_api::rollout::{NodeTarget, SoftReboot};
use mosb_image::Digest;
use serde::{Deserialize, Serialize};

use crate::core_access;
use crate::desired_state::DesiredState;
use crate::error::Error;
use crate::host_root::HostRoot;
use crate::live::LiveRecord;
use crate::machine_record::MachineRecord;
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
    /// How the machine was asked to reboot, or rebooted, if it was allowed to keep its kernel running.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub soft_reboot: Option<SoftReboot>,
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
            soft_reboot: None,
        }
    }

    /// How the machine rebooted, once it runs the target: after a soft reboot, it is the boot of the
    /// record still.
    fn rebooted_softly(&self, state: &MachineState) -> Option<SoftReboot> {
        let asked = self.soft_reboot.clone()?;
        let has_booted = self.phase == Phase::Rebooting && self.boot_id != state.boot_id;
        Some(if asked.used && has_booted {
            SoftReboot::not_used("one was begun, and the kernel booted all the same")
        } else {
            asked
        })
    }

    /// The record; none if there is none, or one that can't be parsed.
    pub fn read(root: &HostRoot) -> Result<Option<Self>, Error> {
        let Some(text) = root.read(FILE, LIMIT)? else {
            return Ok(None);
        };
        let record = serde_json::from_slice(&text);
        Ok(record
            .inspect_err(|error| {
                tracing::warn!("{FILE} is not a record, so it is ignored: {error}")
            })
            .ok())
    }

    /// The record of an attempt that rebooted the machine into its target; none if it did not.
    /// Without it, a later try of the target, after others changed the machine, would be taken for
    /// one that had its reboot.
    pub fn ended(&self, state: &MachineState) -> Option<Self> {
        let has_ended = self.phase == Phase::Rebooting && state.runs(&self.target.image);
        has_ended.then(|| Self {
            boot_id: state.boot_id.clone(),
            phase: Phase::Applied,
            soft_reboot: self.rebooted_softly(state),
            ..self.clone()
        })
    }

    /// Writes it to the disk.
    pub fn write(&self, root: &HostRoot) -> Result<(), Error> {
        let text = serde_json::to_vec(self).expect("a record is JSON");
        root.write(FILE, &text, 0o600)
    }
}

/// Records a target whose image the machine runs with its kernel arguments, if `core` has its keys
/// and its password too: a machine that was installed with them has no record.
pub(crate) fn record_if_complete(
    root: &HostRoot,
    desired: &DesiredState<'_>,
    machine: &MachineRecord,
    state: &MachineState,
) -> Result<(), Error> {
    let DesiredState { target, part, .. } = *desired;
    // The writer reports files that can't be changed live.
    let is_as_booted = || LiveRecord::of_booted(root).is_ok_and(|live| live.is_none());
    let has_all = part.is_some()
        && is_as_booted()
        && core_access::missing(root, part, &machine.set).is_ok_and(|steps| steps.is_empty());
    if has_all {
        write_completed(root, desired, machine);
        write_applied(root, target, 0, state, Record::read(root)?.as_ref());
    }
    Ok(())
}

/// Records that the machine has all of the target.
pub(crate) fn write_completed(root: &HostRoot, desired: &DesiredState<'_>, begun: &MachineRecord) {
    let completed = begun.completed(desired.target, desired.part);
    // The machine is where it should be: a full disk must not keep it out of service.
    if let Err(error) = completed.write(root, begun) {
        tracing::error!("{error}");
    }
}

/// Records that the machine runs the target, so that a later attempt of an earlier target is not
/// taken for one that had its reboot.
pub(crate) fn write_applied(
    root: &HostRoot,
    target: &NodeTarget,
    attempt: u32,
    state: &MachineState,
    old: Option<&Record>,
) {
    if old.is_some_and(|old| old.phase == Phase::Applied && old.target == *target) {
        return;
    }
    let rebooted = old.filter(|old| old.target == *target);
    let soft_reboot = rebooted.and_then(|old| old.rebooted_softly(state));
    let record = Record { soft_reboot, ..Record::new(target, attempt, state, Phase::Applied) };
    // The machine is where it should be: a full disk must not keep it out of service.
    if let Err(error) = record.write(root) {
        tracing::error!("{error}");
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::MetadataExt as _;

    use super::*;
    use crate::deployments::Deployments;
    use mosb_api::rollout::{Deployment, MachinePart};

    #[test]
    fn unreadable_records_are_ignored() {
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
            soft_reboot: Some(SoftReboot::USED),
        };
        record.write(&root).unwrap();
        assert_eq!(Record::read(&root).unwrap(), Some(record.clone()));
        let of_later = serde_json::json!({
            "target": { "image": image, "later": 1 }, "attempt": 2, "bootID": record.boot_id, "phase": "later",
            "hadImage": true, "later": {},
        });
        root.write(FILE, of_later.to_string().as_bytes(), 0o600).unwrap();
        let later = Record::read(&root).unwrap();
        assert_eq!(later, Some(Record { booted: None, soft_reboot: None, ..record }));
        root.write(FILE, b"{", 0o600).unwrap();
        assert_eq!(Record::read(&root).unwrap(), None);
        root.write(FILE, &[b' '; LIMIT as usize + 1], 0o600).unwrap();
        assert!(Record::read(&root).is_err());
    }

    #[test]
    fn attempts_end_when_the_rebooted_machine_runs_them() {
        let image = |name: &str| format!("reg.example/os@{}", Digest::of(name.as_bytes()));
        let record = |name: &str, phase| Record {
            target: serde_json::from_value(serde_json::json!({ "image": image(name) })).unwrap(),
            attempt: 2,
            boot_id: "before".to_owned(),
            phase,
            had_image: true,
            booted: None,
            soft_reboot: None,
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
        for (what, asked, boot_id, want) in [
            ("not allowed", None, "now", None),
            ("soft", Some(SoftReboot::USED), "now", Some(true)),
            ("soft, and the kernel booted", Some(SoftReboot::USED), "before", Some(false)),
            ("not soft", Some(SoftReboot::not_used("x")), "before", Some(false)),
        ] {
            let of = record("new", Phase::Rebooting);
            let of = Record { boot_id: boot_id.to_owned(), soft_reboot: asked, ..of };
            let soft = of.ended(&state).unwrap().soft_reboot;
            assert_eq!(soft.as_ref().map(|soft| soft.used), want, "{what}");
            assert_eq!(soft.is_some_and(|soft| soft.cause.is_none()), want == Some(true), "{what}");
        }
    }

    /// As of a machine that was installed with the keys of a config.
    #[test]
    fn complete_machines_are_recorded() {
        let part = |keys: &[&str]| MachinePart {
            ssh_authorized_keys: keys.iter().map(|key| (*key).to_owned()).collect(),
            ..MachinePart::default()
        };
        for (what, has_user, part, want) in [
            ("its key", true, Some(part(&["one"])), true),
            ("another key", true, Some(part(&["two"])), false),
            ("nothing", true, Some(part(&[])), true),
            ("nothing, and no user", false, Some(part(&[])), true),
            ("a key, and no user", false, Some(part(&["one"])), false),
            ("no part", true, None, false),
        ] {
            let dir = tempfile::tempdir().unwrap();
            let root = HostRoot::open(dir.path()).unwrap();
            for folder in ["var/lib/mosb", "var/home/core/.ssh/authorized_keys.d"] {
                std::fs::create_dir_all(dir.path().join(folder)).unwrap();
            }
            root.write("/var/home/core/.ssh/authorized_keys.d/ignition", b"one\n", 0o600).unwrap();
            if has_user {
                let own = dir.path().metadata().unwrap();
                let line = format!("core:x:{}:{}::/var/home/core:/bin/sh\n", own.uid(), own.gid());
                root.write("/etc/passwd", line.as_bytes(), 0o644).unwrap();
            }
            let image = format!("reg.example/os@{}", MachinePart::default().digest());
            let machine_part = part.as_ref().map(MachinePart::digest);
            let target = NodeTarget {
                image: image.parse().unwrap(),
                config: None,
                machine_part,
                live_from: None,
                verify: false,
            };
            let access = crate::PullAccess::default();
            let desired = DesiredState { target: &target, access: &access, part: part.as_ref() };
            let state = MachineState { boot_id: "now".to_owned(), ..MachineState::default() };
            record_if_complete(&root, &desired, &MachineRecord::default(), &state).unwrap();
            let recorded = MachineRecord::read(&root).unwrap().target;
            assert_eq!(recorded, want.then(|| target.clone()), "{what}");
            let record = Record::read(&root).unwrap().map(|record| (record.target, record.phase));
            assert_eq!(record, want.then_some((target, Phase::Applied)), "{what}");
        }
    }
}
