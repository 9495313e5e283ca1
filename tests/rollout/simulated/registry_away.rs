//! The registry is away after staging: what has a slot goes on, and nothing new is begun.

use mosb_tests::{RolloutCluster, RolloutPool, annotation};
use serde_json::{Value, json};

use super::REASON;

#[test]
fn without_a_registry_a_drain_is_finished_and_no_other_one_begins() {
    let cluster = RolloutCluster::start(&json!({}));
    cluster.run_stories(&[("registry away", registry_away)]);
    cluster.finish();
}

fn registry_away(cluster: &RolloutCluster) {
    let pool = RolloutPool::new(cluster, "worker", 2);
    let first = pool.image();
    pool.set_mode("stage");
    pool.wait_staged(&first);
    let held = &pool.machines[0];
    cluster.add_guarded_pod("guarded", held);
    pool.set_mode("automatic");
    pool.wait_node(held, |node| annotation(node, REASON).contains("budget"));
    cluster.node.kill("registry");
    cluster.remove_budget("guarded");
    pool.wait_node(held, |node| {
        cluster.machines.get(held).booted == first && annotation(node, "mosb.dev/slot").is_empty()
    });
    let degraded = |pool: &Value| RolloutPool::message(pool, "RolloutDegraded");
    pool.wait_pool(|pool| degraded(pool).contains("RegistryFailed"));
    assert_eq!(pool.boots(), [1, 0]);
    cluster.node.revive("registry");
    pool.wait_updated(&first);
    assert_eq!(pool.boots(), [1, 1]);
}
