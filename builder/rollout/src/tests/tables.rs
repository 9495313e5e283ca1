//! Tables of the pure functions.

use super::fleet::image;
use super::job_of_machine;
use crate::drain::Drain;
use crate::observe::updating_pools;
use crate::slots::{self, SlotCandidate, SlotChoice, StopReason, max_unavailable};
use crate::*;
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use mosb_api::rollout::NodeTarget;
use mosb_image::Digest;
use serde_json::json;
use std::sync::Arc;
use std::time::Duration;

fn machine(name: &str) -> SlotCandidate<'_> {
    SlotCandidate {
        name,
        zone: None,
        created: None,
        is_available: true,
        has_slot: false,
        is_failed: false,
        is_lost: false,
        is_staged: true,
        is_control_plane: false,
        is_own: false,
        is_own_held: false,
    }
}

fn give(names: &[&str]) -> SlotChoice {
    SlotChoice::Give(names.iter().map(|name| (*name).to_owned()).collect())
}

fn limits(max_unavailable: usize) -> slots::SlotLimits {
    slots::SlotLimits { max_unavailable, max_failed: slots::MAX_FAILED }
}

#[test]
fn slots_go_to_staged_available_machines_within_the_limit() {
    let at = |second| Some(Timestamp::from_second(second).unwrap());
    let slot = SlotCandidate { has_slot: true, is_available: false, ..machine("s") };
    let failed = SlotCandidate { is_failed: true, ..slot.clone() };
    let lost = SlotCandidate { is_failed: true, is_lost: true, ..slot.clone() };
    let not_ready = SlotCandidate { is_available: false, ..machine("n") };
    let not_staged = SlotCandidate { is_staged: false, ..machine("u") };
    let zoned = |name, zone, second| SlotCandidate {
        zone: Some(zone),
        created: at(second),
        ..machine(name)
    };
    let stopped = |reason| SlotChoice::Stopped(reason);
    for (what, machines, max, want) in [
        ("nothing waits", vec![not_staged.clone(), lost.clone()], 9, give(&[])),
        ("one", vec![machine("b"), machine("a")], 1, give(&["a"])),
        ("a slot counts", vec![machine("a"), machine("b"), slot.clone()], 2, give(&["a"])),
        ("a machine that is not Ready counts", vec![machine("a"), not_ready.clone()], 1, give(&[])),
        ("it is never chosen", vec![not_ready, machine("b")], 3, give(&["b"])),
        (
            "by zone, then age; without a zone last",
            vec![machine("z"), zoned("c", "2", 1), zoned("b", "1", 9), zoned("a", "1", 10)],
            4,
            give(&["b", "a", "c", "z"]),
        ),
        (
            "the own node is last",
            vec![SlotCandidate { is_own: true, ..machine("a") }, machine("b")],
            2,
            give(&["b", "a"]),
        ),
        ("one that failed takes its place", vec![machine("a"), failed.clone()], 1, give(&[])),
        ("others go on beside it", vec![machine("a"), failed.clone()], 2, give(&["a"])),
        (
            "two that failed",
            vec![machine("a"), failed.clone(), failed],
            9,
            stopped(StopReason::Failed(vec!["s".to_owned(), "s".to_owned()])),
        ),
        (
            "one that is lost",
            vec![machine("a"), lost],
            9,
            stopped(StopReason::Lost(vec!["s".to_owned()])),
        ),
    ] {
        assert_eq!(slots::choose(&machines, limits(max), &[], None), want, "{what}");
    }
}

#[test]
fn a_control_plane_node_waits_for_all_others() {
    let node = |name: &str, ready, has_slot| ControlPlaneNode {
        name: name.to_owned(),
        ready,
        has_slot,
        ..ControlPlaneNode::default()
    };
    let candidate = |name| SlotCandidate { is_control_plane: true, ..machine(name) };
    let healthy = ControlPlaneHealth::Healthy { is_etcd_external: false };
    let unhealthy = ControlPlaneHealth::Unhealthy("etcd".to_owned());
    let stopped = |why: &str| SlotChoice::Stopped(StopReason::ControlPlane(why.to_owned()));
    let all = [node("a", true, false), node("b", true, false)];
    let busy = [node("a", true, false), node("c", false, true)];
    let broken = [node("a", true, false), node("b", true, false), node("c", false, false)];
    for (what, nodes, health, want) in [
        ("not looked up", &all[..], None, SlotChoice::LookUpControlPlane),
        ("one of two", &all, Some(&healthy), give(&["a", "w"])),
        ("unhealthy", &all, Some(&unhealthy), give(&["w"])),
        ("another pool's has a slot", &busy, Some(&healthy), give(&["w"])),
        ("another is not Ready", &broken, Some(&healthy), give(&["w"])),
    ] {
        let machines = [candidate("a"), candidate("b"), machine("w")];
        assert_eq!(slots::choose(&machines, limits(9), nodes, health), want, "{what}");
    }
    let alone = [candidate("a"), candidate("b")];
    assert_eq!(slots::choose(&alone, limits(9), &broken, Some(&healthy)), stopped("not Ready: c"));
    assert_eq!(slots::choose(&alone, limits(9), &all, Some(&unhealthy)), stopped("etcd"));
}

#[test]
fn max_unavailable_is_a_number_or_a_percentage_rounded_down_and_at_least_one() {
    let text = |text: &str| Some(IntOrString::String(text.to_owned()));
    for (value, machines, want) in [
        (None, 10, Some(1)),
        (Some(IntOrString::Int(3)), 10, Some(3)),
        (Some(IntOrString::Int(0)), 10, Some(1)),
        (Some(IntOrString::Int(-1)), 10, None),
        (text("25%"), 10, Some(2)),
        (text("5%"), 10, Some(1)),
        (text("100%"), 10, Some(10)),
        (text("101%"), 10, None),
        (text("3"), 10, None),
        (text("-1%"), 10, None),
    ] {
        assert_eq!(max_unavailable(value.as_ref(), machines).ok(), want, "{value:?}");
    }
}

#[test]
fn a_drain_evicts_what_kubectl_drain_evicts() {
    let pod = |name: &str| SeenPod { name: name.to_owned(), ..SeenPod::default() };
    let pods = [
        pod("app"),
        SeenPod { is_of_daemon_set: true, ..pod("agent") },
        SeenPod { is_mirror: true, ..pod("static") },
        SeenPod { is_of_rollout: true, ..pod("stage") },
        SeenPod { deleting: true, ..pod("ends") },
        SeenPod { is_of_daemon_set: true, deleting: true, ..pod("old-agent") },
    ];
    let left: Vec<SeenPod> = pods.into_iter().filter(|pod| !pod.stays()).collect();
    let drain = Drain::of(&left, None);
    let names: Vec<&str> = drain.evict.iter().map(|pod| &*pod.name).collect();
    assert_eq!((names, drain.terminating.len(), drain.is_done()), (vec!["app"], 1, false));
    assert!(Drain::of(&[], None).is_done());
    let many = vec![pod("app"); 1000];
    assert_eq!(Drain::of(&many, None).evictions().count(), 100);
}

#[test]
fn a_job_takes_a_place_on_a_ready_machine_until_its_deadline() {
    let now = Timestamp::from_second(10_000).unwrap();
    let job = |age: i64, deadline: Option<u64>, phase| MachineJob {
        created: Some(Time(Timestamp::from_second(10_000 - age).unwrap())),
        deadline: deadline.map(Duration::from_secs),
        ..job_of_machine(phase)
    };
    let ended = || JobPhase::Succeeded(Box::default());
    for (what, job, is_ready, want) in [
        ("it runs", job(10, Some(300), JobPhase::Running), true, true),
        ("its pod ends", job(359, Some(300), JobPhase::Running), true, true),
        ("it does not end", job(361, Some(300), JobPhase::Running), true, false),
        ("its machine is away", job(10, Some(300), JobPhase::Running), false, false),
        ("no deadline", job(9_999, None, JobPhase::Running), true, true),
        ("it ended", job(10, Some(300), ended()), true, false),
    ] {
        assert_eq!(job.takes_place(is_ready, now), want, "{what}");
        assert_eq!(job.is_overdue(now), what == "it does not end", "{what}");
    }
}

#[test]
fn what_some_machines_have_lets_their_pool_be_updating() {
    for (reason, want) in [
        ("", true),
        ("SharedNodes", true),
        ("WriteRefused", true),
        ("MachinesFailed", false),
        ("WatchFailed", false),
    ] {
        let degraded = if reason.is_empty() { "False" } else { "True" };
        let pool = json!({ "metadata": { "name": "infra" }, "status": {
            "machineCount": 2, "updatedMachineCount": 1, "degradedMachineCount": 0,
            "conditions": [
                { "type": "Updating", "status": "True" },
                { "type": "RolloutDegraded", "status": degraded, "reason": reason },
            ],
        } });
        let pool = Arc::new(serde_json::from_value(pool).unwrap());
        let updating = |own| updating_pools([&pool], own, |_| (Vec::new(), String::new()));
        assert_eq!(updating("worker").len() == 1, want, "{reason}");
        assert!(updating("infra").is_empty(), "{reason}");
    }
}

#[test]
fn names_of_jobs_have_96_bits() {
    let mut machine = Machine::default();
    machine.node.metadata.uid = Some("11111111-2222-3333-4444-555555555555".to_owned());
    let target = NodeTarget {
        image: image(1),
        config: None,
        machine_part: None,
        live_from: None,
        verify: false,
    };
    let digits = &Digest::of(machine.node.metadata.uid().as_bytes()).hex()[..24];
    for verb in NodeVerb::ALL {
        let target = Some(&target).filter(|_| verb != NodeVerb::Report);
        let snapshot = RolloutSnapshot::default();
        let name = NodeJobRequest::new(&snapshot, &machine, verb, target, 99_999).name;
        assert!(name.contains(digits) && name.len() <= 63, "{name}");
    }
}
