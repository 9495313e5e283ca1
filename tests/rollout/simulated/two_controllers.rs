//! Two controllers: one acts, and the other one goes on when the Lease is taken away.

use std::time::Duration;

use mosb_tests::{RolloutCluster, RolloutPool, annotation, wait};
use serde_json::{Value, json};

use super::REASON;

const LIMIT: Duration = Duration::from_secs(180);

#[test]
fn without_its_lease_a_controller_ends() {
    let cluster = RolloutCluster::start(&json!({}));
    cluster.run_stories(&[("two controllers", two_controllers)]);
    cluster.finish();
}

fn two_controllers(cluster: &RolloutCluster) {
    let pool = RolloutPool::new(cluster, "worker", 3);
    let first = pool.image();
    cluster.start_controller("second");
    let has = |index: usize, text: &str| cluster.logs()[index].contains(text).then_some(());
    wait("the second to wait", LIMIT, || has(1, "; waiting"));
    let held = &pool.machines[1];
    cluster.add_guarded_pod("guarded", held);
    pool.set_mode("automatic");
    pool.wait_node(held, |node| annotation(node, REASON).contains("budget"));
    take_lease(cluster, "second");
    cluster.remove_budget("guarded");
    wait("the second to act", LIMIT, || has(1, "the lease is held; reconciling"));
    wait("the end of the first", LIMIT, || cluster.has_ended(0).then_some(()));
    pool.wait_updated(&first);
    assert_eq!(pool.boots(), [1, 1, 1], "one reboot each");
}

fn take_lease(cluster: &RolloutCluster, identity: &str) {
    let target = "/apis/coordination.k8s.io/v1/namespaces/mosb-system/leases/mosb-controller";
    let patch = json!({ "spec": { "holderIdentity": identity } });
    let (code, answer): (u16, Value) = cluster.node.api().ask("PATCH", target, Some(&patch));
    assert_eq!(code, 200, "{answer:#}");
}
