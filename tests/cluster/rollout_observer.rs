//! The observer of roll-outs finds what breaks a rule: each test is a history that it must not
//! accept, beside one that it must.

use mosb_tests::{
    CORDONED_BY_ADMINISTRATOR, Observed, REBOOTED_BY_OTHERS, RolloutHistory, SeenKind, SeenObject,
};
use serde_json::{Value, json};

/// A machine of the history.
#[derive(Clone)]
struct Machine {
    name: &'static str,
    role: &'static str,
    cordoned: bool,
    ready: bool,
    boot: u32,
    /// Attempt and beginning of its slot.
    slot: Option<(u32, u32)>,
    annotations: Value,
}

fn target() -> Value {
    json!({ "image": "registry/os@sha256:1" })
}

impl Machine {
    fn new(name: &'static str) -> Self {
        Self {
            name,
            role: "worker",
            cordoned: false,
            ready: true,
            boot: 1,
            slot: None,
            annotations: json!({}),
        }
    }

    /// With a slot, and cordoned for it.
    fn drained(&self, attempt: u32, since: u32) -> Self {
        Self { cordoned: true, slot: Some((attempt, since)), ..self.clone() }
    }

    fn rebooted(&self) -> Self {
        Self { boot: self.boot + 1, ..self.clone() }
    }

    fn freed(&self) -> Self {
        Self { cordoned: false, slot: None, ..self.clone() }
    }

    fn with(&self, key: &str, value: &str) -> Self {
        let mut changed = self.clone();
        changed.annotations[key] = json!(value);
        changed
    }

    fn object(&self) -> Value {
        let mut annotations = self.annotations.clone();
        if let Some((attempt, since)) = self.slot {
            let slot = json!({ "target": target(), "attempt": attempt, "since": since,
                "cordoned": true });
            annotations["mosb.dev/slot"] = json!(slot.to_string());
            let staged = json!({ "target": target() }).to_string();
            if annotations["mosb.dev/staged"].is_null() {
                annotations["mosb.dev/staged"] = json!(staged);
            }
        }
        let label = format!("node-role.kubernetes.io/{}", self.role);
        let ready = if self.ready { "True" } else { "False" };
        json!({ "metadata": { "name": self.name, "uid": self.name, "annotations": annotations,
                "labels": { label: "" } },
            "spec": { "unschedulable": self.cordoned },
            "status": { "nodeInfo": { "bootID": self.boot.to_string() },
                "conditions": [{ "type": "Ready", "status": ready }] } })
    }
}

/// A pool of this role that allows so much.
fn pool(role: &str, max: Value) -> Value {
    let label = format!("node-role.kubernetes.io/{role}");
    json!({ "metadata": { "name": role },
        "spec": { "maxUnavailable": max, "nodeSelector": { "matchLabels": { label: "" } } } })
}

fn job(name: &str, attempt: u32) -> Value {
    json!({ "metadata": { "labels": { "mosb.dev/node-job": "apply" },
        "annotations": { "mosb.dev/node-target": target().to_string(),
            "mosb.dev/attempt": attempt.to_string() },
        "ownerReferences": [{ "kind": "Node", "name": name, "uid": name }] } })
}

/// What is observed of machines that are there, and of these versions, in this order.
fn observe(first: &[&Machine], max: Value, changes: Vec<(SeenKind, Value)>) -> Observed {
    let pools = ["worker", "master"].map(|role| (SeenKind::Pool, pool(role, max.clone())));
    let first = first.iter().map(|machine| (SeenKind::FirstNode, machine.object()));
    let all = pools.into_iter().chain(first).chain(changes);
    let mut seen: Vec<SeenObject> = all
        .enumerate()
        .map(|(version, (kind, mut object))| {
            object["metadata"]["resourceVersion"] = json!(version.to_string());
            SeenObject { kind, object }
        })
        .collect();
    // Watches of several kinds are not in order.
    seen.reverse();
    RolloutHistory::of(seen)
}

fn nodes(versions: &[&Machine]) -> Vec<(SeenKind, Value)> {
    versions.iter().map(|machine| (SeenKind::Node, machine.object())).collect()
}

#[track_caller]
fn assert_broken(observed: &Observed, rule: &str) {
    let found = observed.broken.iter().any(|broken| broken.contains(rule));
    assert!(found && observed.broken.len() == 1, "{rule}: {:#?}", observed.broken);
}

#[test]
fn a_good_roll_out_breaks_no_rule() {
    let (a, b) = (Machine::new("a"), Machine::new("b"));
    let (a1, b1) = (a.drained(1, 1), b.drained(1, 2));
    let away = Machine { ready: false, ..a1.clone() };
    let mut changes = nodes(&[&a1]);
    changes.push((SeenKind::NewJob, job("a", 1)));
    changes.push((SeenKind::EvictedPod, json!({ "metadata": {}, "spec": { "nodeName": "a" } })));
    changes.extend(nodes(&[&away, &a1.rebooted(), &a1.rebooted().freed(), &b1, &b1.rebooted()]));
    let observed = observe(&[&a, &b], json!(1), changes);
    assert_eq!(observed.broken, Vec::<String>::new());
    assert_eq!((observed.boots["a"], observed.boots["b"]), (1, 1));
    assert_eq!((observed.most_unavailable["worker"], observed.evicted["a"]), (1, 1));
}

#[test]
fn more_machines_than_the_pool_allows_are_found() {
    let (a, b) = (Machine::new("a"), Machine::new("b"));
    let changes = nodes(&[&a.drained(1, 1), &b.drained(1, 2)]);
    let observed = observe(&[&a, &b], json!(1), changes.clone());
    assert_broken(&observed, "2 machines of worker are unavailable, and 1 may be");
    assert_eq!(observe(&[&a, &b], json!(2), changes.clone()).broken, Vec::<String>::new());
    assert_broken(&observe(&[&a, &b], json!("99%"), changes), "2 machines of worker");
    // Whatever the cause.
    let away = Machine { ready: false, ..b.clone() };
    let changes = nodes(&[&a.drained(1, 1)]);
    assert_broken(&observe(&[&a, &away], json!(1), changes), "2 machines of worker");
}

#[test]
fn a_second_control_plane_machine_is_found() {
    let machine = |name| Machine { role: "master", ..Machine::new(name) };
    let (a, b) = (machine("a"), machine("b"));
    let changes = nodes(&[&a.drained(1, 1), &b.drained(1, 2)]);
    assert_broken(&observe(&[&a, &b], json!(2), changes), "b got a slot while a of the control");
    let away = Machine { ready: false, ..b.clone() };
    let changes = nodes(&[&a.drained(1, 1)]);
    assert_broken(&observe(&[&a, &away], json!(2), changes), "a got a slot while b of the control");
}

#[test]
fn a_slot_of_the_wrong_machine_is_found() {
    let a = Machine::new("a");
    let given = nodes(&[&a.drained(1, 1)]);
    let cordoned = Machine { cordoned: true, ..a.clone() };
    assert_broken(&observe(&[&cordoned], json!(1), given.clone()), "although it was cordoned");
    let away = Machine { ready: false, ..a.clone() };
    assert_broken(&observe(&[&away], json!(1), given), "although it was not Ready");
    let other = r#"{"target":{"image":"registry/os@sha256:2"}}"#;
    let changes = nodes(&[&a.drained(1, 1).with("mosb.dev/staged", other)]);
    assert_broken(&observe(&[&a], json!(1), changes), "and has staged");
}

#[test]
fn a_slot_in_a_paused_pool_is_found() {
    let a = Machine::new("a");
    let slot = (SeenKind::Node, a.drained(1, 1).object());
    let version = |paused: bool, generation: u32, observed: u32| {
        let mut pool = pool("worker", json!(1));
        pool["metadata"]["generation"] = json!(generation);
        pool["spec"]["paused"] = json!(paused);
        pool["status"] = json!({ "observedGeneration": observed });
        (SeenKind::Pool, pool)
    };
    let (asked, known) = (version(true, 2, 1), version(true, 2, 2));
    let found = |changes: &[&(SeenKind, Value)]| {
        observe(&[&a], json!(1), changes.iter().map(|one| (*one).clone()).collect())
    };
    assert_broken(&found(&[&asked, &known, &slot]), "a got a slot although worker was paused");
    for allowed in [
        &[&slot, &asked, &known][..],
        &[&asked, &slot, &known],
        &[&asked, &known, &version(false, 3, 2), &slot],
    ] {
        assert_eq!(found(allowed).broken, Vec::<String>::new());
    }
}

#[test]
fn a_second_drain_or_reboot_is_found() {
    let a = Machine::new("a");
    let (first, second) = (a.drained(1, 1), a.drained(2, 1));
    let again = nodes(&[&first, &first.rebooted(), &first.rebooted().rebooted()]);
    assert_broken(&observe(&[&a], json!(1), again), "a was rebooted 2 times");
    let next =
        nodes(&[&first, &first.rebooted(), &second.rebooted(), &second.rebooted().rebooted()]);
    assert_eq!(observe(&[&a], json!(1), next).broken, Vec::<String>::new());
    let twice = nodes(&[&first, &a, &first]);
    assert_broken(&observe(&[&a], json!(1), twice), "a was cordoned 2 times");
    let other = nodes(&[&first, &a, &a.drained(1, 7)]);
    assert_eq!(observe(&[&a], json!(1), other).broken, Vec::<String>::new());
}

#[test]
fn acts_without_a_slot_are_found() {
    let a = Machine::new("a");
    let rebooted = nodes(&[&a.rebooted()]);
    assert_broken(&observe(&[&a], json!(1), rebooted), "a was rebooted without a slot");
    let excused = nodes(&[&a.with(REBOOTED_BY_OTHERS, "1").rebooted()]);
    assert_eq!(observe(&[&a], json!(1), excused).broken, Vec::<String>::new());
    let found = observe(&[&a], json!(1), vec![(SeenKind::NewJob, job("a", 1))]);
    assert_broken(&found, "a: a Job for");
    let mut wrong = nodes(&[&a.drained(2, 1)]);
    wrong.push((SeenKind::NewJob, job("a", 1)));
    assert_broken(&observe(&[&a], json!(1), wrong), "attempt 1, with slot");
    let pod = json!({ "metadata": { "name": "p" }, "spec": { "nodeName": "a" } });
    let found = observe(&[&a], json!(1), vec![(SeenKind::EvictedPod, pod)]);
    assert_broken(&found, "was evicted from a, which has no slot");
}

#[test]
fn wrong_cordons_are_found() {
    let a = Machine::new("a");
    let by_others = Machine { cordoned: true, ..a.with(CORDONED_BY_ADMINISTRATOR, "true") };
    let undone = Machine { cordoned: false, ..by_others.clone() };
    let found = observe(&[&a], json!(1), nodes(&[&by_others, &undone]));
    assert_broken(&found, "the cordon of an administrator was undone");
    let ended = observe(&[&a], json!(1), nodes(&[&by_others, &a]));
    assert_eq!(ended.broken, Vec::<String>::new());
    let left = Machine { cordoned: true, ..a.clone() };
    let found = observe(&[&a], json!(1), nodes(&[&a.drained(1, 1), &left]));
    assert_broken(&found, "a lost its slot and is still cordoned");
    let found = observe(&[&a], json!(1), nodes(&[&left]));
    assert_broken(&found, "a was cordoned without a slot");
}
