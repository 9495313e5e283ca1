//! Stories in which a machine runs its target and has another image staged, which any reboot would
//! boot.

use super::fleet::*;
use super::stories::{rolling, running, status};
use crate::*;
use mosb_api::labels;
use std::time::Duration;

/// Machines of the pool that have any image staged.
fn staged(fleet: &Fleet) -> usize {
    fleet.nodes.values().filter(|node| node.pool == "worker" && node.staged.is_some()).count()
}

/// Passes until this holds.
fn until(fleet: &mut Fleet, is: impl Fn(&Fleet) -> bool) {
    for _ in 0..200 {
        if is(fleet) {
            return;
        }
        fleet.pass("worker", usize::MAX);
        fleet.run_jobs();
        fleet.end_pods();
        fleet.boot_all();
    }
    panic!("it never holds");
}

#[test]
fn an_undo_in_the_middle_leaves_nothing_staged() {
    let mut fleet = rolling(4, "automatic");
    until(&mut fleet, |fleet| running(fleet, 2) == 1 && staged(fleet) >= 2);
    fleet.annotate(labels::ROLLOUT_BUILD, &pin(1).to_string());
    fleet.settle();
    assert_eq!((running(&fleet, 1), staged(&fleet)), (4, 0));
    assert_eq!(fleet.reboots.len(), 2, "one machine went to the new image and back");
    // Any reboot is harmless now, and what was staged before counts for nothing.
    fleet.annotate(labels::ROLLOUT_BUILD, "");
    fleet.settle();
    assert_eq!(running(&fleet, 2), 4);
}

#[test]
fn what_is_staged_and_not_in_service_any_more_is_removed_without_a_reboot() {
    let mut fleet = rolling(3, "stage");
    fleet.settle();
    assert_eq!(staged(&fleet), 3);
    fleet.annotate(labels::ROLLOUT_BUILD, &pin(1).to_string());
    // It needs no registry.
    fleet.is_registry_down = true;
    fleet.settle();
    assert_eq!((running(&fleet, 1), staged(&fleet), fleet.reboots.len()), (3, 0, 0));
    let marks = fleet
        .nodes
        .values()
        .filter_map(|node| node.machine.metadata.annotation(labels::NODE_STAGED));
    assert_eq!(marks.count(), 0, "and the nodes show it");
}

#[test]
fn what_is_being_staged_when_the_pool_goes_back_is_removed_afterwards() {
    let mut fleet = rolling(2, "automatic");
    let has_begun = |fleet: &Fleet| {
        let mut jobs = fleet.jobs.values();
        jobs.any(|job| job.seen.verb == NodeVerb::Stage && job.seen.has_login)
    };
    for _ in 0..10 {
        if !has_begun(&fleet) {
            fleet.pass("worker", usize::MAX);
        }
    }
    assert!(has_begun(&fleet) && staged(&fleet) == 0);
    fleet.annotate(labels::ROLLOUT_BUILD, &pin(1).to_string());
    fleet.pass("worker", usize::MAX);
    fleet.run_jobs();
    assert!(staged(&fleet) > 0, "the machine stages on its own");
    fleet.settle();
    assert_eq!((staged(&fleet), fleet.reboots.len(), fleet.jobs.len()), (0, 0, 0));
}

#[test]
fn what_was_not_begun_to_be_staged_when_the_pool_goes_back_is_not_begun() {
    let mut fleet = rolling(1, "automatic");
    let is_of = |job: &MachineJob, number: u32| {
        job.verb == NodeVerb::Stage
            && job.target.as_ref().is_some_and(|target| target.image == image(number))
    };
    while !fleet.jobs.values().any(|job| is_of(&job.seen, 2)) {
        fleet.pass("worker", usize::MAX);
    }
    assert!(fleet.jobs.values().all(|job| !job.seen.has_login));
    fleet.annotate(labels::ROLLOUT_BUILD, &pin(1).to_string());
    fleet.pass("worker", usize::MAX);
    assert!(!fleet.jobs.values().any(|job| is_of(&job.seen, 2)));
}

#[test]
fn a_roll_out_that_happens_once_ends_when_nothing_else_is_staged() {
    let mut fleet = rolling(3, "stage");
    fleet.settle();
    assert_eq!(staged(&fleet), 3);
    fleet.settings.staging_per_registry = 1;
    fleet.annotate(labels::ROLLOUT, "none");
    // As `mosb rollout undo` does.
    fleet.annotate(labels::ROLLOUT_BUILD, &pin(1).to_string());
    fleet.annotate(labels::ROLLOUT_ONCE, &pin(1).to_string());
    fleet.settle();
    assert_eq!((running(&fleet, 1), staged(&fleet)), (3, 0));
    assert_eq!(fleet.configs["worker"].metadata.annotation(labels::ROLLOUT_ONCE), None);
}

#[test]
fn a_controller_that_is_killed_at_any_write_of_an_undo_ends_the_same() {
    for kill_after in 0..12 {
        let mut fleet = rolling(3, "automatic");
        until(&mut fleet, |fleet| staged(fleet) == 3);
        let reboots = fleet.reboots.len();
        fleet.annotate(labels::ROLLOUT_BUILD, &pin(1).to_string());
        for round in 0..20 {
            fleet.pass("worker", (kill_after + round) % 5);
            fleet.run_jobs();
            fleet.end_pods();
            fleet.boot_all();
        }
        fleet.settle();
        assert_eq!((running(&fleet, 1), staged(&fleet)), (3, 0), "killed after {kill_after}");
        assert_eq!(fleet.reboots.len(), reboots, "killed after {kill_after}");
        assert!(fleet.jobs.is_empty(), "killed after {kill_after}");
    }
}

#[test]
fn a_job_that_ended_well_and_left_the_other_image_staged_is_tried_again() {
    let mut fleet = rolling(1, "stage");
    fleet.settle();
    fleet.annotate(labels::ROLLOUT_BUILD, &pin(1).to_string());
    fleet.pass("worker", usize::MAX);
    let report = Box::new(fleet.nodes["w0"].report());
    let job = fleet.jobs.values_mut().next().unwrap();
    job.seen.phase = JobPhase::Succeeded(report);
    fleet.wait(Duration::from_secs(61));
    fleet.settle();
    assert_eq!((staged(&fleet), fleet.jobs.len()), (0, 0));
}

#[test]
fn an_image_that_stays_staged_is_reported_after_three_tries() {
    let mut fleet = rolling(2, "stage");
    fleet.settle();
    fleet.node("w0").holds_staged = true;
    fleet.annotate(labels::ROLLOUT_BUILD, &pin(1).to_string());
    for _ in 0..4 {
        fleet.settle();
        fleet.wait(Duration::from_secs(601));
    }
    let node = &fleet.nodes["w0"];
    assert_eq!((node.state(), staged(&fleet)), ("Degraded", 1));
    assert!(node.reason().contains("still staged"), "{}", node.reason());
    assert_eq!(status(&fleet, "NodeDegraded").0, "True");
    fleet.node("w0").holds_staged = false;
    fleet.wait(Duration::from_secs(601));
    fleet.settle();
    assert_eq!((fleet.nodes["w0"].state(), staged(&fleet)), ("Done", 0));
    assert!(fleet.reboots.is_empty());
}
