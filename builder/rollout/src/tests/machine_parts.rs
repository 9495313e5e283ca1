//! Machine parts: keys and a password come without a reboot, kernel arguments with one, and a
//! revert brings the ones from before.

use super::fleet::*;
use super::leaving::delete_config;
use super::machine::{FakeJob, FakeNode};
use super::requests::carry_out;
use super::stories::{running, status};
use crate::*;
use mosb_api::labels;
use mosb_image::Digest;
use std::time::Duration;

/// A pool whose machines have build 1 with arguments 1 and keys 1.
pub fn with_part(machines: usize, mode: &str) -> Fleet {
    let mut fleet = Fleet::new(machines);
    fleet.parts.insert(rendered(2), part(1, 1));
    fleet.annotate(labels::ROLLOUT, "automatic");
    fleet.settle();
    fleet.serve_part("worker", 2, 2, part(1, 1));
    fleet.settle();
    assert_eq!(has(&fleet, 2, part(1, 1)), machines, "image and part came together");
    assert_eq!(fleet.reboots.len(), machines);
    fleet.annotate(labels::ROLLOUT, mode);
    fleet
}

/// How many machines run this image with this part.
pub fn has(fleet: &Fleet, number: u32, part: Digest) -> usize {
    let digest = image(number).digest();
    let nodes = fleet.nodes.values().filter(|node| node.pool == "worker" && node.booted == digest);
    nodes.filter(|node| node.part == Some(part) && node.arguments == arguments_of(part)).count()
}

fn jobs(fleet: &Fleet, verb: NodeVerb) -> usize {
    fleet.jobs.values().filter(|job| job.seen.verb == verb).count()
}

#[test]
fn keys_come_to_all_machines_without_a_slot_and_without_a_reboot() {
    let mut fleet = with_part(30, "automatic");
    let (reboots, before) = (fleet.reboots.len(), fleet.events.len());
    fleet.serve_part("worker", 3, 2, part(1, 2));
    let at_once: [usize; 6] = std::array::from_fn(|_| {
        // What runs changes its machine, and ends.
        fleet.run_jobs();
        fleet.run_jobs();
        fleet.pass("worker", usize::MAX);
        fleet.pass("worker", usize::MAX);
        jobs(&fleet, NodeVerb::Part)
    });
    assert_eq!(at_once, [1, 1, 2, 4, 8, 10], "as many as have them");
    let working = || fleet.nodes.values().filter(|node| node.state() == "Working");
    assert_eq!(working().count(), 10);
    let node = working().next().unwrap();
    let desired = node.machine.metadata.annotation(labels::NODE_DESIRED_CONFIG);
    assert_eq!(desired, Some(&*rendered(3)));
    assert_eq!(status(&fleet, "Updated").0, "False");
    fleet.settle();
    assert_eq!(has(&fleet, 2, part(1, 2)), 30);
    assert_eq!(fleet.reboots.len(), reboots);
    let events: Vec<&str> = fleet.events[before..].iter().map(|(reason, _)| &**reason).collect();
    assert_eq!(events, ["RolloutStarted", "RolloutCompleted"]);
    for node in fleet.nodes.values().filter(|node| node.pool == "worker") {
        let current = node.machine.metadata.annotation(labels::NODE_CURRENT_CONFIG);
        assert_eq!((current, node.state()), (Some(&*rendered(3)), "Done"));
        assert!(node.slot().is_none() && !node.machine.unschedulable);
    }
    assert!(status(&fleet, "Updated").2.contains(&rendered(3)));
    assert!(fleet.jobs.is_empty());
    fleet.asked.clear();
    let idle = fleet.decide("worker");
    assert!(idle.actions.is_empty() && idle.requeue_after.is_none(), "{idle:?}");
    assert!(fleet.asked.is_empty(), "{:?}", fleet.asked);
}

#[test]
fn a_paused_pool_and_one_that_is_not_rolled_out_gets_no_keys() {
    for mode in ["none", "stage", "automatic"] {
        let mut fleet = with_part(2, mode);
        fleet.pool().spec.paused = mode == "automatic";
        fleet.serve_part("worker", 3, 2, part(1, 2));
        fleet.settle();
        assert_eq!((has(&fleet, 2, part(1, 1)), fleet.reboots.len()), (2, 2), "{mode}");
        assert!(fleet.nodes.values().all(|node| node.staged.is_none()), "{mode}");
        let view = rollout_view(&fleet.snapshot("worker"), fleet.now);
        assert_eq!(view.machines.updated, 0, "{mode}");
        assert_eq!(status(&fleet, "Updated").0, "False", "{mode}");
        let updating = status(&fleet, "Updating");
        let is_explained = updating.2.contains("mosb rollout start brings its keys");
        assert_eq!((&*updating.0, is_explained), ("False", mode == "stage"), "{}", updating.2);
        if mode == "automatic" {
            fleet.pool().spec.paused = false;
        } else {
            let change = carry_out(&mut fleet, &RolloutRequest::Start);
            let question = change.question.unwrap();
            assert!(question.contains("2 machines of pool worker will get keys"), "{question}");
        }
        fleet.settle();
        assert_eq!((has(&fleet, 2, part(1, 2)), fleet.reboots.len()), (2, 2), "{mode}");
    }
}

#[test]
fn kernel_arguments_are_staged_and_come_with_a_reboot_in_a_slot() {
    let mut fleet = with_part(3, "automatic");
    fleet.serve_part("worker", 3, 2, part(2, 2));
    fleet.settle();
    assert_eq!((has(&fleet, 2, part(2, 2)), fleet.reboots.len()), (3, 6));
    assert!(fleet.jobs.is_empty(), "{:?}", fleet.jobs.keys());
    let given = fleet.events.iter().filter(|(reason, _)| reason == "NodeSlotGiven").count();
    assert_eq!(given, 6);
    // With another image they come along.
    fleet.serve_part("worker", 4, 4, part(3, 2));
    fleet.settle();
    assert_eq!((has(&fleet, 4, part(3, 2)), fleet.reboots.len()), (3, 9));
}

#[test]
fn arguments_that_are_staged_and_not_wanted_any_more_are_removed() {
    let mut fleet = with_part(1, "automatic");
    fleet.node("w0").machine.unschedulable = true;
    fleet.serve_part("worker", 3, 2, part(2, 1));
    fleet.settle();
    let node = &fleet.nodes["w0"];
    assert_eq!((node.staged, node.staged_arguments), (Some(image(2).digest()), 2));
    assert!(
        status(&fleet, "Updating").2.contains("it is cordoned"),
        "{:?}",
        status(&fleet, "Updating")
    );
    fleet.serve_part("worker", 2, 2, part(1, 1));
    fleet.settle();
    assert_eq!((fleet.nodes["w0"].staged, fleet.reboots.len()), (None, 1));
    assert_eq!(status(&fleet, "Updating").0, "True", "it is not Ready for pods");
}

#[test]
fn an_undo_brings_the_keys_from_before() {
    let mut fleet = with_part(2, "automatic");
    fleet.serve_part("worker", 3, 2, part(1, 2));
    fleet.settle();
    let change = carry_out(&mut fleet, &RolloutRequest::Undo(None));
    assert_eq!(change.build, Some(pin(2)));
    fleet.settle();
    assert_eq!((has(&fleet, 2, part(1, 1)), fleet.reboots.len()), (2, 2));
    let views = build_views(&fleet.snapshot("worker"));
    let view = |name: &str| views.iter().find(|view| view.build == name).unwrap();
    assert_eq!(view("build-2").running_on, ["w0", "w1"]);
    assert!(view("build-3").running_on.is_empty() && view("build-3").in_service);
    assert!(view("build-2").pinned && !view("build-2").in_service);
    carry_out(&mut fleet, &RolloutRequest::Start);
    fleet.settle();
    assert_eq!((has(&fleet, 2, part(1, 2)), fleet.reboots.len()), (2, 2));
}

/// Its last report is older than what the Job did.
#[test]
fn a_target_that_changes_while_a_job_brings_keys_waits_for_its_report() {
    let mut fleet = with_part(1, "automatic");
    fleet.serve_part("worker", 3, 2, part(1, 2));
    fleet.settle();
    fleet.annotate(labels::ROLLOUT_BUILD, &pin(2).to_string());
    for _ in 0..3 {
        fleet.pass("worker", usize::MAX);
    }
    fleet.run_jobs();
    assert_eq!((has(&fleet, 2, part(1, 1)), jobs(&fleet, NodeVerb::Part)), (1, 1));
    fleet.configs.get_mut("worker").unwrap().metadata.annotations.remove(labels::ROLLOUT_BUILD);
    fleet.pass("worker", usize::MAX);
    assert_eq!((jobs(&fleet, NodeVerb::Part), &*status(&fleet, "Updated").0), (1, "False"));
    fleet.settle();
    assert_eq!((has(&fleet, 2, part(1, 2)), fleet.reboots.len()), (1, 1));
    assert_eq!(status(&fleet, "Updated").0, "True");
}

/// The same holds for one that is made again, and for a machine that comes back to its pool.
#[test]
fn keys_that_come_after_nobody_wants_them_any_more_are_known() {
    for leaves_pool in [false, true] {
        let mut fleet = with_part(1, "automatic");
        fleet.serve_part("worker", 3, 2, part(1, 2));
        for _ in 0..3 {
            fleet.pass("worker", usize::MAX);
        }
        fleet.run_jobs();
        assert_eq!((has(&fleet, 2, part(1, 2)), jobs(&fleet, NodeVerb::Part)), (1, 1));
        let config = fleet.configs["worker"].clone();
        if leaves_pool {
            fleet.node("w0").pool = "none".to_owned();
        } else {
            delete_config(&mut fleet, "worker");
        }
        fleet.settle();
        assert!(fleet.jobs.is_empty(), "{:?}", fleet.jobs.keys());
        assert_eq!((fleet.nodes["w0"].state(), fleet.configs.len()), ("Done", leaves_pool.into()));
        fleet.node("w0").pool = "worker".to_owned();
        fleet.configs.insert("worker".to_owned(), config);
        fleet.serve_part("worker", 2, 2, part(1, 1));
        fleet.settle();
        assert_eq!((has(&fleet, 2, part(1, 1)), fleet.reboots.len()), (1, 1), "{leaves_pool}");
        assert_eq!(status(&fleet, "Updated").0, "True", "{leaves_pool}");
    }
}

/// Somebody took the arguments to the machine by hand and rebooted it.
#[test]
fn a_machine_that_needed_a_reboot_in_another_boot_is_asked_again() {
    let mut fleet = with_part(1, "automatic");
    fleet.serve_part("worker", 3, 2, part(2, 2));
    while !fleet.jobs.values().any(|job| is_exit(job, 45)) {
        fleet.pass("worker", usize::MAX);
        fleet.run_jobs();
    }
    let node = fleet.node("w0");
    node.arguments = 2;
    node.boot_again();
    fleet.settle();
    fleet.wait(Duration::from_secs(601));
    fleet.settle();
    assert_eq!((has(&fleet, 2, part(2, 2)), fleet.reboots.len()), (1, 1), "no reboot in a slot");
    assert!(fleet.jobs.is_empty(), "{:?}", fleet.jobs.keys());
}

fn is_exit(job: &FakeJob, code: i32) -> bool {
    matches!(job.seen.phase, JobPhase::Failed { exit_code: Some(found), .. } if found == code)
}

#[test]
fn a_controller_killed_after_any_write_brings_the_same_part() {
    for (wanted, reboots) in [(part(1, 2), 3), (part(2, 2), 6)] {
        for kill_after in 0..9 {
            let mut fleet = with_part(3, "automatic");
            fleet.serve_part("worker", 3, 2, wanted);
            fleet.settle_with_kills(kill_after);
            let found = (has(&fleet, 2, wanted), fleet.reboots.len(), fleet.jobs.len());
            assert_eq!(found, (3, reboots, 0), "killed after {kill_after}");
        }
    }
}

/// As builds of another builder have none.
#[test]
fn builds_without_a_record_of_the_part_bring_nothing() {
    let mut fleet = Fleet::new(3);
    fleet.annotate(labels::ROLLOUT, "automatic");
    fleet.parts.insert(rendered(1), part(1, 1));
    fleet.parts.insert(rendered(2), part(2, 2));
    fleet.settle();
    fleet.asked.clear();
    let idle = fleet.decide("worker");
    assert!(idle.actions.is_empty() && fleet.asked.is_empty(), "{idle:?} {:?}", fleet.asked);
    fleet.serve("worker", 2);
    fleet.settle();
    assert_eq!((running(&fleet, 2), fleet.reboots.len()), (3, 3));
    assert!(fleet.nodes.values().all(|node| node.arguments == 0));
    let is_looked_up = |lookup: &RolloutLookup| matches!(lookup, RolloutLookup::MachinePart(_));
    assert!(!fleet.asked.iter().any(is_looked_up));
}

/// The machines keep what was brought to them, and get no Job without another image.
#[test]
fn a_build_without_a_record_leaves_the_part() {
    let mut fleet = with_part(2, "automatic");
    fleet.serve_build("worker", 7, 2, None);
    fleet.pass("worker", usize::MAX);
    assert!(fleet.jobs.is_empty(), "{:?}", fleet.jobs.keys());
    assert_eq!((has(&fleet, 2, part(1, 1)), fleet.reboots.len()), (2, 2));
    assert_eq!(status(&fleet, "Updated").0, "True");
    fleet.annotate(labels::ROLLOUT_BUILD, &pin(1).to_string());
    fleet.settle();
    assert_eq!((has(&fleet, 1, part(1, 1)), fleet.reboots.len()), (2, 4));
    assert_eq!(status(&fleet, "Updated").0, "True");
    // What was brought is recorded for that build no more, so the part comes again.
    carry_out(&mut fleet, &RolloutRequest::Start);
    fleet.serve_part("worker", 8, 1, part(1, 2));
    fleet.settle();
    assert_eq!((has(&fleet, 1, part(1, 2)), fleet.reboots.len()), (2, 4));
}

#[test]
fn the_stock_image_leaves_the_part() {
    let mut fleet = with_part(1, "automatic");
    let reboots = fleet.reboots.len();
    fleet.annotate(labels::ROLLOUT_BUILD, &pin(STOCK_IMAGE).to_string());
    fleet.settle();
    assert_eq!((has(&fleet, STOCK_IMAGE, part(1, 1)), fleet.reboots.len()), (1, reboots + 1));
    assert_eq!(status(&fleet, "Updated").0, "True");
}

#[test]
fn a_part_that_is_read_differently_by_now_is_reported_and_nothing_begins() {
    let mut fleet = with_part(2, "automatic");
    for (number, of) in [(3, 2), (4, 4)] {
        fleet.serve_part("worker", number, of, part(2, 2));
        fleet.parts.insert(rendered(number), part(9, 9));
        fleet.settle();
        let degraded = status(&fleet, "RolloutDegraded");
        assert_eq!((&*degraded.0, &*degraded.1), ("True", "MachinePartChanged"));
        assert!(degraded.2.contains(&rendered(number)), "{}", degraded.2);
        assert!(fleet.jobs.is_empty() && fleet.nodes.values().all(|node| node.staged.is_none()));
        let after = fleet.decide("worker").requeue_after;
        assert_eq!(after, Some(Duration::from_secs(60)));
    }
    fleet.parts.insert(rendered(4), part(2, 2));
    fleet.settle();
    assert_eq!(
        (has(&fleet, 4, part(2, 2)), status(&fleet, "RolloutDegraded").0.as_str()),
        (2, "False")
    );
}

#[test]
fn a_machine_that_does_not_take_its_keys_is_degraded_and_the_others_go_on() {
    let mut fleet = with_part(2, "automatic");
    fleet.node("w0").refuses_part = true;
    fleet.serve_part("worker", 3, 2, part(1, 2));
    for _ in 0..4 {
        fleet.settle();
        fleet.wait(Duration::from_secs(601));
    }
    fleet.settle();
    let node = &fleet.nodes["w0"];
    assert_eq!((node.state(), has(&fleet, 2, part(1, 2))), ("Degraded", 1));
    assert!(node.reason().contains("no user core"), "{}", node.reason());
    assert!(node.slot().is_none() && fleet.reboots.len() == 2);
    fleet.node("w0").refuses_part = false;
    fleet.wait(Duration::from_secs(601));
    fleet.settle();
    assert_eq!((has(&fleet, 2, part(1, 2)), fleet.nodes["w0"].state()), (2, "Done"));
}

/// From its first boot it has the arguments and keys of its config, and no record of them.
#[test]
fn a_new_machine_gets_the_part_without_a_reboot() {
    let mut fleet = with_part(1, "automatic");
    fleet.add_node("new", "worker", 2);
    fleet.node("new").arguments = 1;
    fleet.settle();
    assert_eq!((has(&fleet, 2, part(1, 1)), fleet.reboots.len()), (2, 1));
}

/// Others reboot the machines of such a pool. One that has the keys already is updated, and one that
/// has not is asked once.
#[test]
fn where_images_are_only_staged_a_machine_that_has_the_part_is_updated() {
    let mut fleet = Fleet::new(2);
    fleet.annotate(labels::ROLLOUT, "stage");
    fleet.settle();
    fleet.serve_part("worker", 2, 2, part(1, 0));
    fleet.settle();
    fleet.nodes.values_mut().for_each(FakeNode::reboot);
    fleet.boot_all();
    fleet.settle();
    assert_eq!((has(&fleet, 2, part(1, 0)), &*status(&fleet, "Updated").0), (2, "True"));
    // From its first boot, and with other keys.
    for (name, keys, updated) in [("new", 0, "True"), ("other", 9, "False")] {
        fleet.add_node(name, "worker", 2);
        let node = fleet.node(name);
        (node.arguments, node.part) = (1, Some(part(1, keys)));
        fleet.settle();
        assert_eq!(status(&fleet, "Updated").0, updated, "{name}");
        let lacking = status(&fleet, "Updating").2;
        assert_eq!(lacking.ends_with("kernel arguments to other"), name == "other", "{lacking}");
        assert_eq!(fleet.nodes[name].state(), "Done");
    }
    assert_eq!(fleet.jobs.len(), 1, "{:?}", fleet.jobs.keys());
    fleet.node("other").boot_again();
    fleet.settle();
    assert_eq!((fleet.jobs.len(), fleet.reboots.len()), (1, 0));
    carry_out(&mut fleet, &RolloutRequest::Start);
    fleet.settle();
    assert_eq!((has(&fleet, 2, part(1, 0)), fleet.reboots.len()), (4, 0));
    assert!(fleet.jobs.is_empty(), "{:?}", fleet.jobs.keys());
    // Kernel arguments alone are staged with the image that runs.
    fleet.serve_part("worker", 3, 2, part(2, 0));
    fleet.settle();
    fleet.nodes.values_mut().for_each(FakeNode::reboot);
    fleet.boot_all();
    fleet.settle();
    assert_eq!((has(&fleet, 2, part(2, 0)), &*status(&fleet, "Updated").0), (4, "True"));
}
