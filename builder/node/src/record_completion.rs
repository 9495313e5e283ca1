//! Records on the machine that it has all of a target.

use mosb_plan::api::rollout::NodeTarget;

use crate::core_access;
use crate::desired_state::DesiredState;
use crate::error::Error;
use crate::host_root::HostRoot;
use crate::live::LiveRecord;
use crate::machine_record::MachineRecord;
use crate::machine_state::MachineState;
use crate::record::{Phase, Record};

/// Records a target whose image the machine runs with its kernel arguments, if `core` has its keys
/// and its password too: a machine that was installed with them has no record.
pub(crate) fn record_if_complete(
    root: &HostRoot,
    desired: &DesiredState<'_>,
    machine: &MachineRecord,
    state: &MachineState,
) -> Result<(), Error> {
    let DesiredState { target, part, .. } = *desired;
    // Whether they can be brought is found out by what brings them.
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
    // The machine is where it should be: a full disk is no reason to keep it out of service.
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
    // The machine is where it should be: a full disk is no reason to keep it out of service.
    if let Err(error) = Record::new(target, attempt, state, Phase::Applied).write(root) {
        tracing::error!("{error}");
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::MetadataExt as _;

    use super::*;
    use mosb_plan::api::rollout::MachinePart;

    /// As of a machine that was installed with the keys of a config.
    #[test]
    fn a_machine_that_has_all_of_a_target_is_recorded() {
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
