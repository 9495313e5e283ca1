//! What the status reports of machines that wait for something that does not end by itself.

use super::fleet::*;
use super::stories::{rolling, running, status};
use crate::RefusedWrites;
use crate::*;
use mosb_api::{Condition, labels};
use std::time::Duration;

pub fn updating(fleet: &Fleet) -> String {
    status(fleet, "Updating").2
}

#[test]
fn machines_that_others_made_unavailable_are_named_with_cause_and_remedy() {
    type Edit = fn(&mut Fleet);
    let cases: [(Edit, &str); 2] = [
        (
            |fleet| {
                let node = fleet.node("w0");
                (node.machine.unschedulable, node.is_cordoned_by_hand) = (true, true);
            },
            "w0: it is cordoned, and not by mosb; uncordon it, w1, w2: maxUnavailable allows 1 unavailable machines: w0 is cordoned",
        ),
        (
            |fleet| {
                fleet.node("w0").go_away();
            },
            "w0: it is not Ready; check its kubelet, w1, w2: maxUnavailable allows 1",
        ),
    ];
    for (edit, want) in cases {
        let mut fleet = rolling(3, "automatic");
        edit(&mut fleet);
        fleet.settle();
        assert_eq!(running(&fleet, 2), 0);
        assert!(updating(&fleet).contains(want), "{}", updating(&fleet));
    }
    let mut fleet = rolling(3, "automatic");
    fleet.node("w0").held.insert("db".to_owned());
    fleet.settle();
    assert!(!updating(&fleet).contains("w1"), "an update that is under way is no reason");
}

#[test]
fn a_control_plane_machine_names_the_one_that_it_waits_for() {
    let mut fleet = rolling(1, "automatic");
    fleet.make_control_plane("w0");
    fleet.add_node("cp", "elsewhere", 1);
    fleet.make_control_plane("cp");
    let mut snapshot = fleet.snapshot("worker");
    let staged = |fleet: &Fleet| fleet.nodes["w0"].staged.is_some();
    while !staged(&fleet) {
        fleet.pass("worker", usize::MAX);
        fleet.run_jobs();
        snapshot = fleet.snapshot("worker");
    }
    let holder = snapshot.cluster.control_plane.iter_mut().find(|node| node.name == "cp");
    holder.unwrap().has_slot = true;
    let actions = format!("{:?}", decide(&snapshot, fleet.now).actions);
    assert!(
        actions.contains("w0: control-plane machine cp of another pool, or of none"),
        "{actions}"
    );
}

#[test]
fn a_job_whose_pod_does_not_start_is_a_reason_and_no_machine_that_is_not_back() {
    let mut fleet = rolling(1, "automatic");
    let running = |fleet: &Fleet, verb: NodeVerb| {
        let mut jobs = fleet.jobs.values();
        jobs.find(|job| job.seen.verb == verb).map(|job| job.seen.name.clone())
    };
    let hold = |fleet: &mut Fleet, verb: NodeVerb| {
        loop {
            fleet.pass("worker", usize::MAX);
            if let Some(name) = running(fleet, verb) {
                fleet.jobs.get_mut(&name).unwrap().seen.waiting =
                    Some("ImagePullBackOff".to_owned());
                fleet.pass("worker", usize::MAX);
                fleet.pass("worker", usize::MAX);
                return;
            }
            fleet.run_jobs();
            fleet.end_pods();
        }
    };
    hold(&mut fleet, NodeVerb::Stage);
    assert!(updating(&fleet).contains("w0: stage: ImagePullBackOff"), "{}", updating(&fleet));
    fleet.run_jobs();
    hold(&mut fleet, NodeVerb::Apply);
    assert_eq!(fleet.nodes["w0"].reason(), "apply: ImagePullBackOff");
    fleet.wait(Duration::from_secs(31 * 60));
    fleet.pass("worker", usize::MAX);
    let reason = fleet.nodes["w0"].reason();
    assert!(reason.starts_with("not rebooted: its Job runs since 2026"), "{reason}");
    assert!(reason.contains("ImagePullBackOff"), "{reason}");
}

#[test]
fn a_stop_has_names_and_times() {
    let mut fleet = rolling(3, "automatic");
    fleet.node("w0").is_lost = true;
    while !fleet.nodes["w0"].is_down {
        fleet.pass("worker", usize::MAX);
        fleet.run_jobs();
        fleet.end_pods();
    }
    fleet.wait(Duration::from_secs(31 * 60));
    fleet.settle();
    let message = status(&fleet, "RolloutDegraded").2;
    assert!(message.contains("w0 (slot since 2026-01-01T00:"), "{message}");
}

#[test]
fn a_refused_write_is_in_the_condition_and_stops_no_other_machine() {
    let mut fleet = rolling(2, "automatic");
    let mut snapshot = fleet.snapshot("worker");
    for lookup in decide(&snapshot, fleet.now).lookups {
        fleet.look_up(&lookup, &mut snapshot.lookup_results);
    }
    let actions = |snapshot: &RolloutSnapshot| decide(snapshot, fleet.now).actions;
    let before = actions(&snapshot).len();
    let refused = [("w0".to_owned(), "job x: create: forbidden; allow it".to_owned())];
    snapshot.refused_writes =
        RefusedWrites { machines: refused.into(), ..RefusedWrites::default() };
    let decision = decide(&snapshot, fleet.now);
    assert!(decision.actions.len() >= before, "{decision:?}");
    assert!(decision.requeue_after.is_some(), "tried again");
    let status = format!("{:?}", decision.actions);
    assert!(status.contains("WriteRefused") && status.contains("w0: job x"), "{status}");
}

#[test]
fn a_pool_names_what_its_newer_image_is_not_built_for() {
    let block = |fleet: &mut Fleet, status: &str, message: &str| {
        let blocked = Condition {
            kind: "Blocked".to_owned(),
            status: status.to_owned(),
            reason: "Unreconcilable".to_owned(),
            message: message.to_owned(),
            ..Condition::default()
        };
        fleet.configs.get_mut("worker").unwrap().status.conditions = vec![blocked];
        fleet.settle();
    };
    let cause = format!("; no image of {} is built: Unreconcilable: disks; revert", rendered(3));
    for mode in ["automatic", "stage"] {
        let mut fleet = rolling(1, mode);
        fleet.settle();
        // The config whose image is in service is blocked.
        block(&mut fleet, "True", "disks; revert");
        assert!(!updating(&fleet).contains("disks"), "{mode}: {}", updating(&fleet));
        fleet.pool().spec.configuration.name = rendered(3);
        fleet.settle();
        assert!(updating(&fleet).ends_with(&cause), "{mode}: {}", updating(&fleet));
        fleet.annotate(labels::ROLLOUT_BUILD, &pin(2).to_string());
        fleet.settle();
        assert!(!updating(&fleet).contains("disks"), "a pinned pool waits for no image");
        fleet.annotate(labels::ROLLOUT_BUILD, "");
        block(&mut fleet, "True", &"x".repeat(10_000));
        assert!(updating(&fleet).len() < 3000 && updating(&fleet).contains("xxx"), "{mode}");
        block(&mut fleet, "False", "disks; revert");
        assert!(!updating(&fleet).contains("disks"), "{mode}: {}", updating(&fleet));
    }
    // Before its first image.
    let mut fleet = rolling(1, "automatic");
    fleet.settle();
    fleet.configs.get_mut("worker").unwrap().status.current_image_pull_spec.clear();
    fleet.pool().spec.configuration.name = rendered(3);
    block(&mut fleet, "True", "disks; revert");
    assert!(updating(&fleet).ends_with(&cause), "{}", updating(&fleet));
}

/// It accepts connections, and answers nothing.
#[test]
fn a_registry_that_hangs_holds_nothing_that_has_begun() {
    let mut fleet = rolling(3, "automatic");
    fleet.node("w0").held.insert("db".to_owned());
    fleet.settle();
    assert!(fleet.nodes["w0"].slot().is_some());
    fleet.node("w0").held.clear();
    fleet.is_registry_silent = true;
    fleet.settle();
    assert_eq!((running(&fleet, 2), fleet.nodes["w0"].state()), (1, "Done"));
    assert!(!fleet.nodes["w0"].machine.unschedulable && fleet.nodes["w1"].slot().is_none());
    assert_eq!(status(&fleet, "RolloutDegraded").0, "False", "there is no answer yet");
    assert_eq!(fleet.pools["worker"].status.updated_machine_count, 1, "the status is written");
    fleet.is_registry_silent = false;
    fleet.settle();
    assert_eq!(running(&fleet, 2), 3);
}

#[test]
fn a_stock_image_that_is_still_looked_up_changes_no_status() {
    let mut fleet = rolling(2, "automatic");
    fleet.node("w0").held.insert("db".to_owned());
    fleet.settle();
    let before = fleet.pools["worker"].status.conditions.clone();
    let marks = |fleet: &Fleet| fleet.nodes["w1"].machine.metadata.annotations.clone();
    let marks_before = marks(&fleet);
    fleet.annotate(labels::ROLLOUT_BUILD, &pin(STOCK_IMAGE).to_string());
    fleet.is_registry_silent = true;
    fleet.settle();
    assert_eq!(fleet.pools["worker"].status.conditions, before);
    assert_eq!(marks(&fleet), marks_before);
    assert!(fleet.nodes["w0"].slot().is_some(), "what is under way goes on");
    fleet.is_registry_silent = false;
    fleet.node("w0").held.clear();
    fleet.settle();
    assert_eq!(running(&fleet, STOCK_IMAGE), 2);
}
