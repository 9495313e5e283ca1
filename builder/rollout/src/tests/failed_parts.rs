//! Changes without a reboot that fail on machines, or after which machines are away: they reach no
//! more than two.

use super::fleet::*;
use super::machine::FakeNode;
use super::machine_parts::{has, with_part};
use super::stories::{rolling, status};
use crate::RolloutEffect;
use crate::effect::Action;
use crate::machine_state::MachineState;
use crate::part_jobs::part_failure;
use crate::*;
use std::collections::BTreeSet;
use std::time::Duration;

/// Keys, and files that come live.
#[test]
fn two_machines_that_failed_without_a_reboot_stop_the_pool() {
    for is_live in [false, true] {
        let mut fleet = with_part(40, "automatic");
        if is_live {
            fleet.serve_live("worker", 3, 2);
        } else {
            fleet.serve_part("worker", 3, 2, part(1, 2));
        }
        fleet.nodes.values_mut().for_each(|node| node.refuses_part = true);
        let mut tried = BTreeSet::new();
        for _ in 0..60 {
            fleet.pass("worker", usize::MAX);
            let parts = fleet.jobs.values().filter(|job| job.seen.verb == NodeVerb::Part);
            tried.extend(parts.map(|job| job.node.clone()));
            fleet.run_jobs();
            fleet.wait(Duration::from_secs(61));
        }
        let (_, reason, message) = status(&fleet, "RolloutDegraded");
        assert_eq!((tried.len(), &*reason), (2, "MachinesFailed"), "{is_live}: {tried:?}");
        let is_named = tried.iter().all(|name| message.contains(&format!("{name}: ")));
        assert!(is_named && message.contains(": no user core"), "{message}");
        assert_eq!(fleet.reboots.len(), 40, "{is_live}");
        // What two of them had is repaired.
        fleet.nodes.values_mut().for_each(|node| node.refuses_part = false);
        fleet.wait(Duration::from_secs(601));
        fleet.settle();
        assert_eq!(&*status(&fleet, "Updated").0, "True", "{is_live}");
        assert_eq!(&*status(&fleet, "RolloutDegraded").0, "False", "{is_live}");
    }
}

#[test]
fn two_machines_that_go_away_while_they_change_stop_the_pool() {
    let mut fleet = with_part(6, "automatic");
    fleet.serve_part("worker", 3, 2, part(1, 2));
    for _ in 0..12 {
        fleet.pass("worker", usize::MAX);
        let parts = fleet.jobs.values().filter(|job| job.seen.verb == NodeVerb::Part);
        let names: Vec<String> = parts.map(|job| job.node.clone()).collect();
        names.iter().filter(|_| fleet.jobs.values().all(|job| job.seen.has_login)).for_each(
            |name| {
                fleet.nodes.get_mut(name).unwrap().go_away();
            },
        );
    }
    assert_eq!(fleet.nodes.values().filter(|node| node.is_lost).count(), 2);
    let (_, reason, message) = status(&fleet, "RolloutDegraded");
    assert_eq!(reason, "MachinesFailed");
    assert!(message.contains("it is not Ready"), "{message}");
    fleet.nodes.values_mut().for_each(|node| node.is_lost = false);
    fleet.settle();
    assert_eq!((has(&fleet, 2, part(1, 2)), fleet.reboots.len()), (6, 6));
}

#[test]
fn a_machine_that_failed_without_a_reboot_comes_last() {
    let mut fleet = with_part(2, "automatic");
    fleet.serve_part("worker", 3, 2, part(1, 2));
    fleet.node("w0").refuses_part = true;
    let changing = |fleet: &mut Fleet| -> Vec<String> {
        // The second pass gives the Job its login.
        (0..2).for_each(|_| drop(fleet.pass("worker", usize::MAX)));
        let parts = fleet.jobs.values().filter(|job| job.seen.verb == NodeVerb::Part);
        let running = parts.filter(|job| job.seen.phase == JobPhase::Running);
        running.map(|job| job.node.clone()).collect()
    };
    assert_eq!(changing(&mut fleet), ["w0"]);
    fleet.run_jobs();
    fleet.wait(Duration::from_secs(61));
    assert_eq!(changing(&mut fleet), ["w1"]);
}

#[test]
fn which_changes_without_a_reboot_have_failed() {
    let mut fleet = with_part(1, "automatic");
    fleet.serve_part("worker", 3, 2, part(1, 2));
    (0..2).for_each(|_| drop(fleet.pass("worker", usize::MAX)));
    let over = Duration::from_secs(361);
    type Change = fn(&mut Fleet, &mut MachineJob);
    let cases: [(&str, Change, Duration, Option<&str>); 8] = [
        ("it runs", |_, _| {}, Duration::ZERO, None),
        (
            "its machine is away",
            |fleet, _| fleet.node("w0").go_away(),
            over,
            Some("it is not Ready"),
        ),
        (
            "it has not begun",
            |fleet, job| {
                fleet.node("w0").go_away();
                job.has_login = false;
            },
            over,
            None,
        ),
        ("it does not end", |_, _| {}, over, Some("its Job does not end")),
        ("its end is not seen", |_, job| job.awaits_pod = Some(Duration::ZERO), over, None),
        (
            "it was rebooted meanwhile",
            |_, job| job.phase = JobPhase::Succeeded(Box::default()),
            Duration::ZERO,
            None,
        ),
        (
            "the machine has it",
            |_, job| {
                let target = job.target.as_mut().unwrap();
                target.machine_part = Some(part(1, 1));
                let message = "no user core".to_owned();
                job.phase =
                    JobPhase::Failed { exit_code: Some(1), report: None, message, at: None };
            },
            Duration::ZERO,
            None,
        ),
        ("it is tried again", |_, job| job.number = 2, Duration::ZERO, Some("it is tried again")),
    ];
    for (what, change, time, want) in cases {
        let mut fleet = fleet.clone();
        let part = fleet.jobs.iter().find(|(_, job)| job.seen.verb == NodeVerb::Part);
        let (name, mut seen) = part.map(|(name, job)| (name.clone(), job.seen.clone())).unwrap();
        change(&mut fleet, &mut seen);
        let target = seen.target.clone().unwrap();
        fleet.jobs.get_mut(&name).unwrap().seen = seen;
        fleet.wait(time);
        let snapshot = fleet.snapshot("worker");
        let found = part_failure(&MachineState::of(&snapshot.machines[0]), &target, fleet.now);
        assert_eq!(found.as_deref(), want, "{what}");
    }
}

/// Whether they are to be rebooted or not.
#[test]
fn two_machines_that_failed_without_a_reboot_stop_slots() {
    let mut fleet = with_part(2, "automatic");
    fleet.serve_part("worker", 3, 2, part(1, 2));
    fleet.nodes.values_mut().for_each(|node| node.refuses_part = true);
    fleet.settle();
    fleet.wait(Duration::from_secs(61));
    fleet.settle();
    fleet.add_node("w2", "worker", 1);
    fleet.settle();
    assert_eq!(&*status(&fleet, "RolloutDegraded").1, "MachinesFailed");
    assert_eq!((fleet.nodes["w2"].booted, fleet.reboots.len()), (image(1).digest(), 2));
}

#[test]
fn only_ready_machines_of_one_kind_count() {
    for (what, change, want) in [
        ("they have it", (|_| {}) as fn(&mut Fleet), 2),
        ("they are away", |fleet| has_three(fleet).for_each(FakeNode::go_away), 1),
        ("they booted it", |fleet| has_three(fleet).for_each(FakeNode::reboot), 1),
    ] {
        let mut fleet = rolling(6, "automatic");
        fleet.settle();
        fleet.serve_live("worker", 3, 2);
        for _ in 0..50 {
            if has_three(&mut fleet).count() == 2 {
                break;
            }
            fleet.pass("worker", usize::MAX);
            fleet.run_jobs();
        }
        fleet.pool().spec.paused = true;
        fleet.settle();
        assert_eq!(has_three(&mut fleet).count(), 2, "{what}");
        change(&mut fleet);
        fleet.settle();
        fleet.pool().spec.paused = false;
        fleet.pass("worker", usize::MAX);
        let parts = fleet.jobs.values().filter(|job| job.seen.verb == NodeVerb::Part);
        let running = parts.filter(|job| job.seen.phase == JobPhase::Running);
        assert_eq!(running.count(), want, "{what}");
    }
}

/// The machines of the pool with the files of image 3.
fn has_three(fleet: &mut Fleet) -> impl Iterator<Item = &mut FakeNode> {
    let three = image(3).digest();
    fleet.nodes.values_mut().filter(move |node| node.files == three)
}

#[test]
fn a_machine_that_stages_is_not_changed_meanwhile() {
    let mut fleet = with_part(1, "automatic");
    fleet.serve("worker", 3);
    (0..2).for_each(|_| drop(fleet.pass("worker", usize::MAX)));
    assert!(fleet.jobs.values().any(|job| job.seen.verb == NodeVerb::Stage));
    fleet.serve_part("worker", 4, 2, part(1, 2));
    let decision = fleet.decide("worker");
    let is_part = |action: &Action| match action {
        Action::Effect(RolloutEffect::CreateJob(request)) => request.verb == NodeVerb::Part,
        _ => false,
    };
    assert!(!decision.actions.iter().any(is_part), "{decision:?}");
    fleet.settle();
    assert_eq!(has(&fleet, 2, part(1, 2)), 1);
}
