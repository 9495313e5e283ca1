//! Live apply: files of an image that come to machines without a reboot, and the image with their next
//! one.

use super::fleet::*;
use super::requests::carry_out;
use super::stories::{running, status};
use crate::*;
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use mosb_api::labels;
use mosb_api::rollout::History;
use std::time::Duration;

/// A pool whose machines run build 1; build 2 came into service, and differs in such files only.
fn live(machines: usize, mode: &str) -> Fleet {
    let mut fleet = Fleet::new(machines);
    fleet.annotate(labels::ROLLOUT, mode);
    fleet.settle();
    fleet.serve_live("worker", 2, 1);
    fleet
}

/// How many machines have the files of this build.
fn files(fleet: &Fleet, number: u32) -> usize {
    let digest = image(number).digest();
    fleet.nodes.values().filter(|node| node.pool == "worker" && node.files == digest).count()
}

fn jobs(fleet: &Fleet, verb: NodeVerb) -> usize {
    fleet.jobs.values().filter(|job| job.seen.verb == verb).count()
}

fn mark<'f>(fleet: &'f Fleet, node: &str, key: &str) -> Option<&'f str> {
    fleet.nodes[node].machine.metadata.annotation(key)
}

/// Nothing happens and nothing is looked up any more.
fn assert_idle(fleet: &mut Fleet) {
    fleet.asked.clear();
    let idle = fleet.decide("worker");
    assert!(idle.actions.is_empty() && idle.requeue_after.is_none(), "{idle:?}");
    assert!(fleet.jobs.is_empty() && fleet.asked.is_empty(), "{:?}", fleet.asked);
}

#[test]
fn files_come_to_all_machines_without_a_slot_and_the_next_boot_has_the_image() {
    let mut fleet = live(25, "automatic");
    fleet.settings.staging_per_registry = 100;
    let before = fleet.events.len();
    fleet.pass("worker", usize::MAX);
    fleet.pass("worker", usize::MAX);
    fleet.run_jobs();
    fleet.pass("worker", usize::MAX);
    assert_eq!(jobs(&fleet, NodeVerb::Part), 1, "one alone, and none before it is staged");
    fleet.pass("worker", usize::MAX);
    assert_eq!(jobs(&fleet, NodeVerb::Part), 1, "not more while it runs");
    let working = fleet.nodes.values().filter(|node| node.state() == "Working");
    assert_eq!(working.count(), 1);
    assert_eq!(status(&fleet, "Updated").0, "False");
    let found = fleet.evaluate("worker").status.unwrap();
    assert_eq!(found.count(|machine| machine.progress == MachineProgress::Staging), 1);
    fleet.settle();
    assert_eq!((files(&fleet, 2), running(&fleet, 1), fleet.reboots.len()), (25, 25, 0));
    let slots = fleet.events[before..].iter().filter(|(reason, _)| reason == "NodeSlotGiven");
    assert_eq!(slots.count(), 0);
    for (name, node) in fleet.nodes.iter().filter(|(_, node)| node.pool == "worker") {
        assert_eq!((node.state(), node.staged), ("Done", Some(image(2).digest())));
        assert!(node.slot().is_none() && !node.machine.unschedulable);
        let config = Some(rendered(2));
        assert_eq!(mark(&fleet, name, labels::NODE_CURRENT_CONFIG), config.as_deref());
        assert_eq!(mark(&fleet, name, labels::NODE_DESIRED_CONFIG), config.as_deref());
        let booted = image(1).to_string();
        assert_eq!(mark(&fleet, name, labels::NODE_CURRENT_IMAGE), Some(&*booted));
        let desired = image(2).to_string();
        assert_eq!(mark(&fleet, name, labels::NODE_DESIRED_IMAGE), Some(&*desired));
    }
    assert!(status(&fleet, "Updated").2.contains(&rendered(2)));
    assert_eq!(fleet.pools["worker"].status.updated_machine_count, 25);
    let view = rollout_view(&fleet.snapshot("worker"), fleet.now);
    assert_eq!((view.machines.updated, view.machines.live, view.machines.staged), (25, 25, 0));
    assert_eq!(view.phase, RolloutPhase::Updated);
    assert!(view.message.contains("25 of them live"), "{}", view.message);
    assert_idle(&mut fleet);
    // Somebody reboots one of them.
    fleet.node("w7").reboot();
    fleet.boot_all();
    fleet.settle();
    assert_eq!((running(&fleet, 2), fleet.reboots.len()), (1, 0));
    let booted = image(2).to_string();
    assert_eq!(mark(&fleet, "w7", labels::NODE_CURRENT_IMAGE), Some(&*booted));
    let view = rollout_view(&fleet.snapshot("worker"), fleet.now);
    assert_eq!((view.machines.updated, view.machines.live), (25, 24));
    assert_idle(&mut fleet);
}

#[test]
fn a_paused_pool_and_one_that_is_not_rolled_out_gets_no_files() {
    for mode in ["none", "stage", "automatic"] {
        let mut fleet = Fleet::new(2);
        fleet.annotate(labels::ROLLOUT, mode);
        if mode == "none" {
            fleet.annotate(labels::ROLLOUT_ONCE, &pin(1).to_string());
        }
        fleet.settle();
        fleet.pool().spec.paused = mode == "automatic";
        fleet.serve_live("worker", 2, 1);
        fleet.settle();
        assert_eq!((files(&fleet, 1), fleet.reboots.len()), (2, 0), "{mode}");
        let staged = fleet.nodes.values().filter(|node| node.staged.is_some()).count();
        assert_eq!(staged, if mode == "stage" { 2 } else { 0 }, "{mode}");
        let view = rollout_view(&fleet.snapshot("worker"), fleet.now);
        assert_eq!((view.machines.updated, view.machines.live), (0, 0), "{mode}");
        if mode == "automatic" {
            fleet.pool().spec.paused = false;
        } else {
            let question = carry_out(&mut fleet, &RolloutRequest::Start).question.unwrap();
            assert!(
                question.starts_with("2 machines of pool worker will get the files"),
                "{question}"
            );
        }
        fleet.settle();
        assert_eq!((files(&fleet, 2), running(&fleet, 1)), (2, 2), "{mode}");
    }
}

#[test]
fn a_machine_that_can_not_take_the_files_reboots_in_a_slot() {
    let mut fleet = live(3, "automatic");
    fleet.node("w1").takes_nothing_live = true;
    fleet.settle();
    assert_eq!((files(&fleet, 2), running(&fleet, 2), fleet.reboots.len()), (3, 1, 1));
    assert_eq!(fleet.nodes["w1"].booted, image(2).digest());
    assert_idle(&mut fleet);
}

#[test]
fn machines_that_booted_another_image_reboot() {
    let mut fleet = live(2, "automatic");
    fleet.add_node("new", "worker", 9);
    fleet.settle();
    assert_eq!((files(&fleet, 2), running(&fleet, 2), fleet.reboots.len()), (3, 1, 1));
    assert_idle(&mut fleet);
}

/// Each names the first of them, whatever a machine runs of them.
#[test]
fn one_image_after_the_other_comes_live_and_goes() {
    let mut fleet = live(2, "automatic");
    fleet.settle();
    fleet.node("w1").reboot();
    fleet.boot_all();
    fleet.settle();
    for number in [3, 4] {
        fleet.serve_live("worker", number, 1);
        fleet.settle();
        assert_eq!((files(&fleet, number), running(&fleet, 1), running(&fleet, 2)), (2, 1, 1));
    }
    for number in [2, 3, 1, 4] {
        fleet.annotate(labels::ROLLOUT_BUILD, &pin(number).to_string());
        fleet.settle();
        assert_eq!((files(&fleet, number), running(&fleet, 1), running(&fleet, 2)), (2, 1, 1));
        assert_eq!(status(&fleet, "Updated").0, "True");
        assert_idle(&mut fleet);
    }
    assert_eq!(fleet.reboots.len(), 0);
    // An image with other changes is the first of the next ones.
    fleet.annotate(labels::ROLLOUT_BUILD, "");
    fleet.serve("worker", 5);
    fleet.settle();
    assert_eq!((files(&fleet, 5), running(&fleet, 5), fleet.reboots.len()), (2, 2, 2));
    fleet.serve_live("worker", 6, 5);
    fleet.settle();
    assert_eq!((files(&fleet, 6), fleet.reboots.len()), (2, 2));
    fleet.annotate(labels::ROLLOUT_BUILD, &pin(4).to_string());
    fleet.settle();
    assert_eq!((files(&fleet, 4), running(&fleet, 4), fleet.reboots.len()), (2, 2, 4));
}

#[test]
fn an_undo_brings_the_files_from_before_and_a_start_the_newer_ones_again() {
    for reboots in [false, true] {
        let mut fleet = live(2, "automatic");
        fleet.settle();
        if reboots {
            fleet.nodes.values_mut().for_each(|node| node.reboot());
            fleet.boot_all();
            fleet.settle();
        }
        let booted = if reboots { 2 } else { 1 };
        let change = carry_out(&mut fleet, &RolloutRequest::Undo(None));
        assert_eq!(change.build, Some(pin(1)));
        let question = change.question.unwrap();
        assert!(question.starts_with("2 machines of pool worker will get the files"), "{question}");
        fleet.settle();
        assert_eq!((files(&fleet, 1), running(&fleet, booted)), (2, 2), "{reboots}");
        let staged = fleet.nodes["w0"].staged;
        assert_eq!(staged, reboots.then(|| image(1).digest()));
        assert_eq!(status(&fleet, "Updated").0, "True");
        assert_idle(&mut fleet);
        carry_out(&mut fleet, &RolloutRequest::Start);
        fleet.settle();
        assert_eq!((files(&fleet, 2), running(&fleet, booted)), (2, 2), "{reboots}");
        assert_eq!(fleet.reboots.len(), 0);
        assert_idle(&mut fleet);
    }
}

/// Its config comes back, so its build is in service again.
#[test]
fn the_image_from_before_in_service_again_comes_live() {
    let mut fleet = live(2, "automatic");
    fleet.settle();
    fleet.nodes.values_mut().for_each(|node| node.reboot());
    fleet.boot_all();
    fleet.settle();
    fleet.serve("worker", 1);
    fleet.settle();
    assert_eq!((files(&fleet, 1), running(&fleet, 2), fleet.reboots.len()), (2, 2, 0));
    let history = History::of(&fleet.configs["worker"].metadata);
    let from: Vec<_> = history.entries().iter().map(|entry| entry.live_from).collect();
    assert_eq!(from, [None, Some(image(1).digest())], "each as its build has it");
}

#[test]
fn a_power_cut_loses_what_is_staged_and_it_is_staged_again() {
    let mut fleet = live(1, "automatic");
    fleet.settle();
    fleet.node("w0").boot_again();
    let version = fleet.next_version();
    fleet.node("w0").machine.metadata.resource_version = Some(version);
    fleet.pass("worker", usize::MAX);
    assert_eq!(jobs(&fleet, NodeVerb::Report), 1);
    fleet.run_jobs();
    fleet.pass("worker", usize::MAX);
    assert_eq!(status(&fleet, "Updated").0, "False", "its next boot would have older files");
    fleet.settle();
    let node = &fleet.nodes["w0"];
    assert_eq!((node.booted, node.staged), (image(1).digest(), Some(image(2).digest())));
    assert_eq!((files(&fleet, 2), fleet.reboots.len()), (1, 0));
    assert_eq!(status(&fleet, "Updated").0, "True");
    assert_idle(&mut fleet);
}

/// Some of its files may be there, whatever the machine reported before.
#[test]
fn an_undo_of_files_that_came_half_brings_all_from_before() {
    let mut fleet = live(2, "automatic");
    fleet.node("w0").refuses_part = true;
    for _ in 0..4 {
        fleet.settle();
        fleet.wait(Duration::from_secs(601));
    }
    fleet.settle();
    assert_eq!((files(&fleet, 1), files(&fleet, 2)), (0, 1));
    assert_eq!(fleet.nodes["w0"].state(), "Degraded");
    assert_eq!(fleet.reboots.len(), 0, "only a machine that says so needs a reboot");
    carry_out(&mut fleet, &RolloutRequest::Undo(None));
    fleet.node("w0").refuses_part = false;
    fleet.settle();
    assert_eq!((files(&fleet, 1), fleet.nodes["w0"].state()), (2, "Done"));
    assert_eq!(fleet.nodes["w0"].staged, None);
    assert_idle(&mut fleet);
}

/// Its Jobs are gone, and its report still has that it may have some files only.
#[test]
fn a_machine_with_some_of_the_files_gets_all_of_an_image() {
    for (number, is_cut) in [(1, false), (1, true), (2, false), (2, true)] {
        let mut fleet = live(2, "automatic");
        fleet.node("w0").refuses_part = true;
        fleet.settle();
        assert_eq!((files(&fleet, 1), files(&fleet, 2)), (0, 1));
        if is_cut {
            fleet.node("w0").boot_again();
            let version = fleet.next_version();
            fleet.node("w0").machine.metadata.resource_version = Some(version);
            fleet.settle();
        }
        fleet.annotate(labels::ROLLOUT, "none");
        fleet.settle();
        assert!(fleet.jobs.is_empty());
        fleet.annotate(labels::ROLLOUT_BUILD, &pin(number).to_string());
        let view = rollout_view(&fleet.snapshot("worker"), fleet.now);
        let is_behind = view.behind.iter().any(|node| node.name == "w0");
        assert!(is_behind, "{number} {is_cut}: {view:?}");
        fleet.node("w0").refuses_part = false;
        let request = match number {
            1 => RolloutRequest::Undo(Some(pin(1).to_string().parse().unwrap())),
            _ => RolloutRequest::Start,
        };
        let question = carry_out(&mut fleet, &request).question.unwrap();
        assert!(question.contains("will get the files"), "{question}");
        fleet.settle();
        let found = (files(&fleet, number), running(&fleet, 1), fleet.reboots.len());
        assert_eq!(found, (2, 2, 0), "{number} {is_cut}");
        assert_idle(&mut fleet);
    }
}

/// Its last report is older than what the Job did.
#[test]
fn a_target_that_changes_while_a_job_brings_files_waits_for_its_report() {
    let mut fleet = live(1, "automatic");
    for _ in 0..8 {
        if jobs(&fleet, NodeVerb::Part) == 0 {
            fleet.pass("worker", usize::MAX);
            fleet.run_jobs();
        }
    }
    fleet.pass("worker", usize::MAX);
    fleet.run_jobs();
    assert_eq!((files(&fleet, 2), jobs(&fleet, NodeVerb::Part)), (1, 1));
    fleet.annotate(labels::ROLLOUT_BUILD, &pin(1).to_string());
    fleet.pass("worker", usize::MAX);
    assert_eq!((jobs(&fleet, NodeVerb::Part), &*status(&fleet, "Updated").0), (1, "False"));
    fleet.settle();
    assert_eq!((files(&fleet, 1), fleet.nodes["w0"].staged, fleet.reboots.len()), (1, None, 0));
    assert_idle(&mut fleet);
}

#[test]
fn keys_and_files_of_one_build_come_together() {
    let mut fleet = Fleet::new(2);
    fleet.annotate(labels::ROLLOUT, "automatic");
    fleet.settle();
    fleet.serve_part("worker", 2, 2, part(0, 1));
    let build = fleet.builds.iter_mut().find(|build| build.metadata.name == "build-2").unwrap();
    let from = image(1).digest().to_string();
    build.metadata.annotations.insert(labels::LIVE_FROM.to_owned(), from.clone());
    fleet.settle();
    let keys = |fleet: &Fleet, keys| {
        let nodes = fleet.nodes.values().filter(|node| node.pool == "worker");
        nodes.filter(|node| keys_of(node.part) == keys).count()
    };
    assert_eq!((files(&fleet, 2), keys(&fleet, 1), running(&fleet, 1)), (2, 2, 2));
    // Keys alone, of a build that has that image.
    fleet.serve_part("worker", 3, 2, part(0, 2));
    let build = fleet.builds.iter_mut().find(|build| build.metadata.name == "build-3").unwrap();
    build.metadata.annotations.insert(labels::LIVE_FROM.to_owned(), from);
    fleet.settle();
    assert_eq!((files(&fleet, 2), keys(&fleet, 2), running(&fleet, 1)), (2, 2, 2));
    assert_eq!(fleet.reboots.len(), 0);
    assert_idle(&mut fleet);
}

#[test]
fn a_controller_killed_after_any_write_brings_the_same_files() {
    for needs_reboot in [false, true] {
        for kill_after in 0..9 {
            let mut fleet = live(3, "automatic");
            fleet.max_unavailable(IntOrString::Int(2));
            fleet.nodes.values_mut().for_each(|node| node.takes_nothing_live = needs_reboot);
            fleet.settle_with_kills(kill_after);
            let booted = if needs_reboot { 2 } else { 1 };
            let found = (files(&fleet, 2), running(&fleet, booted), fleet.jobs.len());
            assert_eq!(found, (3, 3, 0), "killed after {kill_after}");
            fleet.annotate(labels::ROLLOUT_BUILD, &pin(1).to_string());
            fleet.settle_with_kills(kill_after);
            let found = (files(&fleet, 1), fleet.jobs.len());
            assert_eq!(found, (3, 0), "killed after {kill_after}");
            assert_eq!(fleet.reboots.len(), if needs_reboot { 6 } else { 0 });
        }
    }
}
