//! Snapshots of a cache, also while watches fail.

use std::time::Duration;

use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use serde_json::json;

use super::fleet::*;
use super::stories::{rolling, running, status};
use crate::node_job::node_job;
use crate::*;
use mosb_api::labels;
use mosb_api::rollout::NodeTarget;
use mosb_cluster::cluster_cache::{
    CONTROLLER_WATCHES, ClusterCache, MACHINES, NODE_JOBS, POOL_WATCHES, SeenMachine,
};
use mosb_reconcile::watch::WatchState;

/// Pools `worker`, `infra` and `gpu`, and a machine of `worker`.
pub fn one_machine() -> (ClusterCache, SeenMachine) {
    let cache = ClusterCache::empty("ns");
    let pool = |name: &str| {
        let pool = json!({ "metadata": { "name": name },
            "spec": { "nodeSelector": { "matchLabels": { name: "" } } } });
        (name.to_owned(), serde_json::from_value(pool).unwrap())
    };
    cache.pools.replace([pool("worker"), pool("infra"), pool("gpu")]);
    let mut seen = SeenMachine { ready: true, ..SeenMachine::default() };
    seen.metadata.name = "w0".to_owned();
    seen.metadata.uid = Some("w0".to_owned());
    seen.metadata.labels = [("worker".to_owned(), String::new())].into();
    cache.machines.replace([("w0".to_owned(), seen.clone())]);
    (cache, seen)
}

#[test]
fn a_node_of_two_pools_is_shared() {
    let (cache, mut seen) = one_machine();
    seen.metadata.labels = ["gpu", "infra"].map(|pool| (pool.to_owned(), String::new())).into();
    cache.machines.replace([("w0".to_owned(), seen)]);
    for (pool, want) in [("gpu", 1), ("infra", 1), ("worker", 0)] {
        let found = observe(&cache, pool, &OwnPlace::default(), &DrainRecords::new()).unwrap();
        assert_eq!((found.machines.len(), found.shared_nodes.len()), (0, want), "{pool}");
        let pools = found.shared_nodes.values().flatten();
        assert!(pools.map(|pool| &**pool).eq(["gpu", "infra"].into_iter().take(2 * want)));
    }
}

#[test]
fn a_job_elsewhere_counts_on_ready_machines() {
    let (cache, seen) = one_machine();
    let of = |pool: &str| observe(&cache, pool, &OwnPlace::default(), &DrainRecords::new());
    let machine = &of("worker").unwrap().machines[0];
    let mut job = ended_job(machine);
    job.status = None;
    cache.node_jobs.replace([("j".to_owned(), job)]);
    let elsewhere = |seen: SeenMachine| {
        cache.machines.replace([("w0".to_owned(), seen)]);
        ["infra", "worker"].map(|pool| of(pool).unwrap().cluster.jobs_elsewhere.len())
    };
    let ready = |ready| SeenMachine { ready, ..seen.clone() };
    let mut anew = seen.clone();
    anew.metadata.uid = Some("another".to_owned());
    assert_eq!(elsewhere(ready(true)), [1, 0]);
    assert_eq!(elsewhere(ready(false)), [0, 0]);
    assert_eq!(elsewhere(anew), [0, 0]);
}

/// A Job that ended well, on this machine.
fn ended_job(machine: &Machine) -> Job {
    let target = NodeTarget {
        image: image(2),
        config: None,
        machine_part: None,
        live_from: None,
        verify: false,
    };
    let mut snapshot = RolloutSnapshot::default();
    snapshot.pool.metadata.name = "worker".to_owned();
    let verb = NodeVerb::Stage;
    let request = NodeJobRequest::new(&snapshot, machine, verb, Some(&target), 1);
    let mut job = node_job(&request);
    job.metadata.uid = Some("j".to_owned());
    let status = json!({ "conditions": [{ "type": "Complete", "status": "True" }] });
    job.status = serde_json::from_value(status).unwrap();
    job
}

#[test]
fn nothing_follows_from_what_a_broken_watch_lacks() {
    let broken = || WatchState::Broken { listed: true, why: "away".to_owned() };
    let (cache, _) = one_machine();
    let seen = |pool: &str| observe(&cache, pool, &OwnPlace::default(), &DrainRecords::new());
    let job = ended_job(&seen("worker").unwrap().machines[0]);
    cache.node_jobs.replace([(job.metadata.name.clone().unwrap(), job)]);
    let job = || seen("worker").unwrap().machines[0].jobs[0].clone();
    assert!(matches!(job().phase, JobPhase::Failed { .. }), "its pod is not there");
    assert!(!job().has_login);
    for (watch, phase_is_known, login_is_known) in [
        ("pods on machines", false, true),
        ("secrets of jobs on machines", true, false),
        ("machines", true, true),
    ] {
        cache.watch_health.set(watch, broken(), false);
        let job = job();
        assert_eq!(job.phase != JobPhase::Running, phase_is_known, "{watch}");
        assert_eq!(!job.has_login, login_is_known, "{watch}");
        let names_it = job.waiting.is_some_and(|text| text.contains(watch));
        assert_eq!(names_it, !phase_is_known || !login_is_known, "{watch}");
        cache.watch_health.set(watch, WatchState::Current, false);
    }
    let of_all = [MACHINES, NODE_JOBS].into_iter().chain(POOL_WATCHES).chain(CONTROLLER_WATCHES);
    for watch in of_all {
        assert_eq!(seen("worker").unwrap().cluster.broken_watch, None, "{watch}");
        cache.watch_health.set(watch, broken(), false);
        let found = seen("worker").unwrap().cluster.broken_watch;
        assert_eq!(found, Some(format!("{watch}: away")));
        cache.watch_health.set(watch, WatchState::Current, false);
    }
}

/// Its pool, its build or its other machines may only be unseen.
#[test]
fn a_roll_out_does_not_end_while_a_watch_is_broken() {
    let mut fleet = rolling(1, "automatic");
    fleet.annotate(labels::ROLLOUT_ONCE, &pin(2).to_string());
    fleet.settle();
    assert_eq!(running(&fleet, 2), 1);
    fleet.annotate(labels::ROLLOUT_ONCE, &pin(2).to_string());
    fleet.broken_watch = Some("machines: away".to_owned());
    fleet.settle();
    assert_eq!(fleet.decide("worker").requeue_after, Some(Duration::from_secs(15)));
    let once =
        |fleet: &Fleet| fleet.configs["worker"].metadata.annotation(labels::ROLLOUT_ONCE).is_some();
    assert!(once(&fleet));
    fleet.broken_watch = None;
    fleet.settle();
    assert!(!once(&fleet));
    // The build in service.
    fleet.serve("worker", 3);
    let unseen = fleet.builds.pop().unwrap();
    fleet.broken_watch = Some("machineosbuilds: away".to_owned());
    fleet.settle();
    let (_, reason, message) = status(&fleet, "RolloutDegraded");
    assert_eq!(reason, "LookupFailed");
    assert!(message.contains("the watch failed: machineosbuilds: away"), "{message}");
    fleet.builds.push(unseen);
    fleet.broken_watch = None;
    fleet.settle();
    assert_eq!(running(&fleet, 3), 1);
    // A pool that is not seen.
    fleet.pools.clear();
    fleet.broken_watch = Some("machineconfigpools: away".to_owned());
    let now = fleet.now;
    let config = fleet.configs.get_mut("worker").unwrap();
    config.metadata.deletion_timestamp = Some(Time(now));
    let decision = fleet.decide("worker");
    assert!(decision.actions.is_empty() && decision.requeue_after.is_some(), "{decision:?}");
    fleet.broken_watch = None;
    assert!(!fleet.decide("worker").actions.is_empty(), "its finalizer is removed");
}
