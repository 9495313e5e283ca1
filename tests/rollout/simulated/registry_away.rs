//! The registry is away after staging: machines that have staged the image are updated, and one that
//! has to pull it waits.

use std::thread::sleep;
use std::time::Duration;

use mosb_tests::{RolloutCluster, RolloutPool, annotation};
use serde_json::{Value, json};

use super::REASON;

/// Longer than an answer of a registry counts.
const FORGOTTEN: Duration = Duration::from_secs(35);

#[test]
fn without_a_registry_staged_machines_are_updated() {
    let cluster = RolloutCluster::start(&json!({}));
    cluster.run_stories(&[("registry away", registry_away)]);
    cluster.finish();
}

fn registry_away(cluster: &RolloutCluster) {
    let mut pool = RolloutPool::new(cluster, "worker", 2);
    let first = pool.image();
    pool.set_mode("stage");
    pool.wait_staged(&first);
    let held = &pool.machines[0];
    cluster.add_guarded_pod("guarded", held);
    pool.set_mode("automatic");
    pool.wait_node(held, |node| annotation(node, REASON).contains("budget"));
    cluster.node.kill("registry");
    sleep(FORGOTTEN);
    cluster.remove_budget("guarded");
    pool.wait_updated(&first);
    assert_eq!(pool.boots(), [1, 1]);
    let degraded = |pool: &Value| RolloutPool::message(pool, "RolloutDegraded");
    pool.join();
    pool.wait_pool(|pool| degraded(pool).contains("RegistryFailed"));
    assert_eq!(pool.boots(), [1, 1, 0]);
    cluster.node.revive("registry");
    pool.wait_updated(&first);
    assert_eq!(pool.boots(), [1, 1, 1]);
}
