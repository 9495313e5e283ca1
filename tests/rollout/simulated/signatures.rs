//! Machines that must verify their images, and one that refuses an image. The machines are a stand-in:
//! no signature and no policy is read here; [`signed_images`](crate::signed_images) has real ones.

use mosb_tests::{RolloutCluster, RolloutPool, annotation};
use serde_json::json;

const VERIFY: &str = "mosb.dev/verify-on-machines";
const CURRENT_IMAGE: &str = "machineconfiguration.openshift.io/currentImage";

#[test]
fn refusals_survive_a_kill_after_each_write() {
    let cluster = RolloutCluster::start_behind_proxy(&json!({}));
    cluster.run_stories(&[("refused by one machine, then corrected", refused)]);
    cluster.finish();
}

fn refused(cluster: &RolloutCluster) {
    let pool = RolloutPool::new(cluster, "worker", 2);
    let [refusing, other] = &pool.machines[..] else { panic!("two machines") };
    let first = pool.image();
    pool.set_mode("automatic");
    pool.wait_updated(&first);
    pool.annotate(VERIFY, Some("required"));
    pool.patch(json!({ "paused": true }));
    let second = pool.change("second");
    cluster.machines.change(refusing, |machine| machine.refused_images.extend([second.clone()]));
    assert_eq!(pool.boots(), [1, 1], "the setting alone reboots nothing");
    let node = |name: &str| cluster.node.get(&format!("node/{name}"));
    let kills = cluster.kill_after_each_write(
        || pool.patch(json!({ "paused": false })),
        || annotation(&node(other), CURRENT_IMAGE).ends_with(&second),
    );
    assert!(kills > 5, "{kills}");
    let left = node(refusing);
    assert_eq!(annotation(&left, "mosb.dev/slot"), "");
    assert_ne!(left["spec"]["unschedulable"], true, "{left:#}");
    assert_eq!(cluster.machines.get(refusing).staged, None);
    assert_eq!(pool.boots(), [1, 2], "it stays as it is");

    let third = pool.change("third");
    pool.wait_updated(&third);
    let applied = |name: &String| cluster.machines.get(name).applied.unwrap_or_default();
    assert!(pool.machines.iter().all(|name| applied(name)["verify"] == true));
    pool.annotate(VERIFY, Some("none"));
    let fourth = pool.change("fourth");
    pool.wait_updated(&fourth);
    assert!(pool.machines.iter().all(|name| applied(name)["verify"].is_null()));
}
