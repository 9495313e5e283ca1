//! Drains that are held, and what the status reports of them.

use super::fleet::*;
use super::stories::{rolling, running};
use super::waits::updating;
use crate::*;
use std::time::Duration;

#[test]
fn a_held_drain_lists_pods_less_and_less_often_and_goes_on_soon_when_nothing_holds_it() {
    let mut fleet = rolling(1, "automatic");
    fleet.node("w0").held.insert("db".to_owned());
    while fleet.nodes["w0"].slot().is_none() {
        fleet.pass("worker", usize::MAX);
        fleet.run_jobs();
    }
    let lists = |fleet: &Fleet| {
        fleet.asked.iter().filter(|one| matches!(one, RolloutLookup::Pods { .. })).count()
    };
    // As by the driver, and once more for an event of another machine.
    let next = |fleet: &mut Fleet| {
        let after = fleet.pass("worker", usize::MAX).requeue_after.unwrap();
        fleet.pass("worker", usize::MAX);
        fleet.end_pods();
        fleet.wait(after);
    };
    let hour = fleet.now + Duration::from_secs(3600);
    while fleet.now < hour {
        next(&mut fleet);
        assert!(fleet.now.as_second() < hour.as_second() - 3500 || updating(&fleet).contains("db"));
    }
    assert!((60..90).contains(&lists(&fleet)), "{} in an hour", lists(&fleet));
    let (loosened, before) = (fleet.now, lists(&fleet));
    fleet.node("w0").held.clear();
    while !fleet.nodes["w0"].is_drained() {
        next(&mut fleet);
    }
    assert!(fleet.now <= loosened + Duration::from_secs(63), "{loosened}, {}", fleet.now);
    assert_eq!(lists(&fleet) - before, 1);
    let drained = fleet.now;
    while fleet.reboots.is_empty() {
        fleet.pass("worker", usize::MAX);
        fleet.run_jobs();
    }
    assert_eq!(fleet.now, drained, "nothing waits for a drain that is done");
}

#[test]
fn a_machine_that_is_not_ready_is_not_drained() {
    let mut fleet = rolling(1, "automatic");
    fleet.node("w0").held.insert("db".to_owned());
    fleet.settle();
    fleet.node("w0").held.clear();
    fleet.node("w0").machine.ready = false;
    fleet.settle();
    assert!(!fleet.nodes["w0"].is_drained() && updating(&fleet).contains("w0: it is not Ready"));
    fleet.node("w0").machine.ready = true;
    fleet.settle();
    assert_eq!((running(&fleet, 2), fleet.reboots.len()), (1, 1));
}

/// A pod with this name on the machine, which comes again each time it ends.
fn add_returning(fleet: &mut Fleet, tolerates_cordon: bool) {
    let pod = SeenPod {
        namespace: "default".to_owned(),
        name: "operator".to_owned(),
        uid: "operator".to_owned(),
        tolerates_cordon,
        ..SeenPod::default()
    };
    fleet.node("w0").pods.push(pod);
    fleet.node("w0").comes_back.insert("operator".to_owned());
}

#[test]
fn a_pod_that_tolerates_the_cordon_is_evicted_once() {
    let mut fleet = rolling(1, "automatic");
    add_returning(&mut fleet, true);
    fleet.settle();
    assert_eq!((running(&fleet, 2), fleet.evictions["operator"]), (1, 1));
    // It is evicted anew if it came while the machine was not cordoned.
    add_returning(&mut fleet, true);
    fleet.serve("worker", 3);
    fleet.node("w0").held.insert("db".to_owned());
    fleet.settle();
    assert_eq!(fleet.evictions["operator"], 2);
    fleet.node("w0").machine.unschedulable = false;
    fleet.node("w0").held.clear();
    fleet.settle();
    assert_eq!((running(&fleet, 3), fleet.evictions["operator"]), (1, 3));
}

#[test]
fn a_pod_that_comes_again_is_evicted_less_often() {
    let mut fleet = rolling(1, "automatic");
    add_returning(&mut fleet, false);
    while fleet.nodes["w0"].slot().is_none() {
        fleet.pass("worker", usize::MAX);
        fleet.run_jobs();
    }
    let hour = fleet.now + Duration::from_secs(3600);
    while fleet.now < hour {
        let after = fleet.pass("worker", usize::MAX).requeue_after.unwrap();
        fleet.end_pods();
        fleet.wait(after);
    }
    let count = fleet.evictions["operator"];
    assert!((10..90).contains(&count), "{count} in an hour");
    let reason = fleet.nodes["w0"].reason();
    assert!(
        reason.contains("pod default/operator came after the machine was cordoned"),
        "{reason}"
    );
    assert!(updating(&fleet).contains("default/operator"));
    fleet.node("w0").comes_back.clear();
    fleet.settle();
    fleet.settle();
    assert_eq!(running(&fleet, 2), 1);
}

/// Whatever a drain waits for, a minute later its node and its pool name it.
#[test]
fn every_wait_of_a_drain_has_a_reason() {
    type Edit = fn(&mut Fleet);
    let cases: [(Edit, &str); 9] = [
        (|fleet| _ = fleet.node("w0").held.insert("db".to_owned()), "disruption budget"),
        (
            |fleet| {
                let node = fleet.node("w0");
                node.never_end.insert("db".to_owned());
            },
            "is terminating",
        ),
        (
            |fleet| {
                let node = fleet.node("w0");
                node.never_end.insert("db".to_owned());
                node.pods.iter_mut().for_each(|pod| pod.grace = Duration::from_secs(7200));
            },
            "grace period of 7200 s",
        ),
        (|fleet| add_returning(fleet, false), "came after"),
        (|fleet| fleet.is_pod_list_failing = true, "no answer"),
        (|fleet| fleet.node("w0").machine.ready = false, "not Ready"),
        (|fleet| fleet.own_image = "reg.example/mosb:tag".to_owned(), "no Job may be created"),
        (
            |fleet| {
                fleet.make_control_plane("w0");
                fleet.unhealthy = Some("etcd".to_owned());
            },
            "must not lose a node: etcd",
        ),
        (|fleet| fleet.is_uncordoned_again = true, "somebody uncordoned it"),
    ];
    for (edit, want) in cases {
        let mut fleet = rolling(1, "automatic");
        while fleet.nodes["w0"].slot().is_none() {
            fleet.pass("worker", usize::MAX);
            fleet.run_jobs();
        }
        edit(&mut fleet);
        for _ in 0..30 {
            if fleet.is_uncordoned_again {
                fleet.node("w0").machine.unschedulable = false;
            }
            fleet.pass("worker", usize::MAX);
            fleet.end_pods();
            fleet.wait(Duration::from_secs(5));
        }
        assert!(fleet.nodes["w0"].slot().is_some() && fleet.reboots.is_empty(), "{want}");
        let reason = fleet.nodes["w0"].reason();
        assert!(reason.contains(want), "{want}: {reason:?}");
        assert!(updating(&fleet).contains(want), "{want}: {}", updating(&fleet));
    }
}

#[test]
fn a_pod_that_stays_in_terminating_is_named() {
    let mut fleet = rolling(1, "automatic");
    while fleet.nodes["w0"].slot().is_none() {
        fleet.pass("worker", usize::MAX);
        fleet.run_jobs();
    }
    fleet.pass("worker", usize::MAX);
    let app = fleet.node("w0").pods.iter_mut().find(|pod| pod.name == "app").unwrap();
    (app.deleting, app.grace) = (true, Duration::from_secs(90));
    fleet.node("w0").pods.retain(|pod| pod.stays() || pod.name == "app");
    fleet.wait(Duration::from_secs(2));
    fleet.pass("worker", usize::MAX);
    assert_eq!(fleet.nodes["w0"].reason(), "");
    fleet.wait(Duration::from_secs(70));
    fleet.pass("worker", usize::MAX);
    let reason = fleet.nodes["w0"].reason();
    assert!(reason.contains("default/app has a grace period of 90 s"), "{reason}");
    let reason_before = reason.to_owned();
    fleet.wait(Duration::from_secs(22));
    fleet.pass("worker", usize::MAX);
    assert_eq!(fleet.nodes["w0"].reason(), reason_before, "its grace period is just over");
    fleet.wait(Duration::from_secs(31));
    fleet.pass("worker", usize::MAX);
    let reason = fleet.nodes["w0"].reason().to_owned();
    assert!(
        reason.contains("default/app is terminating") && reason.contains("finalizers"),
        "{reason}"
    );
    assert!(updating(&fleet).contains("default/app is terminating"));
}
