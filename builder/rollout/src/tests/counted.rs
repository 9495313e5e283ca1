//! What metrics show of stories: each machine is counted once, and each phase of its update too.

use super::fleet::*;
use super::stories::{rolling, running, status};
use crate::*;
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use mosb_api::labels;
use std::collections::BTreeMap;
use std::time::Duration;

/// Machines by their word.
fn words(fleet: &mut Fleet) -> BTreeMap<&'static str, usize> {
    let mut words = BTreeMap::new();
    for machine in fleet.evaluate("worker").status.unwrap().machines {
        *words.entry(machine.progress.as_str()).or_default() += 1;
    }
    words
}

fn phases(fleet: &Fleet) -> BTreeMap<&'static str, Vec<u64>> {
    let mut phases: BTreeMap<&'static str, Vec<u64>> = BTreeMap::new();
    for ended in &fleet.ended {
        phases.entry(ended.phase.as_str()).or_default().push(ended.took.as_secs());
    }
    phases
}

#[test]
fn a_machine_goes_from_waiting_to_updated() {
    let mut fleet = rolling(1, "automatic");
    let mut seen: Vec<&str> = Vec::new();
    for _ in 0..20 {
        seen.extend(words(&mut fleet).into_keys());
        fleet.pass("worker", usize::MAX);
        // Before its Jobs and pods did anything.
        seen.extend(words(&mut fleet).into_keys());
        fleet.run_jobs();
        fleet.end_pods();
        seen.extend(words(&mut fleet).into_keys());
        fleet.boot_all();
    }
    seen.dedup();
    assert_eq!(seen, ["waiting", "staging", "draining", "rebooting", "updated"]);
    let status = fleet.evaluate("worker").status.unwrap();
    assert_eq!(status.reason.phase(), RolloutPhase::Updated);
    assert_eq!(status.machines[0].slot_since, None);
}

#[test]
fn each_machine_that_does_not_go_on_has_its_word() {
    type Edit = fn(&mut Fleet);
    let not_bootable: Edit = |fleet| {
        fleet.max_unavailable(IntOrString::Int(2));
        let wrong = image(2).digest();
        fleet.node("w0").not_bootable.insert(wrong);
        fleet.node("w1").machine.unschedulable = true;
        fleet.settle();
    };
    let no_tool: Edit = |fleet| {
        fleet.node("w0").has_no_tool = true;
        fleet.node("w0").boot_again();
        fleet.settle();
    };
    let unreported: Edit = |fleet| fleet.node("w0").boot_again();
    let held: Edit = |fleet| {
        fleet.node("w0").held.insert("db".to_owned());
        fleet.settle();
    };
    let lost: Edit = |fleet| {
        fleet.node("w0").is_lost = true;
        fleet.settle();
        fleet.wait(Duration::from_secs(31 * 60));
    };
    for (what, mode, edit, w0, w1) in [
        ("staged", "stage", (|fleet| drop(fleet.settle())) as Edit, "staged", "staged"),
        (
            "cordoned",
            "stage",
            |fleet| fleet.node("w0").machine.unschedulable = true,
            "unavailable",
            "waiting",
        ),
        (
            "not Ready",
            "stage",
            |fleet| fleet.node("w0").machine.ready = false,
            "unavailable",
            "waiting",
        ),
        ("rebooted by somebody", "stage", unreported, "unreported", "waiting"),
        ("not bootable", "automatic", not_bootable, "degraded", "unavailable"),
        ("without a tool", "automatic", no_tool, "unreconcilable", "updated"),
        ("held", "automatic", held, "draining", "staged"),
        ("lost", "automatic", lost, "lost", "staged"),
    ] {
        let mut fleet = rolling(2, mode);
        edit(&mut fleet);
        let mut want: BTreeMap<&str, usize> = BTreeMap::new();
        [w0, w1].into_iter().for_each(|word| *want.entry(word).or_default() += 1);
        assert_eq!(words(&mut fleet), want, "{what}");
    }
    let mut fleet = rolling(1, "automatic");
    let mark = (labels::NODE_SLOT.to_owned(), "mine".to_owned());
    fleet.node("w0").machine.metadata.annotations.extend([mark]);
    assert_eq!(words(&mut fleet), [("degraded", 1)].into(), "an unreadable slot");
}

#[test]
fn a_pool_has_the_phase_of_its_roll_out_and_what_blocks_it() {
    type Edit = fn(&mut Fleet);
    let lost: Edit = |fleet| {
        fleet.node("w0").is_lost = true;
        fleet.settle();
        fleet.wait(Duration::from_secs(31 * 60));
    };
    let cases: [(&str, &str, Edit, RolloutPhase, Option<&str>); 7] = [
        ("begun", "automatic", |_| {}, RolloutPhase::Progressing, None),
        ("updated", "automatic", |fleet| drop(fleet.settle()), RolloutPhase::Updated, None),
        (
            "paused",
            "automatic",
            |fleet| fleet.pool().spec.paused = true,
            RolloutPhase::Paused,
            None,
        ),
        ("stages", "stage", |_| {}, RolloutPhase::Progressing, None),
        ("staged", "stage", |fleet| drop(fleet.settle()), RolloutPhase::Staged, None),
        (
            "registry",
            "automatic",
            |fleet| fleet.is_registry_down = true,
            RolloutPhase::Blocked,
            Some("RegistryFailed"),
        ),
        ("lost", "automatic", lost, RolloutPhase::Failed, Some("MachineLost")),
    ];
    for (what, mode, edit, phase, blocked) in cases {
        let mut fleet = rolling(3, mode);
        edit(&mut fleet);
        let PoolStatus { reason, machines, .. } = fleet.evaluate("worker").status.unwrap();
        let found = reason.blocked().map(|blocked| blocked.reason);
        assert_eq!((reason.phase(), found, machines.len()), (phase, blocked, 3), "{what}");
    }
    // Nothing is counted of a pool that is not rolled out.
    assert_eq!(Fleet::new(3).evaluate("worker").status, None);
}

#[test]
fn the_oldest_slot_of_a_drain_that_is_held_is_shown() {
    let mut fleet = rolling(2, "automatic");
    fleet.max_unavailable(IntOrString::Int(2));
    for name in ["w0", "w1"] {
        fleet.node(name).held.insert("db".to_owned());
    }
    fleet.settle();
    let since = |fleet: &Fleet, name: &str| fleet.nodes[name].slot().unwrap().since.0;
    let oldest = since(&fleet, "w0").min(since(&fleet, "w1"));
    fleet.wait(Duration::from_secs(3600));
    let status = fleet.evaluate("worker").status.unwrap();
    assert_eq!(status.oldest_slot(MachineProgress::Draining), Some(oldest));
    assert_eq!(status.oldest_slot(MachineProgress::Updated), None);
}

#[test]
fn each_phase_of_each_machine_is_counted_once_wherever_the_controller_is_killed() {
    for kill_after in 1..8 {
        let mut fleet = rolling(3, "automatic");
        for pass in 0..80 {
            fleet.pass("worker", (kill_after + pass) % 7);
            fleet.run_jobs();
            fleet.end_pods();
            fleet.boot_all();
            fleet.wait(Duration::from_secs(10));
        }
        fleet.settle();
        assert_eq!(running(&fleet, 2), 3, "killed after {kill_after}");
        let phases = phases(&fleet);
        let counts: Vec<_> = phases.iter().map(|(phase, all)| (*phase, all.len())).collect();
        let want = [("apply", 3), ("drain", 3), ("slot", 3), ("stage", 3)];
        assert_eq!(counts, want, "killed after {kill_after}");
        for (index, slot) in phases["slot"].iter().enumerate() {
            let sum = phases["drain"][index] + phases["apply"][index];
            assert_eq!(*slot, sum, "killed after {kill_after}");
        }
    }
}

#[test]
fn a_phase_begins_with_its_mark_and_a_cancelled_drain_is_none() {
    let mut fleet = rolling(1, "automatic");
    fleet.node("w0").held.insert("db".to_owned());
    fleet.settle();
    assert_eq!(phases(&fleet).into_keys().collect::<Vec<_>>(), ["stage"]);
    fleet.wait(Duration::from_secs(3600));
    fleet.pool().spec.paused = true;
    fleet.settle();
    assert_eq!(phases(&fleet).into_keys().collect::<Vec<_>>(), ["stage"], "cancelled");
    fleet.pool().spec.paused = false;
    fleet.settle();
    fleet.wait(Duration::from_secs(7200));
    fleet.node("w0").held.clear();
    fleet.settle();
    let phases = phases(&fleet);
    let drain = phases["drain"].as_slice();
    assert!(matches!(drain, [7200..7400]), "{drain:?}");
    assert!(phases["apply"][0] < 100 && phases["stage"][0] < 100, "{phases:?}");
}

#[test]
fn steps_of_a_machine_are_events_of_its_node_and_steps_of_a_pool_are_its_own() {
    let mut fleet = rolling(2, "automatic");
    fleet.settle();
    let of = |fleet: &Fleet, kind: &str, name: &str| -> Vec<String> {
        let on = (kind.to_owned(), name.to_owned());
        let events = fleet.regarding.iter().filter(|(object, _)| *object == on);
        events.map(|(_, reason)| reason.clone()).collect()
    };
    let machine = ["NodeStaged", "NodeSlotGiven", "NodeRebooting", "NodeUpdated"];
    for name in ["w0", "w1"] {
        assert_eq!(of(&fleet, "Node", name), machine);
    }
    let pool = |fleet: &Fleet| of(fleet, "MachineConfigPool", "worker");
    // Whether the machines run the first image is known once they have reported.
    let twice = ["RolloutStarted", "RolloutCompleted", "RolloutStarted", "RolloutCompleted"];
    assert_eq!(pool(&fleet), twice);
    // None is repeated by a controller that was killed, and those of Jobs are not lost.
    for kill_after in 1..8 {
        let mut fleet = rolling(2, "automatic");
        for pass in 0..80 {
            fleet.pass("worker", (kill_after + pass) % 7);
            fleet.run_jobs();
            fleet.end_pods();
            fleet.boot_all();
        }
        fleet.settle();
        for name in ["w0", "w1"] {
            let events = of(&fleet, "Node", name);
            let count = |reason: &str| events.iter().filter(|one| *one == reason).count();
            let once = [count("NodeStaged"), count("NodeRebooting")];
            assert_eq!(once, [1, 1], "killed after {kill_after}: {events:?}");
            let lossy = [count("NodeSlotGiven"), count("NodeUpdated")];
            assert!(lossy.iter().all(|count| *count <= 1), "{events:?}");
        }
    }
    fleet.annotate(labels::ROLLOUT_BUILD, &pin(9).to_string());
    fleet.settle();
    assert_eq!(pool(&fleet).last().unwrap(), "RolloutBlocked");
    let count = pool(&fleet).len();
    fleet.wait(Duration::from_secs(60));
    fleet.settle();
    assert_eq!(pool(&fleet).len(), count, "once");
    fleet.annotate(labels::ROLLOUT_BUILD, &pin(1).to_string());
    fleet.settle();
    assert_eq!(status(&fleet, "RolloutDegraded").0, "False");
    let after: Vec<_> = pool(&fleet).split_off(count);
    assert_eq!(after, ["RolloutUnblocked", "RolloutStarted", "RolloutCompleted"]);
}
