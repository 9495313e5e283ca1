//! The images of a pool, its nodes and its roll-out.

use super::{BUILD, RENDERED, digest, looks_like};
use crate::cli::objects::*;

fn image(of: &str) -> Option<String> {
    Some(format!("registry.example.com/os/worker@{}", digest(of)))
}

fn text(text: &str) -> Option<String> {
    Some(text.to_owned())
}

fn node(name: &str) -> NodeInfo {
    NodeInfo {
        node: name.to_owned(),
        pool: text("worker"),
        current: image("old"),
        ready: true,
        ..NodeInfo::default()
    }
}

fn nodes() -> Vec<NodeInfo> {
    vec![
        NodeInfo {
            desired: image("new"),
            staged: image("new"),
            state: text("Working"),
            since: text("2026-01-02T03:04:05Z"),
            age: "7m".to_owned(),
            reason: text(
                "pod shop/web-0: Cannot evict pod as it would violate the pod's disruption budget",
            ),
            unschedulable: true,
            ..node("node-1")
        },
        NodeInfo {
            state: text("Degraded"),
            reason: text("booted another image than the target"),
            ready: false,
            ..node("node-2")
        },
        NodeInfo { pool: None, current: None, ..node("node-3") },
        NodeInfo {
            desired: image("new"),
            staged: image("new"),
            live: image("new"),
            state: text("Done"),
            ..node("node-4")
        },
    ]
}

#[test]
fn the_images_of_a_pool() {
    let build = PoolBuild {
        build: BUILD.to_owned(),
        pool: "worker".to_owned(),
        config: RENDERED.to_owned(),
        base: text(&format!("quay.io/fedora/fedora-coreos@{}", digest("base"))),
        method: text("direct"),
        image: image("new"),
        state: text("Succeeded"),
        time: text("2026-01-02T03:04:05Z"),
        age: "7m".to_owned(),
        in_service: true,
        ..PoolBuild::default()
    };
    let names = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect();
    let builds = vec![
        PoolBuild {
            image: None,
            method: text("containerfile"),
            state: text("Building"),
            in_service: false,
            age: "30s".to_owned(),
            ..build.clone()
        },
        PoolBuild { staged_on: names(&["node-1"]), ..build.clone() },
        PoolBuild {
            base: None,
            method: None,
            image: image("old"),
            state: None,
            in_service: false,
            pinned: true,
            age: "5d".to_owned(),
            running_on: names(&["node-1", "node-2", "node-3", "node-4", "node-5"]),
            ..build
        },
    ];
    looks_like("builds", &BuildList { builds });
    assert_eq!(BuildList { builds: Vec::new() }.text(), "no builds\n");
}

#[test]
fn nodes_and_their_images() {
    looks_like("nodes", &NodeList { nodes: nodes() });
    assert_eq!(NodeList { nodes: Vec::new() }.text(), "no nodes\n");
}

#[test]
fn a_roll_out_under_way() {
    let condition = |kind: &str, status: &str, reason: &str, message: &str| PoolCondition {
        kind: kind.to_owned(),
        status: status.to_owned(),
        reason: text(reason).filter(|text| !text.is_empty()),
        message: text(message).filter(|text| !text.is_empty()),
    };
    let status = RolloutStatus {
        pool: "worker".to_owned(),
        machine_os_config: text("worker"),
        mode: "automatic".to_owned(),
        paused: false,
        phase: "progressing".to_owned(),
        message: "1 of 3 machines run it, 1 staged; node-1 Working".to_owned(),
        target: Some(RolloutTarget {
            build: format!("{BUILD}@{}", digest("new")),
            newer: text(&format!("{BUILD}@{}", digest("newer"))),
            pinned: true,
            once: false,
        }),
        machines: RolloutMachines {
            all: 3,
            updated: 1,
            ready: 1,
            staged: 1,
            live: 1,
            unavailable: 2,
            degraded: 1,
        },
        conditions: vec![
            condition("Updated", "False", "", ""),
            condition("Updating", "True", "", "All nodes are updating"),
            condition("NodeDegraded", "True", "RolloutNodesDegraded", "node node-2 is reporting"),
        ],
        behind: nodes(),
    };
    looks_like("rollout-status", &status);
    let off = RolloutStatus {
        machine_os_config: None,
        mode: "none".to_owned(),
        paused: true,
        phase: "off".to_owned(),
        message: "nothing is rolled out: it has no MachineOSConfig".to_owned(),
        target: None,
        machines: RolloutMachines::default(),
        conditions: Vec::new(),
        behind: Vec::new(),
        ..status
    };
    looks_like("rollout-status-off", &off);
}

#[test]
fn what_was_asked_for() {
    let asked = RolloutRequest {
        pool: "worker".to_owned(),
        action: "undo".to_owned(),
        changed: true,
        build: text(&format!("{BUILD}@{}", digest("old"))),
        notes: vec!["the pool stays pinned to it until mosb rollout start worker".to_owned()],
    };
    looks_like("rollout-request", &asked);
    let same = RolloutRequest { changed: false, ..asked.clone() };
    looks_like("rollout-request-unchanged", &same);
    for (action, build, want) in [
        ("start", true, "worker: worker-fedcba98"),
        ("pause", false, "worker: paused\n"),
        ("resume", false, "worker: resumed; follow it with mosb rollout status worker --watch\n"),
    ] {
        let build = asked.build.clone().filter(|_| build);
        let request = RolloutRequest { action: action.to_owned(), build, ..asked.clone() };
        assert!(request.text().starts_with(want), "{}", request.text());
    }
}
