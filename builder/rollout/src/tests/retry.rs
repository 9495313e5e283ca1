//! Stories in which a machine did not boot its target, its cause is mended, and a person lets it try
//! again.

use super::fleet::*;
use super::requests::{carry_out, change};
use super::stories::{rolling, running, status};
use crate::*;
use mosb_api::labels;
use mosb_api::rollout::Slot;
use mosb_cluster::cluster_cache::SeenMachine;
use mosb_reconcile::fake_api::FakeApi;
use serde_json::json;
use std::time::Duration;

const HALF_AN_HOUR: Duration = Duration::from_secs(31 * 60);

/// A pool in which `w0` did not boot build 2, such as for a full `/boot`.
fn failed(machines: usize, mode: &str) -> Fleet {
    let mut fleet = rolling(machines, mode);
    fleet.node("w0").not_bootable.insert(image(2).digest());
    if mode != "automatic" {
        carry_out(&mut fleet, &RolloutRequest::Start);
    }
    fleet.settle();
    assert_eq!((fleet.nodes["w0"].state(), fleet.reboots.len()), ("Degraded", 1));
    fleet
}

fn slot(fleet: &Fleet) -> Slot {
    fleet.nodes["w0"].slot().unwrap()
}

/// What `kubectl` does to the node.
fn edit(fleet: &mut Fleet, edit: impl FnOnce(&mut SeenMachine)) {
    let version = fleet.next_version();
    let machine = &mut fleet.node("w0").machine;
    machine.metadata.resource_version = Some(version);
    edit(machine);
}

#[test]
fn start_lets_a_failed_machine_try_again_and_nothing_is_retried_by_itself() {
    for mode in ["automatic", "none"] {
        let mut fleet = failed(3, mode);
        fleet.node("w0").not_bootable.clear();
        for _ in 0..3 {
            fleet.wait(HALF_AN_HOUR);
            fleet.settle();
        }
        assert_eq!((running(&fleet, 2), fleet.reboots.len()), (0, 1), "{mode}: not by itself");
        let started = carry_out(&mut fleet, &RolloutRequest::Start);
        let question = started.question.unwrap();
        assert!(question.contains("3 machines"), "{question}");
        assert_eq!(started.notes, ["w0 tries again: attempt 2"], "{mode}");
        assert_eq!(slot(&fleet).attempt, 2);
        assert_eq!(slot(&fleet).boot_id, fleet.nodes["w0"].machine.boot_id);
        // Asked twice, it is the same attempt.
        assert!(change(&fleet, &RolloutRequest::Start).unwrap().is_empty(), "{mode}");
        fleet.settle();
        assert_eq!((running(&fleet, 2), fleet.reboots.len()), (3, 4), "{mode}");
        assert_eq!(status(&fleet, "NodeDegraded").0, "False");
        assert!(fleet.nodes.values().all(|node| node.slot().is_none()));
    }
}

#[test]
fn a_machine_that_fails_again_is_degraded_again_after_one_reboot() {
    let mut fleet = failed(2, "automatic");
    for reboots in 2..6 {
        carry_out(&mut fleet, &RolloutRequest::Start);
        fleet.settle();
        assert_eq!((fleet.nodes["w0"].state(), fleet.reboots.len()), ("Degraded", reboots));
        assert_eq!(usize::try_from(slot(&fleet).attempt).unwrap(), reboots);
    }
    assert_eq!(running(&fleet, 2), 0);
}

#[test]
fn a_power_cut_of_a_retry_is_another_attempt_at_most_three() {
    let mut fleet = failed(1, "automatic");
    fleet.node("w0").not_bootable.clear();
    carry_out(&mut fleet, &RolloutRequest::Start);
    for attempt in 2..5 {
        for _ in 0..20 {
            if !fleet.nodes["w0"].is_down {
                fleet.pass("worker", usize::MAX);
                fleet.run_jobs();
                fleet.end_pods();
            }
        }
        assert!(fleet.nodes["w0"].is_down, "attempt {attempt}");
        assert_eq!(slot(&fleet).attempt, attempt);
        let node = fleet.node("w0");
        node.booted = image(1).digest();
        node.cut_power();
        fleet.boot_all();
    }
    fleet.settle();
    assert_eq!((fleet.nodes["w0"].state(), slot(&fleet).attempt), ("Degraded", 4));
    assert_eq!(fleet.reboots.len(), 4);
}

#[test]
fn without_its_slot_and_uncordoned_a_machine_tries_again_with_the_next_attempt() {
    let mut fleet = failed(3, "automatic");
    fleet.node("w0").not_bootable.clear();
    // Only the annotation: who cordoned the node is not known any more, so it stays cordoned.
    edit(&mut fleet, |machine| {
        machine.metadata.annotations.remove(labels::NODE_SLOT);
    });
    fleet.settle();
    let node = &fleet.nodes["w0"];
    assert!(node.machine.unschedulable && node.slot().is_none());
    assert_eq!((running(&fleet, 2), fleet.reboots.len()), (0, 1));
    edit(&mut fleet, |machine| machine.unschedulable = false);
    fleet.node("w0").schedule_pods();
    while fleet.nodes["w0"].slot().is_none() {
        fleet.pass("worker", usize::MAX);
        fleet.run_jobs();
    }
    assert_eq!((slot(&fleet).attempt, slot(&fleet).first_attempt), (2, 2));
    fleet.settle();
    assert_eq!((running(&fleet, 2), fleet.reboots.len()), (3, 4));
}

#[test]
fn a_pin_to_another_build_and_back_is_another_try() {
    let mut fleet = failed(2, "automatic");
    fleet.node("w0").not_bootable.clear();
    fleet.annotate(labels::ROLLOUT_BUILD, &pin(1).to_string());
    fleet.settle();
    assert!(fleet.nodes["w0"].slot().is_none() && !fleet.nodes["w0"].machine.unschedulable);
    carry_out(&mut fleet, &RolloutRequest::Start);
    fleet.settle();
    assert_eq!((running(&fleet, 2), fleet.reboots.len()), (2, 3));
}

#[test]
fn in_a_paused_pool_a_machine_that_may_try_again_waits_without_a_slot() {
    let mut fleet = failed(2, "automatic");
    fleet.node("w0").not_bootable.clear();
    fleet.pool().spec.paused = true;
    let started = carry_out(&mut fleet, &RolloutRequest::Start);
    assert!(started.question.is_none() && started.notes.join(" ").contains("paused"));
    fleet.settle();
    assert!(fleet.nodes["w0"].slot().is_none() && !fleet.nodes["w0"].machine.unschedulable);
    fleet.pool().spec.paused = false;
    fleet.settle();
    assert_eq!((running(&fleet, 2), fleet.reboots.len()), (2, 3));
}

#[test]
fn a_controller_that_is_killed_at_any_write_of_a_retry_ends_the_same() {
    for kill_after in 0..12 {
        let mut fleet = failed(2, "automatic");
        fleet.node("w0").not_bootable.clear();
        carry_out(&mut fleet, &RolloutRequest::Start);
        for round in 0..30 {
            fleet.pass("worker", (kill_after + round) % 4);
            fleet.run_jobs();
            fleet.end_pods();
            fleet.boot_all();
        }
        fleet.settle();
        assert_eq!((running(&fleet, 2), fleet.reboots.len()), (2, 3), "killed after {kill_after}");
        assert!(fleet.jobs.is_empty(), "killed after {kill_after}");
    }
}

#[test]
fn a_machine_that_did_not_fail_is_not_rewritten() {
    let retries = |fleet: &Fleet| change(fleet, &RolloutRequest::Start).unwrap().retries.len();
    let mut fleet = failed(2, "automatic");
    assert_eq!(retries(&fleet), 1);
    // The report of an earlier mosb does not have the attempt, and the slot does.
    fleet.node("w0").record = None;
    let report = fleet.nodes["w0"].report().to_json();
    edit(&mut fleet, |machine| {
        machine.metadata.annotations.insert(labels::NODE_REPORT.to_owned(), report);
    });
    fleet.jobs.clear();
    let change = change(&fleet, &RolloutRequest::Start).unwrap();
    assert_eq!(change.retries[0].slot.as_ref().unwrap().attempt, 2);
    // On its way.
    let mut fleet = rolling(2, "automatic");
    while !fleet.nodes["w0"].is_down {
        fleet.pass("worker", usize::MAX);
        fleet.run_jobs();
        fleet.end_pods();
    }
    assert_eq!(retries(&fleet), 0);
    // Not back.
    fleet.node("w0").is_lost = true;
    fleet.wait(HALF_AN_HOUR);
    fleet.pass("worker", usize::MAX);
    assert_eq!((fleet.nodes["w0"].state(), retries(&fleet)), ("Degraded", 0));
    // It is tried again already.
    let mut fleet = rolling(1, "automatic");
    fleet.node("w0").is_busy = true;
    fleet.settle();
    assert_eq!((fleet.nodes["w0"].state(), retries(&fleet)), ("Degraded", 1));
    fleet.wait(HALF_AN_HOUR);
    while slot(&fleet).applying.is_none() {
        fleet.pass("worker", usize::MAX);
    }
    assert!(slot(&fleet).failure.is_some());
    assert_eq!(retries(&fleet), 0);
    // What it runs is not known, or is the target.
    let mut fleet = failed(2, "automatic");
    fleet.node("w0").boot_again();
    fleet.jobs.clear();
    assert_eq!(retries(&fleet), 0);
    fleet.node("w0").booted = image(2).digest();
    let report = fleet.nodes["w0"].report().to_json();
    edit(&mut fleet, |machine| {
        machine.metadata.annotations.insert(labels::NODE_REPORT.to_owned(), report);
    });
    assert_eq!(retries(&fleet), 0);
    // It failed at another target, which the controller replaces within its slot.
    let mut fleet = failed(2, "automatic");
    fleet.serve("worker", 3);
    assert_eq!(retries(&fleet), 0);
}

#[tokio::test]
async fn a_retry_removes_the_record_of_fallbacks() {
    let api = FakeApi::new(
        |_| json!({ "apiVersion": "v1", "kind": "Node", "metadata": { "name": "w0" } }),
    );
    let retry = Retry { node: "w0".to_owned(), resource_version: "7".to_owned(), slot: None };
    let change = RolloutChange { retries: vec![retry], ..RolloutChange::default() };
    write_request(&api.client, &RolloutSnapshot::default(), &change).await.unwrap();
    let want = json!({ "metadata": {
        "resourceVersion": "7", "annotations": { labels::NODE_FALLBACK: null, labels::NODE_SOAK: null },
    } });
    let patches: Vec<_> = api.requests().into_iter().map(|request| request.body).collect();
    assert_eq!(patches, [want]);
}
