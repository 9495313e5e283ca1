//! Passes of the reconciler, with a fake API server and registries that are not there.

use std::net::TcpListener;
use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use tokio::time::timeout;

use super::cache::one_machine;
use crate::effect::Action;
use crate::observe::NO_POOL;
use crate::*;
use mosb_api::labels;
use mosb_cluster::cluster_cache::ClusterCache;
use mosb_cluster::kinds;
use mosb_cluster::resolver::{LookupLimits, Resolver};
use mosb_image::{Digest, PinnedRef};
use mosb_reconcile::driver::Reconciler as _;
use mosb_reconcile::fake_api::{FakeAnswer, FakeApi, FakeRequest};
use mosb_reconcile::write::{Executor, NewStatus, Patch, ReconcilePass, Target};

/// A reconciler, and its API server. That has no Secrets, each write of node `busy` is a conflict,
/// each Job on a machine `taken` has the name of one that is not ours, and evictions of pod `hangs`
/// are not answered.
fn reconciler() -> (RolloutReconciler, FakeApi) {
    reconciler_with(ClusterCache::empty("ns"))
}

fn reconciler_with(cache: ClusterCache) -> (RolloutReconciler, FakeApi) {
    let cache = Arc::new(cache);
    let api = FakeApi::new(|request| {
        let (path, is_read) = (&*request.path, !request.is_write());
        let of_node = request.body["metadata"]["ownerReferences"][0]["name"] == "taken";
        let object = json!({ "metadata": { "name": "x", "uid": "u", "resourceVersion": "2",
            "labels": { labels::NODE_JOB: "report" } } });
        if path == "/api/v1/pods" {
            pods(&request.query).into()
        } else if path.ends_with("/hangs/eviction") {
            FakeAnswer::Never
        } else if is_read && path.contains("/jobs/") {
            object.into()
        } else if is_read {
            FakeAnswer::failure(404)
        } else if path.ends_with("/busy") || of_node {
            FakeAnswer::failure(409)
        } else {
            object.into()
        }
    });
    let resolver = Resolver {
        client: api.client.clone(),
        cache: Arc::clone(&cache),
        registries: Arc::default(),
        limits: Arc::new(LookupLimits::new(Duration::from_secs(60))),
    };
    let (writes, evictions) = (Executor::from(&api), api.client.clone());
    let executor = RolloutExecutor { writes, evictions, cache };
    (RolloutReconciler::new(resolver, executor, OwnPlace::default(), Arc::default()), api)
}

/// The paths of the writes, those of Jobs with their names.
fn written(api: &FakeApi) -> Vec<String> {
    let path = |request: FakeRequest| {
        let name = request.body["metadata"]["name"].as_str().unwrap_or_default();
        let name = if request.path.ends_with("/jobs") { format!("/{name}") } else { String::new() };
        format!("{}{name}", request.path)
    };
    api.writes().into_iter().map(path).collect()
}

/// The pods on a node: 3,000 that have ended, and one that runs; on `endless`, more with each page.
fn pods(query: &str) -> Value {
    let pod = |number: usize, phase: &str| {
        json!({ "metadata": { "namespace": "ns", "name": format!("{phase}-{number}"), "uid": "u" },
            "status": { "phase": phase } })
    };
    if query.contains("endless") {
        let items: Vec<Value> = (0..250).map(|number| pod(number, "Running")).collect();
        return json!({ "metadata": { "continue": "more" }, "items": items });
    }
    let leaves_out = |phase: &str| query.contains(&format!("status.phase%21%3D{phase}"));
    if leaves_out("Succeeded") && leaves_out("Failed") {
        return json!({ "metadata": {}, "items": [pod(0, "Running")] });
    }
    let next = if query.contains("continue=11") { "" } else { "11" };
    let items: Vec<Value> = (0..250).map(|number| pod(number, "Failed")).collect();
    json!({ "metadata": { "continue": next }, "items": items })
}

fn snapshot(machines: &[&str]) -> RolloutSnapshot {
    let mut snapshot = RolloutSnapshot::default();
    snapshot.pool.metadata.name = "worker".to_owned();
    snapshot.machines = machines.iter().map(|_| Machine::default()).collect();
    for (machine, name) in snapshot.machines.iter_mut().zip(machines) {
        machine.node.metadata.name = (*name).to_owned();
    }
    snapshot
}

#[tokio::test]
async fn a_registry_that_hangs_is_not_waited_for() {
    // The kernel accepts the connections.
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let image = |port: u16| -> PinnedRef {
        format!("127.0.0.1:{port}/os@{}", Digest::of(b"os")).parse().unwrap()
    };
    let (hangs, refuses) = (image(silent.local_addr().unwrap().port()), image(1));
    let (reconciler, _) = reconciler();
    for name in ["slow", "worker"] {
        let image = if name == "slow" { &hangs } else { &refuses };
        let mut snapshot = snapshot(&[]);
        snapshot.pool.metadata.name = name.to_owned();
        let lookup = RolloutLookup::Image(image.clone());
        let mut pass = ReconcilePass::default();
        let lookups = [lookup.clone()];
        let looking_up = reconciler.look_up(&lookups, &mut snapshot, &mut pass);
        timeout(Duration::from_secs(2), looking_up).await.expect("no waiting").unwrap();
        assert!(snapshot.lookup_results.pending.contains(&lookup));
    }
    // The pool of the other registry is enqueued with its answer, which the next pass has.
    // On a busy machine, that of the silent one may come before: it has a time limit.
    let answered = async { while reconciler.next_answered().await != "worker" {} };
    timeout(Duration::from_secs(30), answered).await.unwrap();
    let mut snapshot = snapshot(&[]);
    let lookups = [RolloutLookup::Image(refuses.clone())];
    let mut pass = ReconcilePass::default();
    reconciler.look_up(&lookups, &mut snapshot, &mut pass).await.unwrap();
    let found = &snapshot.lookup_results.images[&refuses];
    assert!(matches!(found, TargetImage::Unknown(_)), "{found:?}");
}

#[tokio::test]
async fn pods_that_have_ended_hold_no_drain() {
    let (reconciler, _) = reconciler();
    let mut snapshot = snapshot(&["w0"]);
    let lookups = [RolloutLookup::Pods { node: "w0".to_owned() }];
    let mut pass = ReconcilePass::default();
    reconciler.look_up(&lookups, &mut snapshot, &mut pass).await.unwrap();
    let pods = snapshot.lookup_results.pods["w0"].as_ref().unwrap();
    assert_eq!(pods.iter().map(|pod| &*pod.name).collect::<Vec<_>>(), ["Running-0"]);
}

#[tokio::test]
async fn a_job_whose_name_is_taken_costs_its_machine() {
    let (reconciler, api) = reconciler();
    let snapshot = snapshot(&["taken", "free"]);
    let actions: Vec<Action> = snapshot
        .machines
        .iter()
        .map(|machine| {
            let job = NodeJobRequest::new(&snapshot, machine, NodeVerb::Report, None, 1);
            Action::from(job)
        })
        .collect();
    let mut pass = ReconcilePass::default();
    reconciler.apply(&actions, &snapshot, &mut pass).await.unwrap();
    let jobs: Vec<String> = written(&api);
    assert_eq!(jobs.len(), 2, "the other machine has its Job: {jobs:?}");
    assert_eq!(pass.requeue_after, Some(Duration::from_secs(60)), "it is refused, not a conflict");
}

#[tokio::test]
async fn a_drain_lists_a_limited_number_of_pods() {
    let (reconciler, _) = reconciler();
    let mut snapshot = snapshot(&["endless"]);
    let lookups = [RolloutLookup::Pods { node: "endless".to_owned() }];
    let mut pass = ReconcilePass::default();
    reconciler.look_up(&lookups, &mut snapshot, &mut pass).await.unwrap();
    let pods = snapshot.lookup_results.pods["endless"].as_ref();
    assert_eq!(pods.map(Vec::len).map_err(|problem| &*problem.message), Ok(2000));
}

#[tokio::test]
async fn a_pool_that_is_gone_is_asked_anew() {
    let (reconciler, _) = reconciler();
    let image: PinnedRef = format!("127.0.0.1:1/os@{}", Digest::of(b"os")).parse().unwrap();
    let lookups = [RolloutLookup::Image(image)];
    let mut pass = ReconcilePass::default();
    reconciler.look_up(&lookups, &mut snapshot(&[]), &mut pass).await.unwrap();
    let answered = timeout(Duration::from_secs(30), reconciler.next_answered()).await;
    assert_eq!(answered.as_deref(), Ok("worker"));
    reconciler.forget("worker");
    let mut snapshot = snapshot(&[]);
    reconciler.look_up(&lookups, &mut snapshot, &mut pass).await.unwrap();
    assert!(snapshot.lookup_results.pending.contains(&lookups[0]));
}

#[tokio::test]
async fn a_node_that_changes_all_the_time_costs_its_turn() {
    let (reconciler, api) = reconciler();
    let target = |kind, name: &str| Target {
        kind,
        name: name.to_owned(),
        uid: name.to_owned(),
        version: Some("1".to_owned()),
    };
    let patch = |name: &str| Action::Patch(target(kinds::NODE, name), Patch::default());
    let status = Action::ReplaceStatus(
        target(kinds::MACHINE_CONFIG_POOL, "worker"),
        NewStatus::Fields(json!({})),
    );
    let actions = [patch("busy"), patch("quiet"), status];
    let mut pass = ReconcilePass::default();
    reconciler.apply(&actions, &snapshot(&["busy", "quiet"]), &mut pass).await.unwrap();
    let writes = written(&api);
    assert!(writes.iter().any(|path| path.ends_with("/nodes/quiet")), "{writes:?}");
    assert!(writes.last().unwrap().ends_with("/worker/status"), "{writes:?}");
    let again = pass.requeue_after.unwrap();
    assert!(again < Duration::from_secs(1), "its next turn is soon: {again:?}");
}

#[tokio::test(start_paused = true)]
async fn evictions_that_hang_delay_other_writes_by_little() {
    let (reconciler, api) = reconciler();
    let evict = |pod: &str| {
        Action::from(Eviction {
            namespace: "ns".to_owned(),
            pod: pod.to_owned(),
            uid: pod.to_owned(),
            node: "w0".to_owned(),
        })
    };
    let target = Target {
        kind: kinds::NODE,
        name: "w1".to_owned(),
        uid: "w1".to_owned(),
        version: Some("1".to_owned()),
    };
    let mut actions: Vec<Action> = (0..8).map(|_| evict("hangs")).collect();
    actions.extend([evict("goes"), Action::Patch(target, Patch::default())]);
    let mut pass = ReconcilePass::default();
    let begun = tokio::time::Instant::now();
    reconciler.apply(&actions, &snapshot(&["w0", "w1"]), &mut pass).await.unwrap();
    assert!(begun.elapsed() <= Duration::from_secs(15), "{:?}", begun.elapsed());
    assert!(written(&api)[0].ends_with("/nodes/w1"), "before the evictions");
    let evictions = &pass.state.evictions["w0"];
    assert_eq!((evictions.accepted.len(), evictions.refused.len()), (1, 8));
    assert!(evictions.refused[0].message.contains("webhooks"), "{:?}", evictions.refused[0]);
}

#[tokio::test]
async fn a_pool_with_a_slot_comes_first() {
    for (label, of_worker, of_none) in [("worker", true, false), ("other", false, true)] {
        let (cache, mut seen) = one_machine();
        let is_prioritized = |cache| {
            let (reconciler, _) = reconciler_with(cache);
            ["worker", "infra", NO_POOL].map(|pool| reconciler.is_prioritized(pool))
        };
        assert_eq!(is_prioritized(cache), [false; 3]);
        let (cache, _) = one_machine();
        seen.metadata.labels = [(label.to_owned(), String::new())].into();
        seen.metadata.annotations.insert(labels::NODE_SLOT.to_owned(), "{}".to_owned());
        cache.machines.replace([("w0".to_owned(), seen)]);
        assert_eq!(is_prioritized(cache), [of_worker, false, of_none], "{label}");
    }
}
