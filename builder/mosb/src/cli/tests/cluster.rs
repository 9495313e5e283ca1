//! The images of a pool, its nodes and its roll-out.

use jiff::Timestamp;
use serde_json::json;

use super::{BUILD, RENDERED, digest, looks_like};
use crate::cli::cluster::base::{BaseList, Rivals};
use crate::cli::cluster::builds::BuildList;
use crate::cli::cluster::ignition::MachineIgnition;
use crate::cli::cluster::images::ImageList;
use crate::cli::cluster::nodes::*;
use crate::cli::cluster::rollout::RolloutResult;
use crate::cli::cluster::rollout_status::RolloutStatus;
use crate::cli::node::report::{NodeEtc, PathList};
use mosb_api::rollout::{RolloutMode, SoftReboot};
use mosb_commands::output::Object as _;
use mosb_controller::followed_bases::{BaseView, NewerView};
use mosb_controller::retention::{ImageState, PoolImage, PoolImages};
use mosb_controller::rollout::{
    BuildView, MachineCounts, NodeView, PoolCondition, RolloutPhase, RolloutView, SoftReboots,
    TargetView,
};
use mosb_plan::plan::diff::{KernelChange, OsSummary};
use mosb_types::Finding;

fn image(of: &str) -> Option<String> {
    Some(format!("registry.example.com/os/worker@{}", digest(of)))
}

fn text(text: &str) -> Option<String> {
    Some(text.to_owned())
}

fn at(time: &str) -> Timestamp {
    time.parse().unwrap()
}

/// Seven minutes after what most of them show.
fn now() -> Timestamp {
    at("2026-01-02T03:11:05Z")
}

fn node(name: &str, set: impl FnOnce(&mut NodeView)) -> NodeView {
    let mut node = NodeView::default();
    node.name = name.to_owned();
    node.pool = text("worker");
    node.current = image("old");
    node.ready = true;
    set(&mut node);
    node
}

fn nodes() -> Vec<NodeView> {
    vec![
        node("node-1", |node| {
            node.desired = image("new");
            node.staged = image("new");
            node.state = text("Working");
            node.since = Some(at("2026-01-02T03:04:05Z"));
            node.reason = text(
                "pod shop/web-0: Cannot evict pod as it would violate the pod's disruption budget",
            );
            node.unschedulable = true;
        }),
        node("node-2", |node| {
            node.state = text("Degraded");
            node.reason = text("booted another image than the target");
            node.ready = false;
        }),
        node("node-3", |node| (node.pool, node.current) = (None, None)),
        node("node-4", |node| {
            node.desired = image("new");
            node.staged = image("new");
            node.live = image("new");
            node.state = text("Done");
            node.soft_reboot = Some(SoftReboot::USED);
        }),
    ]
}

#[test]
fn bases_of_pools() {
    let base = |pool: &str, follow: &str, held, newer| BaseView {
        pool: pool.to_owned(),
        follow: follow.to_owned(),
        held,
        tag: text("quay.io/fedora/fedora-coreos:stable"),
        stream_metadata: None,
        base: Some(format!("quay.io/fedora/fedora-coreos@{}", digest("base"))),
        version: text("43.20251201.3.0"),
        created: text("2025-12-01T03:11:05Z"),
        recorded: None,
        newer,
    };
    let newer = NewerView {
        status: "True".to_owned(),
        reason: "NewerBase".to_owned(),
        message: "quay.io/fedora/fedora-coreos:stable is version 43.20260101.3.0".to_owned(),
        since: text("2026-01-02T01:11:05Z"),
    };
    let list = BaseList {
        bases: vec![
            base("infra", "none", false, None),
            base("worker", "notify", true, Some(newer)),
        ],
        rivals: vec![Rivals {
            pool: "gpu".to_owned(),
            machine_os_configs: vec!["gpu".to_owned(), "gpu-old".to_owned()],
        }],
        now: now(),
    };
    looks_like("base-status", &list);
    let rivals = BaseList { bases: Vec::new(), ..list };
    looks_like("base-status-rivals", &rivals);
    let none = BaseList { rivals: Vec::new(), ..rivals };
    assert_eq!(none.text(), "no pool has a MachineOSConfig\n");
}

#[test]
fn images_of_a_registry() {
    let image = |name: &str, state, reasons: &[&str]| PoolImage {
        image: image(name).unwrap(),
        kind: "machines".to_owned(),
        builds: vec![format!("worker-{name}")],
        tags: vec![format!("rendered-worker-{name}"), format!("worker-{name}")],
        time: at("2025-11-02T03:04:05Z"),
        state,
        reasons: reasons.iter().map(|reason| (*reason).to_owned()).collect(),
    };
    let images = PoolImages {
        pool: "worker".to_owned(),
        machine_os_config: "worker".to_owned(),
        repository: "registry.example.com/os/worker".to_owned(),
        keep: 5,
        days: 30,
        prune: false,
        held: None,
        refused: None,
        images: vec![
            image("new", ImageState::Kept, &["in service of worker", "node node-1 booted it"]),
            image("old", ImageState::Deletable, &[]),
        ],
    };
    looks_like("images-list", &ImageList { images: images.clone(), now: now() });
    let mut pruned = PoolImages { prune: true, ..images.clone() };
    pruned.images[1].state = ImageState::Deleted;
    looks_like("images-prune", &ImageList { images: pruned, now: now() });
    let refused = PoolImages {
        prune: true,
        refused: Some("405: UNSUPPORTED: The operation is unsupported.".to_owned()),
        ..images.clone()
    };
    looks_like("images-refused", &ImageList { images: refused, now: now() });
    let held =
        "the user data of new machines may have an older image; condition UserData shows why";
    let held = PoolImages { held: Some(held.to_owned()), images: Vec::new(), ..images };
    looks_like("images-held", &ImageList { images: held, now: now() });
}

#[test]
fn the_images_of_a_pool() {
    let build = BuildView {
        build: BUILD.to_owned(),
        pool: "worker".to_owned(),
        config: RENDERED.to_owned(),
        base: text(&format!("quay.io/fedora/fedora-coreos@{}", digest("base"))),
        os: Some(OsSummary {
            from: digest("old").parse().unwrap(),
            kernel: KernelChange { from: text("6.1.140"), to: text("6.1.148") },
            packages: Some(31),
        }),
        method: text("direct"),
        image: image("new"),
        signed: text(&digest("key")),
        state: text("Succeeded"),
        time: Some(at("2026-01-02T03:04:05Z")),
        in_service: true,
        ..BuildView::default()
    };
    let names = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect();
    let builds = vec![
        BuildView {
            os: None,
            image: None,
            signed: None,
            method: text("containerfile"),
            state: text("Building"),
            in_service: false,
            time: Some(at("2026-01-02T03:10:35Z")),
            ..build.clone()
        },
        BuildView { staged_on: names(&["node-1"]), ..build.clone() },
        BuildView {
            os: None,
            found: true,
            image: image("pushed by CI"),
            signed: None,
            in_service: false,
            time: Some(at("2025-12-30T03:11:05Z")),
            ..build.clone()
        },
        BuildView {
            base: None,
            os: None,
            method: None,
            image: image("old"),
            signed: None,
            state: None,
            in_service: false,
            pinned: true,
            time: Some(at("2025-12-28T03:11:05Z")),
            running_on: names(&["node-1", "node-2", "node-3", "node-4", "node-5"]),
            ..build
        },
    ];
    looks_like("builds", &BuildList { builds, now: now() });
    assert_eq!(BuildList { builds: Vec::new(), now: now() }.text(), "no builds\n");
}

#[test]
fn nodes_and_their_images() {
    looks_like("nodes", &NodeList { nodes: nodes(), now: now() });
    assert_eq!(NodeList { nodes: Vec::new(), now: now() }.text(), "no nodes\n");
}

#[test]
fn a_roll_out_under_way() {
    let condition = |kind: &str, status: &str, reason: &str, message: &str| PoolCondition {
        kind: kind.to_owned(),
        status: status.to_owned(),
        reason: reason.to_owned(),
        message: message.to_owned(),
    };
    let pin = |of: &str| format!("{BUILD}@{}", digest(of)).parse().unwrap();
    let status = RolloutView {
        pool: "worker".to_owned(),
        config: text("worker"),
        mode: RolloutMode::Automatic,
        paused: false,
        phase: RolloutPhase::Progressing,
        message: "1 of 3 machines run it, 1 staged; node-1 Working".to_owned(),
        target: Some(TargetView {
            build: pin("new"),
            newer: Some(pin("newer")),
            is_pinned: true,
            is_once: false,
            target: None,
            live_images: [].into(),
        }),
        machines: MachineCounts {
            all: 3,
            updated: 1,
            ready: 1,
            staged: 1,
            live: 1,
            unavailable: 2,
            degraded: 1,
        },
        soft_reboots: Some(SoftReboots {
            used: 2,
            not_used: 1,
            causes: ["this machine takes images without bootc".to_owned()].into(),
        }),
        conditions: vec![
            condition("Updated", "False", "", ""),
            condition("Updating", "True", "", "All nodes are updating"),
            condition("NodeDegraded", "True", "RolloutNodesDegraded", "node node-2 is reporting"),
        ],
        behind: nodes(),
        now: now(),
    };
    looks_like("rollout-status", &RolloutStatus(status.clone()));
    let off = RolloutView {
        config: None,
        mode: RolloutMode::None,
        paused: true,
        phase: RolloutPhase::Off,
        message: "nothing is rolled out: it has no MachineOSConfig".to_owned(),
        target: None,
        machines: MachineCounts::default(),
        soft_reboots: None,
        conditions: Vec::new(),
        behind: Vec::new(),
        ..status
    };
    looks_like("rollout-status-off", &RolloutStatus(off));
}

#[test]
fn what_was_asked_for() {
    let asked = RolloutResult {
        pool: "worker".to_owned(),
        action: "undo".to_owned(),
        changed: true,
        build: text(&format!("{BUILD}@{}", digest("old"))),
        notes: vec!["the pool stays pinned to it until mosb rollout start worker".to_owned()],
    };
    looks_like("rollout-request", &asked);
    let same = RolloutResult { changed: false, ..asked.clone() };
    looks_like("rollout-request-unchanged", &same);
    for (action, build, want) in [
        ("start", true, "worker: worker-fedcba98"),
        ("pause", false, "worker: paused\n"),
        ("resume", false, "worker: resumed; follow it with mosb rollout status worker --watch\n"),
    ] {
        let build = asked.build.clone().filter(|_| build);
        let request = RolloutResult { action: action.to_owned(), build, ..asked.clone() };
        assert!(request.text().starts_with(want), "{}", request.text());
    }
}

#[test]
fn golden_machine_ignition() {
    let message = "machines boot and do not join the cluster";
    let object = MachineIgnition {
        pool: "worker".to_owned(),
        machine_os_config: "worker".to_owned(),
        build: BUILD.to_owned(),
        image: format!("registry.example.com/os/worker@{}", digest("image")),
        rendered_config: RENDERED.to_owned(),
        joins: false,
        holds_credentials: true,
        config: json!({ "systemd": {}, "ignition": { "version": "3.0.0" } }),
        notices: vec![Finding::new("does-not-join", message)],
    };
    assert!(!format!("{object:?}").contains("3.0.0"));
    looks_like("machine-ignition", &object);
}

#[test]
fn what_machines_hide_and_could_adopt() {
    let list = |count, paths: &[&str]| PathList {
        count,
        paths: paths.iter().map(|path| (*path).to_owned()).collect(),
    };
    let first = NodeEtc {
        hidden: list(3, &["/etc/machine-id", "/etc/motd"]),
        adoptable: Some(list(12, &["/etc/chrony.conf"])),
        kept: Some(list(1, &["/etc/line\nbreak"])),
        adopted: true,
    };
    // Without a record: nothing is hidden, a config was given, or something could be done.
    let second = NodeEtc { hidden: list(0, &[]), ..NodeEtc::default() };
    let given = NodeEtc { hidden: list(1, &["/etc/motd"]), adopted: true, ..NodeEtc::default() };
    let lacking = NodeEtc { adopted: false, ..given.clone() };
    let nodes = [
        ("node-1", Some(first)),
        ("node-2", Some(second)),
        ("node-3", None),
        ("node-4", Some(given)),
        ("node-5", Some(lacking)),
    ];
    let nodes = nodes.map(|(node, etc)| NodeEtcOf { node: node.to_owned(), etc });
    let drift = PoolDrift { pool: "worker".to_owned(), adopts: true, nodes: nodes.to_vec() };
    looks_like("pool-drift", &drift);
    let none = PoolDrift { adopts: false, nodes: Vec::new(), ..drift };
    assert_eq!(none.text(), "no nodes\n");
}
