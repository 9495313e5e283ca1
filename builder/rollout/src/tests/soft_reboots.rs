//! Machines that reboot their user space alone: the boot of the kernel on their Nodes stays.

use super::fleet::*;
use super::machine::FakeJob;
use super::stories::{running, status};
use crate::*;
use mosb_api::labels;

fn rolling(mode: &str) -> Fleet {
    let mut fleet = Fleet::new(2);
    fleet.annotate(labels::ROLLOUT, "automatic");
    fleet.annotate(labels::SOFT_REBOOT, mode);
    fleet.settle();
    fleet.serve("worker", 2);
    fleet
}

/// The boots of the kernel, and the starts of a user space in the last one.
fn boots(fleet: &Fleet, name: &str) -> (u32, u64) {
    (fleet.nodes[name].boot, fleet.nodes[name].soft_boots)
}

#[test]
fn the_kernel_boots_where_it_must() {
    for (mode, want, text) in [
        ("off", [(1, 0), (1, 0)], [None, None]),
        ("auto", [(0, 1), (1, 0)], [Some("soft reboot"), Some("no soft reboot: it can't")]),
    ] {
        let mut fleet = rolling(mode);
        fleet.node("w1").can_soft_reboot = false;
        fleet.settle();
        assert_eq!((running(&fleet, 2), &*status(&fleet, "Updated").0), (2, "True"), "{mode}");
        assert_eq!(["w0", "w1"].map(|name| boots(&fleet, name)), want, "{mode}");
        let view = rollout_view(&fleet.snapshot("worker"), fleet.now).soft_reboots;
        let (used, causes) =
            ((mode == "auto").then_some((1, 1)), view.as_ref().map(|it| &it.causes));
        assert_eq!(view.as_ref().map(|view| (view.used, view.not_used)), used, "{mode}");
        assert!(causes.is_none_or(|causes| causes.iter().eq(["it can't"])), "{mode}: {causes:?}");
        for (name, text) in ["w0", "w1"].into_iter().zip(text) {
            let updated = fleet
                .events
                .iter()
                .rfind(|(reason, text)| reason == "NodeUpdated" && text.starts_with(name));
            let want = text.map(|text| format!("({text})")).unwrap_or_default();
            assert!(updated.unwrap().1.ends_with(&want), "{mode}: {updated:?}");
        }
    }
}

#[test]
fn a_soft_reboot_without_the_image_is_followed_by_another() {
    let mut fleet = rolling("auto");
    fleet.node("w0").not_bootable.insert(image(2).digest());
    fleet.settle();
    assert_eq!((fleet.nodes["w0"].state(), boots(&fleet, "w0")), ("Degraded", (1, 0)));
    assert_eq!(running(&fleet, 2), 0, "no other machine is rebooted");
}

/// Jobs of the user space before may be there when that of the reboot is deleted.
#[test]
fn results_from_before_a_soft_reboot_count_for_nothing() {
    let mut fleet = rolling("auto");
    let mut staged = None;
    for _ in 0..200 {
        fleet.pass("worker", usize::MAX);
        fleet.run_jobs();
        fleet.end_pods();
        let of = |job: &&FakeJob| job.node == "w0" && job.seen.verb == NodeVerb::Stage;
        staged = staged.or_else(|| {
            let done = |job: &&FakeJob| matches!(job.seen.phase, JobPhase::Succeeded(_));
            fleet.jobs.values().filter(of).find(done).cloned()
        });
        fleet.boot_all();
    }
    fleet.settle();
    assert_eq!((running(&fleet, 2), boots(&fleet, "w0")), (2, (0, 1)));
    let staged = staged.expect("it staged the image");
    fleet.jobs.insert(staged.seen.name.clone(), staged);
    fleet.settle();
    assert_eq!((fleet.nodes["w0"].state(), &*status(&fleet, "Updated").0), ("Done", "True"));
    assert_eq!((boots(&fleet, "w0"), fleet.reboots.len()), ((0, 1), 2));
}

#[test]
fn going_back_by_a_soft_reboot_is_a_fallback() {
    let mut fleet = rolling("auto");
    fleet.settle();
    let node = fleet.node("w0");
    node.booted = image(1).digest();
    node.files = image(1).digest();
    node.soft_boots += 1;
    // What asks the machine again: nothing on the Node shows it.
    let version = fleet.next_version();
    let node = fleet.node("w0");
    node.machine.metadata.resource_version = Some(version);
    let report = serde_json::to_string(&node.report()).unwrap();
    let seen = super::job_of_machine(JobPhase::Succeeded(Box::new(node.report())));
    let uid = node.machine.metadata.uid().to_owned();
    assert!(report.contains("userSpaceSince"));
    let seen =
        MachineJob { name: "seen".to_owned(), node_uid: uid, verb: NodeVerb::Report, ..seen };
    let job = FakeJob {
        node: "w0".to_owned(),
        seen,
        may_be_soft: false,
        confirms: false,
        has_changed: false,
    };
    fleet.jobs.insert("seen".to_owned(), job);
    fleet.pass("worker", usize::MAX);
    assert!(
        fleet.nodes["w0"].reason().contains("then another image"),
        "{}",
        fleet.nodes["w0"].reason()
    );
}

#[test]
fn another_value_stops_the_rollout() {
    let mut fleet = rolling("always");
    fleet.settle();
    assert_eq!((running(&fleet, 2), &*status(&fleet, "RolloutDegraded").0), (0, "True"));
    assert!(status(&fleet, "RolloutDegraded").2.contains("set off or auto"));
}
