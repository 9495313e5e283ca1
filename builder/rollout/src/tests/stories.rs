//! Stories that end well: each runs `decide` to the end, while every write is checked.

use super::fleet::*;
use crate::*;
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use mosb_api::rollout::{History, STOCK};
use mosb_api::{condition, labels};
use serde_json::json;

/// A pool with this mode whose machines run build 1; build 2 is in service.
pub fn rolling(machines: usize, mode: &str) -> Fleet {
    let mut fleet = Fleet::new(machines);
    fleet.annotate(labels::ROLLOUT, mode);
    fleet.settle();
    fleet.serve("worker", 2);
    fleet
}

pub fn running(fleet: &Fleet, number: u32) -> usize {
    let digest = image(number).digest();
    fleet.nodes.values().filter(|node| node.pool == "worker" && node.booted == digest).count()
}

pub fn status(fleet: &Fleet, kind: &str) -> (String, String, String) {
    let one = condition(&fleet.pools["worker"].status.conditions, kind).unwrap().clone();
    (one.status, one.reason, one.message)
}

/// The largest number of slots at once until it settles.
pub fn most_slots(fleet: &mut Fleet) -> usize {
    let mut most = 0;
    for _ in 0..200 {
        fleet.pass("worker", usize::MAX);
        let slots = fleet.nodes.values().filter(|node| node.slot().is_some()).count();
        most = most.max(slots);
        fleet.run_jobs();
        fleet.end_pods();
        fleet.boot_all();
        fleet.wait(std::time::Duration::from_secs(10));
    }
    most
}

#[test]
fn a_pool_that_was_never_rolled_out_gets_no_write_and_causes_no_lookup() {
    let mut fleet = Fleet::new(3);
    let version = fleet.version;
    let decisions = fleet.settle();
    assert!(
        decisions.iter().all(|one| one.reason == RolloutReason::Off && one.requeue_after.is_none())
    );
    assert_eq!((fleet.version, fleet.asked.len()), (version, 0));
}

#[test]
fn a_new_machine_that_runs_the_target_is_not_rebooted() {
    let mut fleet = Fleet::new(3);
    fleet.annotate(labels::ROLLOUT, "automatic");
    fleet.settle();
    assert!(fleet.reboots.is_empty());
    assert_eq!(status(&fleet, "Updated").0, "True");
    let pool = &fleet.pools["worker"];
    assert_eq!((pool.status.machine_count, pool.status.updated_machine_count), (3, 3));
    let node = &fleet.nodes["w0"].machine.metadata;
    assert_eq!(node.annotation(labels::NODE_CURRENT_IMAGE), Some(&*image(1).to_string()));
    assert_eq!(node.annotation(labels::NODE_CURRENT_CONFIG), Some(&*rendered(1)));
    assert_eq!(fleet.nodes["w0"].state(), "Done");
    fleet.asked.clear();
    let idle = fleet.pass("worker", usize::MAX);
    assert!(idle.actions.is_empty() && idle.requeue_after.is_none(), "{idle:?}");
    assert!(fleet.asked.is_empty());
}

#[test]
fn with_stage_every_machine_gets_the_image_and_none_reboots() {
    let mut fleet = rolling(3, "stage");
    fleet.settle();
    assert!(
        fleet
            .nodes
            .values()
            .filter(|node| node.pool == "worker")
            .all(|node| { node.staged == Some(image(2).digest()) && !node.machine.unschedulable })
    );
    assert!(fleet.reboots.is_empty());
    let message = status(&fleet, "Updating").2;
    assert!(message.contains("staged or running on 3 of 3"), "{message}");
    // Once: what is in service is rolled out, and a restart goes on with it.
    fleet.annotate(labels::ROLLOUT_ONCE, &pin(2).to_string());
    fleet.settle();
    assert_eq!(running(&fleet, 2), 3);
    assert_eq!(fleet.configs["worker"].metadata.annotation(labels::ROLLOUT_ONCE), None);
    fleet.serve("worker", 3);
    fleet.settle();
    assert_eq!(running(&fleet, 2), 3, "only once");
}

#[test]
fn a_roll_out_of_another_os_says_what_changes() {
    let mut fleet = rolling(2, "stage");
    let summary = |from: u32| {
        let kernel = json!({ "from": "6.1.140", "to": "6.1.148" });
        json!({ "from": image(from).digest(), "kernel": kernel, "packages": 31 }).to_string()
    };
    for (what, text, want) in [
        ("of the image that machines run", summary(1), true),
        ("of another image", summary(7), false),
        ("not readable", "31 packages".to_owned(), false),
    ] {
        let name = pin(2).name;
        let build = fleet.builds.iter_mut().find(|build| build.metadata.name == name).unwrap();
        build.metadata.annotations.insert(labels::OS_SUMMARY.to_owned(), text);
        fleet.settle();
        let message = status(&fleet, "Updating").2;
        let said = message.ends_with("; OS: kernel 6.1.140 → 6.1.148, 31 packages");
        assert_eq!(said, want, "{what}: {message}");
    }
    fleet.annotate(labels::ROLLOUT, "automatic");
    fleet.settle();
    assert_eq!((running(&fleet, 2), status(&fleet, "Updating").2), (2, String::new()));
}

#[test]
fn a_config_that_changes_meanwhile_keeps_the_os_change() {
    let mut fleet = rolling(2, "stage");
    fleet.serve("worker", 3);
    let kernel = json!({ "from": "6.1.140", "to": "6.1.148" });
    let summary = json!({ "from": image(1).digest(), "kernel": kernel, "packages": 31 });
    for (what, base, want) in [
        ("on the OS of build 2", "quay.io/os@sha256:2", true),
        ("on another OS", "quay.io/os@sha256:3", false),
    ] {
        for build in &mut fleet.builds {
            let annotations = &mut build.metadata.annotations;
            let is_before = build.metadata.name == pin(2).name;
            let base = if is_before { "quay.io/os@sha256:2" } else { base };
            annotations.insert(labels::BASE.to_owned(), base.to_owned());
            if is_before {
                annotations.insert(labels::OS_SUMMARY.to_owned(), summary.to_string());
            }
        }
        fleet.settle();
        let message = status(&fleet, "Updating").2;
        assert!(message.contains(&rendered(3)), "{what}: {message}");
        let said = message.ends_with("; OS: kernel 6.1.140 → 6.1.148, 31 packages");
        assert_eq!(said, want, "{what}: {message}");
    }
}

#[test]
fn a_machine_that_somebody_reboots_after_a_roll_out_that_happened_once_reports_again() {
    let mut fleet = rolling(2, "none");
    fleet.annotate(labels::ROLLOUT_ONCE, &pin(2).to_string());
    fleet.settle();
    assert_eq!((running(&fleet, 2), status(&fleet, "Updated").0), (2, "True".to_owned()));
    fleet.node("w0").boot_again();
    fleet.settle();
    assert_eq!(status(&fleet, "Updated").0, "True");
    let pool = &fleet.pools["worker"].status;
    assert_eq!((pool.updated_machine_count, pool.ready_machine_count), (2, 2));
    assert!(fleet.jobs.is_empty());
    let idle = fleet.pass("worker", usize::MAX);
    assert!(idle.actions.is_empty() && idle.requeue_after.is_none(), "{idle:?}");
}

#[test]
fn automatic_updates_as_many_at_once_as_the_pool_allows() {
    let percent = |text: &str| IntOrString::String(text.to_owned());
    for (what, machines, max, want) in [
        ("the default", 3, None, 1),
        ("two", 5, Some(IntOrString::Int(2)), 2),
        ("zero is one", 3, Some(IntOrString::Int(0)), 1),
        ("half of five", 5, Some(percent("50%")), 2),
        ("little of three", 3, Some(percent("10%")), 1),
        ("all", 3, Some(percent("100%")), 3),
    ] {
        let mut fleet = rolling(machines, "automatic");
        fleet.pool().spec.max_unavailable = max;
        assert_eq!(most_slots(&mut fleet), want, "{what}");
        assert_eq!(running(&fleet, 2), machines, "{what}");
        assert_eq!(fleet.reboots.len(), machines, "{what}");
        assert_eq!(status(&fleet, "Updated").0, "True", "{what}");
        assert_eq!(fleet.pools["worker"].status.configuration.name, rendered(2));
        assert!(fleet.jobs.is_empty(), "{what}: all Jobs are deleted");
    }
}

#[test]
fn a_held_drain_names_pod_and_budget_and_goes_on_when_it_is_loosened() {
    let mut fleet = rolling(2, "automatic");
    fleet.node("w0").held.insert("db".to_owned());
    fleet.settle();
    let node = &fleet.nodes["w0"];
    assert_eq!((node.state(), running(&fleet, 2)), ("Working", 0));
    assert!(node.reason().contains("default/db") && node.reason().contains("budget"));
    assert!(status(&fleet, "Updating").2.contains("disruption budget db"));
    // A pass that ends before its evictions changes nothing that is known.
    for _ in 0..2 {
        assert_eq!(fleet.pass("worker", 0).requeue_after.unwrap().as_secs(), 5);
    }
    fleet.pass("worker", 1);
    assert!(fleet.nodes["w0"].reason().contains("budget"), "{}", fleet.nodes["w0"].reason());
    fleet.node("w0").held.clear();
    fleet.settle();
    assert_eq!((running(&fleet, 2), fleet.nodes["w0"].reason()), (2, ""));
}

#[test]
fn a_pause_cancels_a_drain_and_gives_no_slot() {
    let mut fleet = rolling(3, "automatic");
    fleet.node("w0").held.insert("db".to_owned());
    fleet.settle();
    assert!(fleet.nodes["w0"].machine.unschedulable);
    fleet.pool().spec.paused = true;
    fleet.settle();
    let node = &fleet.nodes["w0"];
    assert_eq!((node.slot(), node.machine.unschedulable, node.state()), (None, false, "Done"));
    let paused = format!("Pool is paused; will not update to {}", rendered(2));
    assert_eq!(status(&fleet, "Updating"), ("False".to_owned(), String::new(), paused));
    fleet.node("w0").held.clear();
    fleet.pool().spec.paused = false;
    fleet.settle();
    assert_eq!(running(&fleet, 2), 3);
}

#[test]
fn a_machine_that_applies_goes_on_in_a_paused_pool() {
    let mut fleet = rolling(2, "automatic");
    while !fleet.nodes.values().any(|node| node.is_down) {
        fleet.pass("worker", usize::MAX);
        fleet.run_jobs();
        fleet.end_pods();
    }
    fleet.pool().spec.paused = true;
    fleet.settle();
    assert_eq!((running(&fleet, 2), fleet.reboots.len()), (1, 1));
    assert!(fleet.nodes.values().all(|node| !node.machine.unschedulable));
}

#[test]
fn a_second_image_while_the_first_rolls_out_wins() {
    let mut fleet = rolling(4, "automatic");
    while running(&fleet, 2) < 2 {
        fleet.pass("worker", usize::MAX);
        fleet.run_jobs();
        fleet.end_pods();
        fleet.boot_all();
    }
    fleet.serve("worker", 3);
    fleet.settle();
    assert_eq!(running(&fleet, 3), 4);
    let history = History::of(&fleet.configs["worker"].metadata);
    let builds: Vec<&str> = history.entries().iter().map(|one| &*one.build).collect();
    assert_eq!(builds, ["build-3", "build-2", "build-1"]);
}

#[test]
fn a_pin_goes_back_and_stock_is_a_target_like_any_other() {
    let mut fleet = rolling(2, "automatic");
    fleet.settle();
    fleet.annotate(labels::ROLLOUT_BUILD, &pin(1).to_string());
    fleet.settle();
    assert_eq!(running(&fleet, 1), 2);
    let message = status(&fleet, "Updated").2;
    assert!(message.contains(&format!("pinned to {}; {} is newer", pin(1), pin(2))), "{message}");
    assert_eq!(status(&fleet, "Updated").0, "True");
    fleet.annotate(labels::ROLLOUT_BUILD, &pin(STOCK_IMAGE).to_string());
    fleet.settle();
    assert_eq!(running(&fleet, STOCK_IMAGE), 2);
    assert_eq!(pin(STOCK_IMAGE).name, STOCK);
    fleet.asked.clear();
    fleet.settle();
    assert!(fleet.asked.is_empty(), "an idle pool causes no lookups: {:?}", fleet.asked);
}

#[test]
fn a_cordon_of_an_administrator_counts_and_is_untouched() {
    let mut fleet = rolling(3, "automatic");
    fleet.node("w1").machine.unschedulable = true;
    fleet.node("w1").is_cordoned_by_hand = true;
    fleet.settle();
    assert_eq!(running(&fleet, 2), 0, "one may be unavailable, and one is");
    fleet.max_unavailable(IntOrString::Int(2));
    fleet.settle();
    assert_eq!((running(&fleet, 2), fleet.nodes["w1"].machine.unschedulable), (2, true));
}

#[test]
fn a_full_boot_is_shown_and_holds_nothing() {
    let mut fleet = rolling(2, "stage");
    fleet.node("w1").is_boot_full = true;
    fleet.settle();
    let reasons = |fleet: &Fleet| -> Vec<bool> {
        let behind = rollout_view(&fleet.snapshot("worker"), fleet.now).behind;
        let reasons = behind.into_iter().map(|node| node.reason.unwrap_or_default());
        reasons.map(|reason| reason.contains("ostree deletes the way back")).collect()
    };
    assert_eq!(reasons(&fleet), [false, true]);
    let message = status(&fleet, "Updating").2;
    assert!(message.contains("after a reboot; w1: /boot has no space"), "{message}");
    fleet.annotate(labels::ROLLOUT, "automatic");
    let mut named = false;
    for _ in 0..200 {
        fleet.pass("worker", usize::MAX);
        named |= status(&fleet, "Updating").2.contains("w1: /boot has no space");
        fleet.run_jobs();
        fleet.end_pods();
        fleet.boot_all();
    }
    assert!(named, "while it is rolled out");
    assert_eq!(running(&fleet, 2), 2);
    assert_eq!(status(&fleet, "Updating").2, "");
    assert!(fleet.nodes.values().all(|node| !node.reason().contains("/boot")));
}
