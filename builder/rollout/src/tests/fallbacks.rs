//! Stories in which machines boot the target and run another image again.

use super::failures::HALF_AN_HOUR;
use super::fleet::*;
use super::machine::FakeNode;
use super::requests::{carry_out, change};
use super::stories::{rolling, running, status};
use crate::*;
use mosb_api::labels;
use std::time::Duration;

/// Its health check goes back once it is in service again.
#[test]
fn a_machine_that_falls_back_gets_its_image_with_pauses_and_a_limit() {
    let mut fleet = rolling(3, "automatic");
    fleet.node("w2").falls_back.insert(image(2).digest());
    fleet.settle();
    let state = |fleet: &Fleet| {
        let node = &fleet.nodes["w2"];
        let uid = format!("{} ", node.machine.metadata.uid());
        let reboots = fleet.reboots.keys().filter(|key| key.starts_with(&uid)).count();
        (node.state().to_owned(), reboots, node.machine.unschedulable)
    };
    let degraded = |reboots| ("Degraded".to_owned(), reboots, false);
    assert_eq!((state(&fleet), running(&fleet, 2)), (degraded(1), 2), "the others go on");
    assert!(fleet.nodes["w2"].reason().contains("1 of 3 times"), "{}", fleet.nodes["w2"].reason());
    assert!(status(&fleet, "NodeDegraded").2.contains("w2"));
    fleet.wait(Duration::from_secs(200));
    let next = fleet.settle().iter().filter_map(|one| one.requeue_after).min();
    assert_eq!(state(&fleet), degraded(1));
    assert!(next.is_some_and(|after| after <= Duration::from_secs(100)), "{next:?}");
    for (minutes, reboots) in [(2, 2), (8, 2), (3, 3), (60, 3), (600, 3)] {
        fleet.wait(Duration::from_secs(60 * minutes));
        fleet.settle();
        assert_eq!(state(&fleet), degraded(reboots), "after {minutes} minutes");
    }
    let reason = fleet.nodes["w2"].reason();
    assert!(reason.contains("mosb rollout start worker"), "{reason}");
    // A person asks for it; then a corrected image comes.
    carry_out(&mut fleet, &RolloutRequest::Start);
    fleet.settle();
    assert_eq!(state(&fleet), degraded(4));
    fleet.serve("worker", 3);
    fleet.settle();
    assert_eq!((running(&fleet, 3), state(&fleet).0), (3, "Done".to_owned()));
    let marks = |node: &FakeNode| node.machine.metadata.annotations.clone();
    assert!(fleet.nodes.values().all(|node| !marks(node).contains_key(labels::NODE_FALLBACK)));
}

#[test]
fn a_machine_that_keeps_its_image_is_done() {
    let mut fleet = rolling(2, "automatic");
    fleet.node("w1").falls_back.insert(image(2).digest());
    fleet.settle();
    assert_eq!((running(&fleet, 2), fleet.nodes["w1"].state()), (1, "Degraded"));
    fleet.node("w1").falls_back.clear();
    fleet.wait(Duration::from_secs(301));
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
    // Another machine had its turn between the two; the first one had it again, or not.
    assert_eq!(
        (&*reason, running(&fleet, 2)),
        ("MachinesFailed", 1),
        "{message} {:?}",
        fleet.reboots
    );
    assert!(message.contains("failed at the target: w0, w1"), "{message}");
    assert!((3..=4).contains(&fleet.reboots.len()), "{:?}", fleet.reboots);
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
    for times in 1..=3 {
        let node = fleet.node("w0");
        assert!(node.staged.is_some(), "{times}");
        node.reboot();
        fleet.pass("worker", usize::MAX);
        fleet.node("w0").boot_up();
        fleet.pass("worker", usize::MAX);
        fleet.node("w0").go_back();
        fleet.settle();
        let node = &fleet.nodes["w0"];
        assert_eq!((node.staged, node.state()), (None, "Degraded"), "{times}");
        let reason = node.reason();
        assert!(reason.contains(&format!("{times} of 3 times")), "{reason}");
        fleet.wait(HALF_AN_HOUR);
        fleet.settle();
    }
    assert_eq!(fleet.nodes["w0"].staged, None, "three times at most");
    // A machine that loses power before that is written did not boot it.
    fleet.node("w1").boot_again();
    fleet.settle();
    let node = &fleet.nodes["w1"];
    assert_eq!((node.staged.is_some(), node.state()), (true, "Done"));
}

/// Others reboot the machines of such a pool.
#[test]
fn an_image_that_a_machine_fell_back_from_is_staged_after_a_pause() {
    let mut fleet = rolling(2, "stage");
    fleet.settle();
    fleet.node("w0").falls_back.insert(image(2).digest());
    fleet.node("w0").reboot();
    for (minutes, is_staged) in [(0, false), (3, false), (3, true)] {
        fleet.wait(Duration::from_secs(60 * minutes));
        fleet.settle();
        fleet.settle();
        let node = &fleet.nodes["w0"];
        assert_eq!((node.staged.is_some(), node.state()), (is_staged, "Degraded"), "{minutes}");
    }
    assert_eq!(fleet.reboots.len(), 0);
}
