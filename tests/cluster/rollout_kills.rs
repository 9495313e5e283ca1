//! The controller killed after each write of a roll-out. A helper answers as the machines, and an
//! observer watches the whole time. Other roll-outs with kills are in the program `rollout`.

use std::collections::BTreeSet;

use mosb_tests::{ROLLOUT_NAMESPACE, RolloutCluster, RolloutPool};
use serde_json::json;

/// What a roll-out writes.
const WRITES: [&str; 7] = [
    "DELETE jobs",
    "PATCH machineosconfigs",
    "PATCH nodes",
    "POST jobs",
    "POST pods/eviction",
    "POST secrets",
    "PATCH machineconfigpools/status",
];

#[test]
#[ignore = "make test-all: a property test has the kills"]
fn a_roll_out_survives_each_kill() {
    let cluster = RolloutCluster::start_behind_proxy(&json!({}));
    cluster.run_stories(&[("killed after each write", killed_after_each_write)]);
    cluster.finish();
}

fn killed_after_each_write(cluster: &RolloutCluster) {
    let pool = RolloutPool::new(cluster, "worker", 2);
    let first = pool.image();
    for name in &pool.machines {
        cluster.add_pod(&format!("on-{name}"), name);
    }
    let kills = cluster.kill_after_each_write(
        || pool.set_mode("automatic"),
        || {
            let left = cluster.node.api().list(Some(ROLLOUT_NAMESPACE), "jobs", "");
            pool.is_updated(&first) && left.is_empty()
        },
    );
    let kinds: BTreeSet<String> = cluster.proxy().write_kinds("").into_iter().collect();
    assert!(WRITES.iter().all(|kind| kinds.contains(*kind)), "{kinds:?}");
    assert!(kills > 20, "{kills}");
    assert_eq!(pool.boots(), [1, 1], "one reboot each");
    let observed = cluster.observer.observed();
    for name in &pool.machines {
        assert_eq!((observed.slots[name], observed.evicted[name]), (1, 1), "{name}");
    }
    pool.wait_updated(&first);
}
