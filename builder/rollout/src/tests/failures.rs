//! Stories in which machines fail, get lost or change behind our back.

use super::fleet::*;
use super::machine::FakeNode;
use super::stories::{rolling, running, status};
use crate::*;
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use mosb_api::labels;
use std::time::Duration;

pub(super) const HALF_AN_HOUR: Duration = Duration::from_secs(31 * 60);

/// The clock of the control plane is a day off, or right.
#[test]
fn a_wrong_clock_changes_no_pause_and_no_limit() {
    let trace = |days: i64| {
        let mut fleet = Fleet::new(3);
        fleet.skew = jiff::SignedDuration::from_hours(24 * days);
        fleet.annotate(labels::ROLLOUT, "automatic");
        fleet.node("w1").reports_nothing = true;
        let begin = fleet.now;
        let mut steps: Vec<(i64, String)> = Vec::new();
        let mut last = String::new();
        for step in 0..600 {
            // A moment to do things that other clocks date.
            match step {
                20 => fleet.serve("worker", 2),
                21 => fleet.node("w0").is_busy = true,
                150 => fleet.node("w0").go_away(),
                _ => {}
            }
            fleet.pass("worker", usize::MAX);
            fleet.run_jobs();
            fleet.end_pods();
            fleet.boot_all();
            let jobs: Vec<&String> = fleet.jobs.keys().collect();
            let states: Vec<&str> = fleet.nodes.values().map(|node| node.state()).collect();
            let reason = status(&fleet, "RolloutDegraded").1;
            let now = format!("{jobs:?} {states:?} {reason}");
            if now != last {
                steps.push((fleet.now.as_second() - begin.as_second(), now.clone()));
                last = now;
            }
            fleet.wait(Duration::from_secs(10));
        }
        steps
    };
    let right = trace(0);
    assert!(right.iter().any(|(_, step)| step.contains("MachineLost")), "{right:#?}");
    assert!(right.len() > 10, "{right:#?}");
    for days in [-1, 1] {
        assert_eq!(trace(days), right, "{days}");
    }
}

/// An earlier controller's clock was a day ahead.
#[test]
fn a_record_of_tomorrow_counts_from_now() {
    let mut fleet = rolling(1, "automatic");
    fleet.node("w0").is_busy = true;
    fleet.settle();
    let mut slot = fleet.nodes["w0"].slot().unwrap();
    let tomorrow = fleet.now + Duration::from_secs(24 * 60 * 60);
    slot.since.0 = tomorrow;
    slot.failure.as_mut().unwrap().at.0 = tomorrow;
    let text = serde_json::to_string(&slot).unwrap();
    let annotations = &mut fleet.node("w0").machine.metadata.annotations;
    annotations.insert(labels::NODE_SLOT.to_owned(), text);
    fleet.node("w0").is_busy = false;
    for _ in 0..4 {
        fleet.settle();
        fleet.wait(HALF_AN_HOUR);
    }
    assert_eq!(running(&fleet, 2), 1);
}

#[test]
fn a_machine_that_never_comes_back_stops_the_pool_with_its_name() {
    let mut fleet = rolling(4, "automatic");
    fleet.max_unavailable(IntOrString::Int(3));
    fleet.settings.staging_per_registry = 1;
    fleet.node("w0").is_lost = true;
    while !fleet.nodes["w0"].is_down {
        fleet.pass("worker", usize::MAX);
        fleet.run_jobs();
        fleet.end_pods();
    }
    let begun = |(name, node): &(&String, &FakeNode)| {
        let is_done = node.pool == "worker" && node.booted == image(2).digest();
        *name != "w0" && (is_done || node.slot().is_some())
    };
    let before = fleet.nodes.iter().filter(begun).count();
    fleet.wait(HALF_AN_HOUR);
    fleet.pass("worker", usize::MAX);
    assert_eq!(fleet.nodes["w0"].state(), "Degraded");
    let (_, reason, message) = status(&fleet, "NodeDegraded");
    assert_eq!(reason, "RolloutNodesDegraded");
    assert!(message.contains("w0") && message.contains("since 2026-"), "{message}");
    fleet.settle();
    assert!(before < 3 && running(&fleet, 2) <= before + 1, "{before}: no new slot");
    let blocked = status(&fleet, "RolloutDegraded");
    assert_eq!(blocked.1, "MachineLost");
    assert!(blocked.2.contains("w0"), "{}", blocked.2);
    fleet.node("w0").is_lost = false;
    fleet.settle();
    assert_eq!(running(&fleet, 2), 4);
    assert_eq!(status(&fleet, "RolloutDegraded").0, "False");
}

#[test]
fn a_wrong_image_is_final_and_the_corrected_one_gets_through_in_the_same_slot() {
    let mut fleet = rolling(3, "automatic");
    let wrong = image(2).digest();
    fleet.nodes.values_mut().for_each(|node| _ = node.not_bootable.insert(wrong));
    fleet.settle();
    let failed: Vec<String> = fleet
        .nodes
        .iter()
        .filter(|(_, node)| node.state() == "Degraded")
        .map(|(name, _)| name.clone())
        .collect();
    assert_eq!((failed.len(), fleet.reboots.len()), (1, 1), "one, and no second reboot");
    assert!(fleet.nodes[&failed[0]].reason().contains("finalizing failed"));
    fleet.wait(HALF_AN_HOUR);
    fleet.settle();
    assert_eq!(fleet.reboots.len(), 1);
    fleet.serve("worker", 3);
    fleet.settle();
    assert_eq!((running(&fleet, 3), fleet.reboots.len()), (3, 4));
    assert_eq!(status(&fleet, "NodeDegraded").0, "False");
    let replaced = fleet.events.iter().any(|(_, note)| note.contains("in place of"));
    assert!(replaced, "{:?}", fleet.events);
}

#[test]
fn two_machines_that_failed_stop_the_pool_whatever_it_allows() {
    let mut fleet = rolling(5, "automatic");
    fleet.max_unavailable(IntOrString::String("100%".to_owned()));
    fleet.settings.staging_per_registry = 1;
    let wrong = image(2).digest();
    for name in ["w0", "w1", "w2", "w3", "w4"] {
        fleet.node(name).not_bootable.insert(wrong);
    }
    for _ in 0..100 {
        fleet.pass("worker", usize::MAX);
        fleet.run_jobs();
        fleet.end_pods();
        fleet.boot_all();
    }
    let failed = fleet.nodes.values().filter(|node| node.state() == "Degraded").count();
    assert!((2..5).contains(&failed), "{failed} failed");
    assert_eq!(status(&fleet, "RolloutDegraded").1, "MachinesFailed");
    // Back to what they run: they are free without a reboot.
    let reboots = fleet.reboots.len();
    fleet.annotate(labels::ROLLOUT_BUILD, &pin(1).to_string());
    fleet.settle();
    assert_eq!((running(&fleet, 1), fleet.reboots.len()), (5, reboots));
    assert!(fleet.nodes.values().all(|node| node.slot().is_none()));
}

#[test]
fn a_power_cut_between_staged_and_applied_is_staged_again() {
    let mut fleet = rolling(1, "automatic");
    fleet.pool().spec.paused = false;
    while fleet.nodes["w0"].staged.is_none() {
        fleet.pass("worker", usize::MAX);
        fleet.run_jobs();
    }
    fleet.node("w0").cut_power();
    fleet.settle();
    assert_eq!((running(&fleet, 2), fleet.reboots.len()), (1, 1));
}

#[test]
fn a_power_cut_during_the_reboot_is_another_attempt_at_most_three() {
    for (cuts, want, state) in [(2, 1, "Done"), (3, 0, "Degraded")] {
        let mut fleet = rolling(1, "automatic");
        for _ in 0..cuts {
            while !fleet.nodes["w0"].is_down {
                fleet.pass("worker", usize::MAX);
                let is_applying = |job: &MachineJob| job.verb == NodeVerb::Apply;
                let apply = fleet.jobs.values().find(|job| {
                    is_applying(&job.seen)
                        && job.seen.phase == JobPhase::Running
                        && job.seen.has_login
                });
                match apply.map(|job| job.seen.name.clone()) {
                    Some(name) => {
                        let before = fleet.nodes["w0"].booted;
                        fleet.run_job(&name);
                        let node = fleet.node("w0");
                        if node.is_down {
                            // Before anything was finalized.
                            node.booted = before;
                            node.cut_power();
                        }
                    }
                    None => fleet.run_jobs(),
                }
                fleet.end_pods();
            }
            fleet.boot_all();
        }
        fleet.settle();
        assert_eq!((running(&fleet, 2), fleet.nodes["w0"].state()), (want, state), "{cuts} cuts");
    }
}

#[test]
fn a_power_cut_during_the_drain_finishes_the_drain() {
    let mut fleet = rolling(2, "automatic");
    fleet.node("w0").held.insert("db".to_owned());
    fleet.settle();
    fleet.node("w0").cut_power();
    fleet.settle();
    assert_eq!(fleet.nodes["w0"].state(), "Working");
    fleet.node("w0").held.clear();
    fleet.settle();
    assert_eq!((running(&fleet, 2), fleet.reboots.len()), (2, 2));
}

#[test]
fn without_its_registry_staging_waits_and_no_machine_is_drained() {
    let mut fleet = rolling(3, "automatic");
    fleet.is_registry_down = true;
    let decisions = fleet.settle();
    assert!(fleet.nodes.values().all(|node| node.slot().is_none()));
    assert_eq!(status(&fleet, "RolloutDegraded").1, "RegistryFailed");
    assert!(decisions.iter().any(|one| one.requeue_after.is_some()), "asked again");
    fleet.is_registry_down = false;
    while fleet.nodes.values().all(|node| node.slot().is_none()) {
        fleet.pass("worker", usize::MAX);
        fleet.run_jobs();
    }
    // All of them have staged the image by then, and need no registry.
    fleet.is_registry_down = true;
    fleet.settle();
    assert_eq!(running(&fleet, 2), 3);
}

#[test]
fn staged_machines_are_updated_without_the_registry() {
    let mut fleet = rolling(2, "stage");
    fleet.settle();
    fleet.is_registry_down = true;
    fleet.annotate(labels::ROLLOUT, "automatic");
    fleet.settle();
    assert_eq!((running(&fleet, 2), &*status(&fleet, "Updated").0), (2, "True"));
    assert_eq!(status(&fleet, "RolloutDegraded").0, "False");
    // Another machine has to pull.
    fleet.add_node("w2", "worker", 1);
    fleet.settle();
    assert_eq!(status(&fleet, "RolloutDegraded").1, "RegistryFailed");
    assert_eq!((running(&fleet, 2), fleet.nodes["w2"].staged), (2, None));
    fleet.is_registry_down = false;
    fleet.settle();
    assert_eq!((running(&fleet, 2), &*status(&fleet, "RolloutDegraded").0), (3, "False"));
}

/// Without it, the Job that reboots a machine would wait for its login, on a drained machine.
#[test]
fn staged_machines_wait_while_their_login_is_refused() {
    let mut fleet = rolling(2, "stage");
    fleet.settle();
    fleet.is_login_refused = true;
    fleet.annotate(labels::ROLLOUT, "automatic");
    fleet.settle();
    assert_eq!(status(&fleet, "RolloutDegraded").1, "PushLogin");
    assert!(fleet.nodes.values().all(|node| node.slot().is_none()));
}

#[test]
fn staging_that_fails_is_retried_with_a_back_off_and_reported_after_three() {
    let mut fleet = rolling(1, "automatic");
    for tries in 1..=3 {
        fleet.pass("worker", usize::MAX);
        fleet.pass("worker", usize::MAX);
        fleet.is_registry_down = true;
        fleet.run_jobs();
        fleet.is_registry_down = false;
        fleet.pass("worker", usize::MAX);
        assert_eq!(fleet.jobs.len(), 1, "one Job after try {tries}");
        let is_degraded = fleet.nodes["w0"].state() == "Degraded";
        assert_eq!(is_degraded, tries == 3, "after try {tries}");
        let idle = fleet.pass("worker", usize::MAX);
        assert!(idle.requeue_after.is_some_and(|after| after <= Duration::from_secs(300)));
        fleet.wait(Duration::from_secs(301));
    }
    fleet.settle();
    assert_eq!((running(&fleet, 2), fleet.nodes["w0"].state()), (1, "Done"));
}

#[test]
fn a_machine_without_a_tool_is_unreconcilable_and_the_others_go_on() {
    let mut fleet = rolling(2, "automatic");
    fleet.node("w0").has_no_tool = true;
    fleet.node("w0").cut_power();
    fleet.settle();
    assert_eq!((fleet.nodes["w0"].state(), running(&fleet, 2)), ("Unreconcilable", 1));
    assert!(fleet.nodes["w0"].reason().contains("bootc"));
    assert_eq!(fleet.pools["worker"].status.degraded_machine_count, 1);
}

#[test]
fn a_node_whose_object_is_deleted_takes_its_slot_with_it() {
    let mut fleet = rolling(2, "automatic");
    fleet.node("w0").held.insert("db".to_owned());
    fleet.settle();
    assert!(fleet.nodes["w0"].slot().is_some());
    fleet.nodes.remove("w0");
    fleet.settle();
    assert_eq!(running(&fleet, 2), 1);
    // Another machine of this name: Jobs of the first one are not its own.
    fleet.add_node("w0", "worker", 1);
    fleet.settle();
    assert_eq!(running(&fleet, 2), 2);
}

#[test]
fn drift_is_reported_until_a_person_asks() {
    for mode in ["automatic", "stage"] {
        let mut fleet = Fleet::new(2);
        fleet.annotate(labels::ROLLOUT, mode);
        fleet.settle();
        fleet.node("w0").booted = image(7).digest();
        fleet.node("w0").cut_power();
        fleet.settle();
        assert_eq!((running(&fleet, 1), fleet.nodes["w0"].state()), (1, "Degraded"), "{mode}");
        fleet.wait(Duration::from_secs(301));
        fleet.settle();
        assert_eq!(running(&fleet, 1), 1, "{mode}");
        assert_eq!(status(&fleet, "Updated").0, "False", "{mode}");
    }
}
