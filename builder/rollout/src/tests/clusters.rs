//! Stories of clusters of another shape: one node, a control plane, two pools, many machines.

use super::fleet::*;
use super::machine::FakeNode;
use super::stories::{most_slots, rolling, running, status};
use crate::*;
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use mosb_api::labels;
use std::collections::BTreeSet;
use std::time::Duration;

/// Two pools, `worker` and `infra`, with this many machines; build 2 is in service in both.
fn two_pools(workers: usize, others: usize) -> Fleet {
    let mut fleet = Fleet::new(workers);
    fleet.add_pool("infra");
    for number in 0..others {
        fleet.add_node(&format!("i{number}"), "infra", 1);
    }
    fleet.annotate(labels::ROLLOUT, "automatic");
    let metadata = &mut fleet.configs.get_mut("infra").unwrap().metadata;
    metadata.annotations.insert(labels::ROLLOUT.to_owned(), "automatic".to_owned());
    fleet.settle();
    fleet.serve("worker", 2);
    fleet.serve("infra", 2);
    fleet
}

/// The machines that got a slot, in order.
fn given(fleet: &Fleet) -> Vec<&str> {
    let given = fleet.events.iter().filter(|(reason, _)| reason == "NodeSlotGiven");
    given.map(|(_, note)| note.split(' ').next().unwrap()).collect()
}

#[test]
fn a_single_node_reboots_without_a_drain() {
    let mut fleet = Fleet::new(1);
    fleet.nodes.remove("elsewhere");
    fleet.make_control_plane("w0");
    fleet.own_node = Some("w0".to_owned());
    fleet.annotate(labels::ROLLOUT, "automatic");
    fleet.settle();
    fleet.serve("worker", 2);
    fleet.settle();
    assert_eq!(running(&fleet, 2), 1);
    assert!(!fleet.asked.iter().any(|one| matches!(one, RolloutLookup::Pods { .. })));
}

#[test]
fn control_plane_nodes_go_one_at_a_time_while_the_others_are_healthy() {
    let mut fleet = rolling(3, "automatic");
    for name in ["w0", "w1", "w2"] {
        fleet.make_control_plane(name);
    }
    fleet.own_node = Some("w0".to_owned());
    fleet.max_unavailable(IntOrString::Int(3));
    fleet.unhealthy = Some("etcd-w1 is not Ready".to_owned());
    fleet.settle();
    assert_eq!(running(&fleet, 2), 0);
    let degraded = status(&fleet, "RolloutDegraded");
    assert_eq!(degraded.1, "ControlPlaneUnhealthy");
    assert!(degraded.2.contains("etcd-w1"), "{}", degraded.2);
    fleet.unhealthy = None;
    assert_eq!(most_slots(&mut fleet), 1);
    assert_eq!(running(&fleet, 2), 3);
    let order = given(&fleet);
    assert_eq!(order, ["w1", "w2", "w0"], "its own node last");
}

/// As RKE2 sets up machines for etcd alone.
#[test]
fn machines_that_run_etcd_alone_go_one_at_a_time() {
    let mut fleet = Fleet::new(3);
    for name in ["w0", "w1", "w2"] {
        fleet.give_role(name, "etcd");
    }
    fleet.max_unavailable(IntOrString::Int(2));
    fleet.annotate(labels::ROLLOUT, "automatic");
    fleet.settle();
    fleet.serve("worker", 2);
    fleet.unhealthy = Some("pod kube-system/etcd-w2 of etcd is not Ready".to_owned());
    fleet.settle();
    assert_eq!(fleet.reboots.len(), 0);
    assert_eq!(status(&fleet, "RolloutDegraded").1, "ControlPlaneUnhealthy");
    fleet.unhealthy = None;
    assert_eq!((most_slots(&mut fleet), running(&fleet, 2)), (1, 3));
}

#[test]
fn an_etcd_that_is_not_seen_is_named_where_a_control_plane_machine_gets_a_slot() {
    for (is_control_plane, is_external, want) in
        [(true, true, true), (true, false, false), (false, true, false)]
    {
        let mut fleet = rolling(1, "automatic");
        if is_control_plane {
            fleet.make_control_plane("w0");
        }
        fleet.is_etcd_external = is_external;
        fleet.settle();
        let given = fleet.events.iter().find(|(reason, _)| reason == "NodeSlotGiven").unwrap();
        let is_named = given.1.contains("etcd is external and was not checked");
        assert_eq!(is_named, want, "{is_control_plane} {is_external}: {}", given.1);
    }
}

#[test]
fn two_pools_roll_out_at_once_and_share_the_limit_of_the_registry() {
    let mut fleet = two_pools(4, 4);
    fleet.pass("worker", usize::MAX);
    fleet.pass("infra", usize::MAX);
    let staging = fleet.jobs.values().filter(|job| job.seen.verb == NodeVerb::Stage).count();
    assert_eq!(staging, 3, "three at once from one registry");
    fleet.settle();
    let digest = image(2).digest();
    assert_eq!(fleet.nodes.values().filter(|node| node.booted == digest).count(), 8);
}

#[test]
fn machines_that_go_away_while_they_stage_or_report_take_no_place() {
    let mut fleet = two_pools(4, 4);
    for pool in ["worker", "infra"] {
        fleet.pool_of(pool).spec.max_unavailable = Some(IntOrString::Int(4));
    }
    let go_away = |fleet: &mut Fleet, verb: NodeVerb| -> usize {
        let jobs = fleet.jobs.values().filter(|job| job.seen.verb == verb);
        let names: Vec<String> = jobs.map(|job| job.node.clone()).collect();
        names.iter().for_each(|name| fleet.node(name).go_away());
        names.len()
    };
    fleet.pass("worker", usize::MAX);
    assert_eq!(go_away(&mut fleet, NodeVerb::Stage), 3);
    let waiting = fleet.pass("infra", usize::MAX);
    assert_eq!(waiting.requeue_after, Some(Duration::from_secs(60)), "one waits for a place");
    fleet.settle();
    let digest = image(2).digest();
    assert_eq!(fleet.nodes.values().filter(|node| node.booted == digest).count(), 5);
    // They are back, and their Jobs end.
    fleet.nodes.values_mut().for_each(|node| node.is_lost = false);
    fleet.settle();
    assert_eq!(fleet.nodes.values().filter(|node| node.booted == digest).count(), 8);

    let mut fleet = Fleet::new(14);
    fleet.annotate(labels::ROLLOUT, "automatic");
    fleet.pass("worker", usize::MAX);
    assert_eq!(go_away(&mut fleet, NodeVerb::Report), 10);
    fleet.settle();
    let reported =
        |node: &&FakeNode| node.machine.metadata.annotation(labels::NODE_REPORT).is_some();
    assert_eq!(fleet.nodes.values().filter(reported).count(), 4);
}

#[test]
fn machines_that_failed_to_report_come_after_the_others() {
    let mut fleet = Fleet::new(24);
    fleet.annotate(labels::ROLLOUT, "automatic");
    fleet.nodes.values_mut().for_each(|node| node.reports_nothing = true);
    fleet.pass("worker", usize::MAX);
    fleet.run_jobs();
    fleet.wait(Duration::from_secs(61));
    let numbers = |fleet: &mut Fleet| -> Vec<u32> {
        let running = fleet.jobs.values().filter(|job| job.seen.phase == JobPhase::Running);
        running.map(|job| job.seen.number).collect()
    };
    fleet.pass("worker", usize::MAX);
    assert_eq!(numbers(&mut fleet), [1; 10]);
    fleet.run_jobs();
    fleet.pass("worker", usize::MAX);
    let numbers = numbers(&mut fleet);
    assert_eq!([1, 2].map(|one| numbers.iter().filter(|it| **it == one).count()), [4, 6]);
}

#[test]
fn machines_that_failed_to_stage_come_after_the_others() {
    let mut fleet = rolling(6, "automatic");
    let staging = |fleet: &mut Fleet| -> Vec<u32> {
        // The second pass gives the Jobs their logins.
        (0..2).for_each(|_| drop(fleet.pass("worker", usize::MAX)));
        let running = fleet.jobs.values().filter(|job| job.seen.phase == JobPhase::Running);
        running.map(|job| job.seen.number).collect()
    };
    assert_eq!(staging(&mut fleet), [1; 3]);
    fleet.is_registry_down = true;
    fleet.run_jobs();
    fleet.is_registry_down = false;
    fleet.wait(Duration::from_secs(61));
    assert_eq!(staging(&mut fleet), [1; 3]);
    fleet.run_jobs();
    assert_eq!(staging(&mut fleet), [2; 3]);
}

#[test]
fn a_machine_with_a_slot_stages_before_the_others() {
    let mut fleet = rolling(6, "automatic");
    fleet.node("w5").machine.metadata.creation_timestamp = None;
    fleet.node("w5").not_bootable.insert(image(2).digest());
    fleet.settle();
    assert!(fleet.nodes["w5"].slot().is_some());
    fleet.serve("worker", 3);
    fleet.pass("worker", usize::MAX);
    let running = fleet.jobs.values().filter(|job| job.seen.phase == JobPhase::Running);
    let names: Vec<&str> = running.map(|job| &*job.node).collect();
    assert!(names.len() == 3 && names.contains(&"w5"), "{names:?}");
}

#[test]
fn an_overdue_job_elsewhere_takes_no_place() {
    let mut fleet = two_pools(3, 3);
    fleet.pass("worker", usize::MAX);
    fleet.pass("infra", usize::MAX);
    let stages =
        |fleet: &Fleet| fleet.jobs.values().filter(|job| job.seen.verb == NodeVerb::Stage).count();
    assert_eq!(stages(&fleet), 3);
    fleet.wait(Duration::from_secs(3600 + 61));
    fleet.pass("infra", usize::MAX);
    assert_eq!(stages(&fleet), 6);
}

#[test]
fn the_node_of_the_controller_is_the_last_of_its_pool_also_if_it_stages_first() {
    let mut fleet = Fleet::new(4);
    fleet.own_node = Some("w0".to_owned());
    fleet.settings.staging_per_registry = 1;
    fleet.annotate(labels::ROLLOUT, "automatic");
    fleet.settle();
    fleet.node("w3").machine.unschedulable = true;
    fleet.node("w2").has_no_tool = true;
    fleet.max_unavailable(IntOrString::Int(2));
    fleet.serve("worker", 2);
    fleet.settle();
    let order = given(&fleet);
    assert_eq!(order, ["w1", "w0"], "machines that can't follow are not waited for");
}

#[test]
fn the_node_of_the_controller_waits_for_another_place() {
    type Change = fn(&mut FakeNode);
    let not_ready = |node: &mut FakeNode| (node.is_lost, node.is_down) = (true, true);
    let cordoned = |node: &mut FakeNode| node.machine.unschedulable = true;
    let changes: [(&str, Change); 2] =
        [("is not Ready", not_ready), ("is cordoned, and not by mosb", cordoned)];
    for (what, change) in changes {
        let mut fleet = rolling(1, "automatic");
        fleet.own_node = Some("w0".to_owned());
        change(fleet.node("elsewhere"));
        let node = fleet.node("elsewhere");
        node.machine.ready = !node.is_down;
        fleet.settle();
        assert_eq!(fleet.reboots.len(), 0, "{what}");
        let message = status(&fleet, "Updating").2;
        assert!(
            message.contains(&format!("nowhere else meanwhile: elsewhere {what};")),
            "{message}"
        );
        let node = fleet.node("elsewhere");
        (node.machine.ready, node.machine.unschedulable) = (true, false);
        fleet.settle();
        assert_eq!(running(&fleet, 2), 1, "{what}");
    }
}

#[test]
fn the_autoscaler_removes_no_machine_that_has_a_slot() {
    let mut fleet = rolling(2, "automatic");
    let annotations = &mut fleet.node("w1").machine.metadata.annotations;
    annotations.insert(labels::SCALE_DOWN_DISABLED.to_owned(), "true".to_owned());
    let disabled = |fleet: &Fleet| {
        ["w0", "w1"].map(|name| {
            let metadata = &fleet.nodes[name].machine.metadata;
            metadata.annotation(labels::SCALE_DOWN_DISABLED) == Some("true")
        })
    };
    fleet.node("w0").held.insert("db".to_owned());
    fleet.settle();
    assert!(fleet.nodes["w0"].slot().is_some());
    assert_eq!(disabled(&fleet), [true, true]);
    fleet.node("w0").held.clear();
    fleet.settle();
    assert_eq!(running(&fleet, 2), 2);
    assert_eq!(disabled(&fleet), [false, true], "what somebody else set stays");
}

#[test]
fn the_node_of_the_controller_is_the_last_of_all_pools() {
    let mut fleet = two_pools(2, 3);
    fleet.own_node = Some("w0".to_owned());
    fleet.settle();
    let order = given(&fleet);
    assert_eq!((order.len(), order.last()), (5, Some(&"w0")), "{order:?}");

    // While a machine of the other pool is held, the pool names what it waits for.
    let mut fleet = two_pools(2, 3);
    fleet.own_node = Some("w0".to_owned());
    fleet.node("i1").held.insert("db".to_owned());
    fleet.settle();
    let digest = image(2).digest();
    assert_ne!(fleet.nodes["w0"].booted, digest);
    let message = status(&fleet, "Updating").2;
    assert!(
        message.contains("w0: the controller runs on it") && message.contains("infra"),
        "{message}"
    );

    // One that can't be updated before it is repaired is not waited for.
    let booted = |other: &str, lame: fn(&mut FakeNode)| {
        let mut fleet = two_pools(2, 3);
        fleet.own_node = Some("w0".to_owned());
        lame(fleet.node(other));
        fleet.settle();
        (fleet.nodes["w0"].booted, fleet.nodes["i0"].booted)
    };
    let before = image(1).digest();
    assert_eq!(booted("i1", |node| node.machine.unschedulable = true), (digest, before));
    assert_eq!(booted("i2", |node| node.machine.ready = false), (digest, before));
    assert_eq!(booted("i2", |node| node.machine.disk_pressure = true), (digest, before));

    // A pool that is paused is not waited for.
    fleet.pools.get_mut("infra").unwrap().spec.paused = true;
    fleet.settle();
    assert_eq!(fleet.nodes["w0"].booted, digest);
}

#[test]
fn writes_for_a_machine_are_constant_and_machines_may_join_and_leave() {
    let mut writes = BTreeSet::new();
    for machines in [2, 8] {
        let mut fleet = rolling(machines, "automatic");
        fleet.node_writes = 0;
        fleet.settle();
        writes.insert(fleet.node_writes / machines);
        fleet.add_node("joins", "worker", 1);
        fleet.nodes.remove("w0");
        fleet.settle();
        assert_eq!(running(&fleet, 2), machines);
        assert_eq!(fleet.pools["worker"].status.machine_count, machines as i64);
    }
    assert_eq!(writes.len(), 1, "{writes:?}");
}
