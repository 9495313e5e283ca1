//! Stories in which machines boot the target and run another image again.

use super::failures::HALF_AN_HOUR;
use super::fleet::*;
use super::machine::FakeNode;
use super::requests::{carry_out, change};
use super::stories::{rolling, running, status};
use crate::*;
use mosb_api::labels;
use std::time::Duration;

/// Name, reboots by the roll-out, and whether it is cordoned.
fn state(fleet: &Fleet, name: &str) -> (String, usize, bool) {
    let node = &fleet.nodes[name];
    let uid = format!("{} ", node.machine.metadata.uid());
    let reboots = fleet.reboots.keys().filter(|key| key.starts_with(&uid)).count();
    (node.state().to_owned(), reboots, node.machine.unschedulable)
}

/// Its health check goes back once it is in service again.
#[test]
fn a_machine_that_falls_back_gets_its_image_only_by_request() {
    let mut fleet = rolling(3, "automatic");
    fleet.node("w2").falls_back.insert(image(2).digest());
    fleet.settle();
    let degraded = |reboots| ("Degraded".to_owned(), reboots, false);
    assert_eq!((state(&fleet, "w2"), running(&fleet, 2)), (degraded(1), 2), "the others go on");
    let reason = fleet.nodes["w2"].reason();
    assert!(reason.contains("and then another image; it does not get it again"), "{reason}");
    assert!(status(&fleet, "NodeDegraded").2.contains("w2"));
    for minutes in [5, 60, 6000] {
        fleet.wait(Duration::from_secs(60 * minutes));
        fleet.settle();
        assert_eq!(state(&fleet, "w2"), degraded(1), "after {minutes} minutes");
    }
    let reason = fleet.nodes["w2"].reason();
    assert!(reason.contains("mosb rollout start worker"), "{reason}");
    // A person asks for it; then a corrected image comes.
    carry_out(&mut fleet, &RolloutRequest::Start);
    fleet.settle();
    assert_eq!(state(&fleet, "w2"), degraded(2));
    fleet.serve("worker", 3);
    fleet.settle();
    assert_eq!((running(&fleet, 3), &*state(&fleet, "w2").0), (3, "Done"));
    let marks = |node: &FakeNode| node.machine.metadata.annotations.clone();
    assert!(fleet.nodes.values().all(|node| !marks(node).contains_key(labels::NODE_FALLBACK)));
}

/// Its boot check goes back before the roll-out sees it in service.
#[test]
fn a_machine_that_goes_back_is_in_service_again() {
    let mut fleet = rolling(3, "automatic");
    fleet.node("w2").goes_back.insert(image(2).digest());
    fleet.settle();
    assert_eq!(running(&fleet, 2), 2, "the others go on");
    for minutes in [0, 60, 6000] {
        fleet.wait(Duration::from_secs(60 * minutes));
        fleet.settle();
        assert_eq!(state(&fleet, "w2"), ("Degraded".to_owned(), 1, false), "{minutes} minutes");
        assert_eq!(fleet.nodes["w2"].slot(), None, "{minutes} minutes");
    }
    for text in [fleet.nodes["w2"].reason(), &status(&fleet, "NodeDegraded").2] {
        assert!(text.contains("went back by itself: its check failed; it does not"), "{text}");
    }
    // A person asks for it.
    fleet.node("w2").goes_back.clear();
    carry_out(&mut fleet, &RolloutRequest::Start);
    fleet.settle();
    assert_eq!((running(&fleet, 2), state(&fleet, "w2")), (3, ("Done".to_owned(), 2, false)));
}

/// What the machine runs is not decided yet.
#[test]
fn a_slot_ends_after_the_checks_of_the_boot() {
    let mut fleet = rolling(1, "automatic");
    fleet.node("w0").checks_nothing = true;
    for _ in 0..20 {
        fleet.pass("worker", usize::MAX);
        fleet.run_jobs();
        fleet.end_pods();
        fleet.boot_all();
        fleet.wait(Duration::from_secs(10));
    }
    let node = &fleet.nodes["w0"];
    assert!(node.booted == image(2).digest() && node.slot().is_some(), "{}", node.reason());
    fleet.node("w0").checks_nothing = false;
    fleet.wait(HALF_AN_HOUR);
    fleet.settle();
    assert_eq!((fleet.nodes["w0"].slot(), fleet.nodes["w0"].state()), (None, "Done"));
}

#[test]
fn a_machine_that_keeps_its_image_is_done() {
    let mut fleet = rolling(2, "automatic");
    fleet.node("w1").falls_back.insert(image(2).digest());
    fleet.settle();
    assert_eq!((running(&fleet, 2), fleet.nodes["w1"].state()), (1, "Degraded"));
    fleet.node("w1").falls_back.clear();
    carry_out(&mut fleet, &RolloutRequest::Start);
    fleet.settle();
    assert_eq!((running(&fleet, 2), fleet.nodes["w1"].state()), (2, "Done"));
    assert_eq!(&*status(&fleet, "NodeDegraded").0, "False");
}

#[test]
fn without_a_roll_out_no_fallback_counts() {
    let mut fleet = rolling(1, "automatic");
    fleet.node("w0").falls_back.insert(image(2).digest());
    fleet.settle();
    assert_eq!(fleet.nodes["w0"].state(), "Degraded");
    fleet.annotate(labels::ROLLOUT, "none");
    fleet.settle();
    assert_eq!(fleet.nodes["w0"].state(), "Done");
}

#[test]
fn two_machines_that_fell_back_stop_the_pool_until_a_person_starts_it() {
    let mut fleet = rolling(4, "automatic");
    for name in ["w0", "w1"] {
        fleet.node(name).falls_back.insert(image(2).digest());
    }
    for _ in 0..10 {
        fleet.settle();
        fleet.wait(HALF_AN_HOUR);
    }
    let (_, reason, message) = status(&fleet, "RolloutDegraded");
    // Another machine had its turn between the two.
    assert_eq!(
        (&*reason, running(&fleet, 2)),
        ("MachinesFailed", 1),
        "{message} {:?}",
        fleet.reboots
    );
    assert!(message.contains("failed at the target: w0, w1"), "{message}");
    assert_eq!(fleet.reboots.len(), 3, "{:?}", fleet.reboots);
    for name in ["w0", "w1"] {
        fleet.node(name).falls_back.clear();
    }
    let started = carry_out(&mut fleet, &RolloutRequest::Start);
    assert_eq!(started.notes[..2], ["w0 tries again", "w1 tries again"]);
    assert!(change(&fleet, &RolloutRequest::Start).unwrap().is_empty());
    fleet.settle();
    assert_eq!((running(&fleet, 2), &*status(&fleet, "RolloutDegraded").0), (4, "False"));
}

#[test]
fn a_machine_that_falls_back_before_it_reports_is_seen() {
    let mut fleet = rolling(2, "stage");
    fleet.settle();
    let node = fleet.node("w0");
    assert!(node.staged.is_some());
    node.reboot();
    fleet.pass("worker", usize::MAX);
    fleet.node("w0").boot_up();
    fleet.pass("worker", usize::MAX);
    fleet.node("w0").go_back();
    fleet.settle();
    for _ in 0..3 {
        let node = &fleet.nodes["w0"];
        assert_eq!((node.staged, node.state()), (None, "Degraded"), "{}", node.reason());
        fleet.wait(HALF_AN_HOUR);
        fleet.settle();
    }
    // A machine that loses power before that is written did not boot it.
    fleet.node("w1").boot_again();
    fleet.settle();
    let node = &fleet.nodes["w1"];
    assert_eq!((node.staged.is_some(), node.state()), (true, "Done"));
}

/// Others reboot the machines of such a pool.
#[test]
fn an_image_that_a_machine_left_is_not_staged_again() {
    let mut fleet = rolling(2, "stage");
    fleet.settle();
    fleet.node("w0").falls_back.insert(image(2).digest());
    fleet.node("w0").reboot();
    for minutes in [0, 6, 600] {
        fleet.wait(Duration::from_secs(60 * minutes));
        fleet.settle();
        fleet.settle();
        let node = &fleet.nodes["w0"];
        assert_eq!((node.staged.is_some(), node.state()), (false, "Degraded"), "{minutes}");
    }
    assert_eq!(fleet.reboots.len(), 0);
}

/// A machine that others rebooted is confirmed by its report, and one that is not is asked again.
#[test]
fn what_a_machine_runs_is_confirmed_once() {
    let mut fleet = rolling(1, "stage");
    fleet.settle();
    let node = fleet.node("w0");
    node.reboot();
    node.boot_up();
    assert!(node.is_unconfirmed);
    fleet.settle();
    assert!(!fleet.nodes["w0"].is_unconfirmed);
    let jobs: Vec<String> = fleet.jobs.keys().cloned().collect();
    fleet.wait(HALF_AN_HOUR);
    fleet.settle();
    assert_eq!(fleet.jobs.keys().cloned().collect::<Vec<_>>(), jobs);
    // An earlier version of the controller did not.
    fleet.node("w0").is_unconfirmed = true;
    let report = fleet.nodes["w0"].report().to_json();
    let annotations = &mut fleet.node("w0").machine.metadata.annotations;
    annotations.insert(labels::NODE_REPORT.to_owned(), report);
    fleet.jobs.clear();
    fleet.settle();
    assert!(!fleet.nodes["w0"].is_unconfirmed);
}
