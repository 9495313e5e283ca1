//! What protects machines that have a slot, and pools whose machines failed, from a change of the
//! cluster or a late view of it.

use super::fleet::*;
use super::stories::{rolling, running, status};
use crate::*;
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use mosb_api::labels;
use mosb_api::rollout::Slot;
use std::time::Duration;

const ARCHITECTURE: &str = "kubernetes.io/arch";

/// Passes until this is so.
fn until(fleet: &mut Fleet, is: impl Fn(&Fleet) -> bool) {
    for _ in 0..100 {
        if is(fleet) {
            return;
        }
        fleet.pass("worker", usize::MAX);
        if is(fleet) {
            return;
        }
        fleet.run_jobs();
        fleet.end_pods();
        fleet.boot_all();
        fleet.wait(Duration::from_secs(10));
    }
    panic!("never");
}

fn slot(fleet: &Fleet, name: &str) -> Option<Slot> {
    fleet.nodes[name].slot()
}

#[test]
fn a_control_plane_machine_waits_in_its_slot_until_the_control_plane_is_healthy() {
    type Edit = fn(&mut Fleet, bool);
    let not_ready: Edit = |fleet, is| fleet.node("w2").machine.ready = !is;
    let unhealthy: Edit = |fleet, is| fleet.unhealthy = is.then(|| "etcd-w2".to_owned());
    for (what, edit) in [("w2", not_ready), ("etcd-w2", unhealthy)] {
        let mut fleet = rolling(3, "automatic");
        for name in ["w0", "w1", "w2"] {
            fleet.make_control_plane(name);
        }
        fleet.node("w0").held.insert("db".to_owned());
        fleet.settle();
        assert!(slot(&fleet, "w0").is_some(), "{what}");
        // It becomes unhealthy during the drain, which ends then.
        edit(&mut fleet, true);
        fleet.node("w0").held.clear();
        fleet.settle();
        assert!(fleet.reboots.is_empty() && fleet.nodes["w0"].is_drained(), "{what}");
        let message = status(&fleet, "Updating").2;
        assert!(message.contains("w0: the control plane") && message.contains(what), "{message}");
        assert!(fleet.decide("worker").requeue_after.is_some(), "{what}");
        edit(&mut fleet, false);
        fleet.settle();
        assert_eq!((running(&fleet, 2), fleet.reboots.len()), (3, 3), "{what}");
    }
}

#[test]
fn an_image_that_fits_no_machine_of_the_pool_is_not_staged() {
    let mut fleet = rolling(2, "automatic");
    for name in ["w0", "w1"] {
        let labels = &mut fleet.node(name).machine.metadata.labels;
        labels.insert(ARCHITECTURE.to_owned(), "arm64".to_owned());
    }
    fleet.settle();
    let of_pool = fleet.nodes.values().filter(|node| node.pool == "worker");
    for node in of_pool {
        assert_eq!((node.staged, node.state()), (None, "Degraded"));
        assert!(node.reason().contains("linux/arm64"), "{}", node.reason());
    }
}

#[test]
fn a_machine_with_a_staged_image_of_another_platform_gets_no_slot() {
    let mut fleet = rolling(1, "stage");
    fleet.settle();
    assert!(fleet.nodes["w0"].staged.is_some());
    let labels = &mut fleet.node("w0").machine.metadata.labels;
    labels.insert(ARCHITECTURE.to_owned(), "arm64".to_owned());
    fleet.annotate(labels::ROLLOUT, "automatic");
    fleet.settle();
    assert_eq!((slot(&fleet, "w0"), fleet.reboots.len()), (None, 0));
}

#[test]
fn a_drain_that_has_begun_is_not_skipped_when_other_nodes_are_cordoned() {
    let mut fleet = rolling(1, "automatic");
    fleet.node("w0").held.insert("db".to_owned());
    fleet.settle();
    fleet.node("elsewhere").machine.unschedulable = true;
    fleet.settle();
    assert!(fleet.reboots.is_empty() && !fleet.nodes["w0"].is_drained());
    fleet.node("w0").held.clear();
    fleet.settle();
    assert_eq!((running(&fleet, 2), fleet.reboots.len()), (1, 1));
}

#[test]
fn the_only_control_plane_node_is_drained_unless_the_controller_runs_there() {
    for (own, want) in [("elsewhere", true), ("w0", false)] {
        let mut fleet = rolling(1, "automatic");
        fleet.make_control_plane("w0");
        fleet.own_node = Some(own.to_owned());
        fleet.settle();
        assert_eq!(running(&fleet, 2), 1, "{own}");
        let is_drained = fleet.asked.iter().any(|one| matches!(one, RolloutLookup::Pods { .. }));
        assert_eq!(is_drained, want, "{own}");
    }
}

#[test]
fn a_final_failure_counts_when_its_job_is_deleted() {
    let mut fleet = rolling(4, "automatic");
    fleet.max_unavailable(IntOrString::Int(3));
    fleet.settings.staging_per_registry = 2;
    let wrong = image(2).digest();
    fleet.nodes.values_mut().for_each(|node| _ = node.not_bootable.insert(wrong));
    let failed = |fleet: &Fleet| {
        let all = fleet.nodes.values();
        all.filter(|node| node.slot().is_some_and(|slot| slot.failure.is_some())).count()
    };
    until(&mut fleet, |fleet| failed(fleet) >= 2);
    fleet.settle();
    let (reboots, failed_before) = (fleet.reboots.len(), failed(&fleet));
    assert!(failed_before < 4, "one is left");
    // As after `ttlSecondsAfterFinished`.
    fleet.jobs.retain(|_, job| job.seen.verb != NodeVerb::Apply);
    fleet.wait(Duration::from_secs(24 * 60 * 60));
    fleet.settle();
    assert_eq!((fleet.reboots.len(), failed(&fleet)), (reboots, failed_before));
    assert_eq!(status(&fleet, "RolloutDegraded").1, "MachinesFailed");
    assert!(fleet.jobs.values().all(|job| job.seen.verb != NodeVerb::Apply), "no other try");
    let reason = fleet.nodes.values().find(|node| node.slot().is_some()).unwrap().reason();
    assert!(reason.contains("finalizing failed"), "{reason}");
}

#[test]
fn passing_failures_stop_the_pool_all_the_time_and_are_counted() {
    let mut fleet = rolling(4, "automatic");
    fleet.max_unavailable(IntOrString::Int(2));
    fleet.nodes.values_mut().for_each(|node| node.is_busy = true);
    fleet.settle();
    let slots = |fleet: &Fleet| -> Vec<String> {
        let all = fleet.nodes.iter().filter(|(_, node)| node.slot().is_some());
        all.map(|(name, _)| name.clone()).collect()
    };
    let failed = slots(&fleet);
    assert_eq!(failed.len(), 2);
    fleet.max_unavailable(IntOrString::Int(4));
    let tries = |fleet: &Fleet, name: &str| slot(fleet, name).unwrap().failure.unwrap().tries;
    let transitions = fleet.events.len();
    for _ in 0..60 {
        fleet.wait(Duration::from_secs(10 * 60));
        // Not only at the end of a try.
        for _ in 0..6 {
            fleet.pass("worker", usize::MAX);
            assert_eq!(slots(&fleet), failed);
            assert_eq!(status(&fleet, "RolloutDegraded").1, "MachinesFailed");
            assert_eq!(status(&fleet, "NodeDegraded").0, "True");
            assert!(failed.iter().all(|name| fleet.nodes[name].state() == "Degraded"));
            fleet.run_jobs();
            fleet.end_pods();
        }
    }
    assert_eq!(failed.iter().map(|name| tries(&fleet, name)).collect::<Vec<_>>(), [10, 10]);
    let degraded =
        fleet.events[transitions..].iter().filter(|(reason, _)| reason == "NodeDegraded");
    assert_eq!(degraded.count(), 0, "it is reported once");
    assert!(slot(&fleet, &failed[0]).unwrap().failure.unwrap().is_final);
    // Another target starts again.
    fleet.nodes.values_mut().for_each(|node| node.is_busy = false);
    fleet.serve("worker", 3);
    fleet.settle();
    assert_eq!((running(&fleet, 3), status(&fleet, "NodeDegraded").0.as_str()), (4, "False"));
}

#[test]
fn a_slot_is_not_taken_back_while_its_apply_job_may_exist_unseen() {
    let mut fleet = rolling(1, "automatic");
    let has_apply = |fleet: &Fleet| {
        fleet.jobs.values().any(|job| job.seen.verb == NodeVerb::Apply && job.seen.has_login)
    };
    until(&mut fleet, has_apply);
    // The watch of Jobs is late, and the pool is paused meanwhile.
    fleet.hides_apply_jobs = true;
    fleet.pool().spec.paused = true;
    fleet.pass("worker", usize::MAX);
    assert!(slot(&fleet, "w0").is_some() && fleet.nodes["w0"].machine.unschedulable);
    fleet.run_jobs();
    assert!(fleet.nodes["w0"].is_down);
    fleet.boot_all();
    fleet.hides_apply_jobs = false;
    fleet.settle();
    assert_eq!((running(&fleet, 2), slot(&fleet, "w0")), (1, None));
}

#[test]
fn a_slot_whose_apply_job_was_never_created_is_taken_back_later() {
    let mut fleet = rolling(1, "automatic");
    let is_recorded = |fleet: &Fleet| slot(fleet, "w0").is_some_and(|slot| slot.applying.is_some());
    until(&mut fleet, is_recorded);
    assert!(fleet.jobs.values().all(|job| job.seen.verb != NodeVerb::Apply), "in the next pass");
    // The controller was away for longer than its record is fresh.
    fleet.wait(Duration::from_secs(6 * 60));
    fleet.pool().spec.paused = true;
    fleet.settle();
    assert!(is_recorded(&fleet) && fleet.reboots.is_empty());
    fleet.wait(Duration::from_secs(15 * 60));
    fleet.settle();
    assert_eq!((slot(&fleet, "w0"), fleet.reboots.len()), (None, 0));
    assert!(!fleet.nodes["w0"].machine.unschedulable);
}

#[test]
fn pods_that_came_while_somebody_uncordoned_the_machine_are_drained_too() {
    let mut fleet = rolling(1, "automatic");
    fleet.node("w0").held.insert("db".to_owned());
    fleet.settle();
    fleet.node("w0").held.clear();
    fleet.node("w0").pods.clear();
    fleet.node("w0").machine.unschedulable = false;
    fleet.pass("worker", usize::MAX);
    assert!(fleet.nodes["w0"].machine.unschedulable);
    fleet.node("w0").schedule_pods();
    // `check_reboot` sees that they are gone.
    fleet.settle();
    assert_eq!((running(&fleet, 2), fleet.reboots.len()), (1, 1));
}

#[test]
fn no_job_is_created_in_the_pass_that_cordons_the_machine_again() {
    let mut fleet = rolling(1, "automatic");
    let is_recorded = |fleet: &Fleet| slot(fleet, "w0").is_some_and(|slot| slot.applying.is_some());
    until(&mut fleet, is_recorded);
    fleet.node("w0").machine.unschedulable = false;
    fleet.pass("worker", usize::MAX);
    assert!(fleet.jobs.values().all(|job| job.seen.verb != NodeVerb::Apply));
    fleet.node("w0").schedule_pods();
    // `check_reboot` sees that they are gone.
    fleet.settle();
    assert_eq!((running(&fleet, 2), fleet.reboots.len()), (1, 1));
}

#[test]
fn a_slot_that_somebody_wrote_for_an_unknown_image_is_not_applied() {
    let mut fleet = rolling(1, "automatic");
    fleet.settle();
    fleet.is_stock_unknown = true;
    fleet.annotate(labels::ROLLOUT_BUILD, &pin(STOCK_IMAGE).to_string());
    let foreign = format!(
        r#"{{"target":{{"image":"{}"}},"since":"2026-01-01T00:00:00Z","attempt":1,"bootID":"{}","cordoned":true}}"#,
        image(9),
        fleet.nodes["w0"].machine.boot_id
    );
    let annotations = &mut fleet.node("w0").machine.metadata.annotations;
    annotations.insert(labels::NODE_SLOT.to_owned(), foreign);
    let reboots = fleet.reboots.len();
    fleet.settle();
    assert_eq!((fleet.reboots.len(), fleet.nodes["w0"].is_down), (reboots, false));
    let reason = fleet.nodes["w0"].reason().to_owned();
    assert!(
        reason.contains(&image(9).to_string()) && reason.contains("x the API server"),
        "{reason}"
    );
    // The message of the problem has the date.
    fleet.wait(Duration::from_secs(24 * 60 * 60));
    fleet.pass("worker", usize::MAX);
    assert_eq!(fleet.nodes["w0"].reason(), reason);
    fleet.is_stock_unknown = false;
    fleet.settle();
    assert_eq!(running(&fleet, STOCK_IMAGE), 1);
}

/// A controller that starts anew asks the registry for the stock image again. What it would write
/// meanwhile, the next decision would take back: one that is killed after each write came no further.
#[test]
fn a_drained_machine_waits_for_the_stock_image_in_silence() {
    let mut fleet = rolling(1, "automatic");
    fleet.settle();
    fleet.node("w0").held.insert("db".to_owned());
    fleet.annotate(labels::ROLLOUT_BUILD, &pin(STOCK_IMAGE).to_string());
    fleet.settle();
    assert!(slot(&fleet, "w0").is_some());
    fleet.node("w0").pods.clear();
    fleet.drains.clear();
    fleet.is_registry_silent = true;
    let writes = fleet.node_writes;
    fleet.pass("worker", usize::MAX);
    assert_eq!(fleet.node_writes, writes, "{:?}", fleet.nodes["w0"].machine.metadata.annotations);
    fleet.is_registry_silent = false;
    fleet.settle();
    assert_eq!(running(&fleet, STOCK_IMAGE), 1);
}

#[test]
fn no_slot_is_given_on_a_late_view_of_the_nodes() {
    let mut fleet = rolling(2, "automatic");
    fleet.node("w0").held.insert("db".to_owned());
    fleet.settle();
    assert!(slot(&fleet, "w0").is_some());
    // Another process gave it; this cache does not show it yet.
    fleet.hidden_slots.insert("w0".to_owned());
    let decision = fleet.pass("worker", usize::MAX);
    assert_eq!(slot(&fleet, "w1"), None);
    assert!(decision.requeue_after.is_some_and(|after| after <= Duration::from_secs(2)));
    fleet.hidden_slots.clear();
    fleet.node("w0").held.clear();
    fleet.broken_watch = Some("machines: 500".to_owned());
    fleet.settle();
    assert_eq!(running(&fleet, 2), 1, "what has begun is finished");
    let blocked = status(&fleet, "RolloutDegraded");
    assert!(blocked.1 == "WatchFailed" && blocked.2.contains("500"), "{blocked:?}");
    fleet.broken_watch = None;
    fleet.settle();
    assert_eq!(running(&fleet, 2), 2);
}

#[test]
fn a_long_drain_does_not_count_as_time_away() {
    let mut fleet = rolling(1, "automatic");
    fleet.node("w0").held.insert("db".to_owned());
    fleet.settle();
    fleet.wait(Duration::from_secs(2 * 60 * 60));
    fleet.node("w0").machine.ready = false;
    fleet.pass("worker", usize::MAX);
    assert_eq!(fleet.nodes["w0"].state(), "Working");
    fleet.wait(Duration::from_secs(31 * 60));
    fleet.pass("worker", usize::MAX);
    assert_eq!(fleet.nodes["w0"].state(), "Degraded");
    assert!(fleet.nodes["w0"].reason().contains("not back"), "{}", fleet.nodes["w0"].reason());
}

#[test]
fn a_machine_that_does_not_report_after_its_reboot_is_lost() {
    let mut fleet = rolling(1, "automatic");
    fleet.node("w0").reports_nothing = true;
    until(&mut fleet, |fleet| fleet.nodes["w0"].boot > 0);
    // Somebody deletes the Job that would have reported.
    fleet.jobs.retain(|_, job| job.seen.verb != NodeVerb::Apply);
    for _ in 0..4 {
        fleet.settle();
        fleet.wait(Duration::from_secs(11 * 60));
    }
    fleet.settle();
    let node = &fleet.nodes["w0"];
    assert_eq!(node.state(), "Degraded");
    let reason = node.reason();
    assert!(reason.contains("not back") && reason.contains("report failed"), "{reason}");
    fleet.node("w0").reports_nothing = false;
    fleet.wait(Duration::from_secs(11 * 60));
    fleet.settle();
    assert_eq!((running(&fleet, 2), slot(&fleet, "w0")), (1, None));
}
