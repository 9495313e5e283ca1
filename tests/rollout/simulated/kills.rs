//! The controller killed after each write while a pool goes back, is repaired, and is taken to the
//! stock image before its MachineOSConfig is deleted. The roll-out of an image with kills is in the
//! program `cluster`.

use mosb_tests::{RolloutCluster, RolloutPool, annotation};
use serde_json::json;

use super::STATE;

const PIN: &str = "mosb.dev/rollout-build";

#[test]
fn going_back_survives_a_kill_after_each_write() {
    let cluster = RolloutCluster::start_behind_proxy(&json!({}));
    cluster.run_stories(&[("back, repaired and deleted", back_repaired_and_deleted)]);
    cluster.finish();
}

fn back_repaired_and_deleted(cluster: &RolloutCluster) {
    let pool = RolloutPool::new(cluster, "worker", 2);
    let first = pool.image();
    let back = pool.pin();
    let second = pool.change("second");
    pool.set_mode("automatic");
    pool.wait_updated(&second);
    let slots = || {
        let observed = cluster.observer.observed();
        pool.machines.iter().map(|name| observed.slots[name]).collect::<Vec<_>>()
    };
    assert_eq!((pool.boots(), slots()), (vec![1, 1], vec![1, 1]));

    for name in &pool.machines {
        cluster.add_pod(&format!("on-{name}"), name);
    }
    let kills = cluster.kill_after_each_write(
        || pool.annotate(PIN, Some(&back)),
        || pool.is_updated(&first) && slots_are_free(&pool),
    );
    assert!(kills > 15, "{kills}");
    pool.wait_updated(&first);
    assert_eq!((pool.boots(), slots()), (vec![2, 2], vec![2, 2]), "back, with one reboot each");

    // No machine boots the third image; the second one repairs the one that tried.
    let third = pool.change("third");
    for name in &pool.machines {
        cluster.machines.change(name, |one| one.broken_images.extend([third.clone()]));
    }
    let forward = RolloutPool::history_pin(&cluster.node.get(&pool.config()), &second);
    pool.annotate(PIN, None);
    pool.wait_pool(|pool| pool["status"]["degradedMachineCount"] == 1);
    let is_failed = |name: &&String| {
        annotation(&cluster.node.get(&format!("node/{name}")), STATE) == "Degraded"
    };
    let failed = pool.machines.iter().position(|name| is_failed(&name)).unwrap();
    let mut want = vec![2, 2];
    want[failed] += 1;
    assert_eq!((pool.boots(), slots()), (want.clone(), want.clone()));
    let kills = cluster.kill_after_each_write(
        || pool.annotate(PIN, Some(&forward)),
        || pool.is_updated(&second) && slots_are_free(&pool),
    );
    assert!(kills > 10, "{kills}");
    pool.wait_updated(&second);
    let repaired = want.iter().enumerate();
    let repaired: Vec<usize> =
        repaired.map(|(index, slots)| slots + usize::from(index != failed)).collect();
    want.iter_mut().for_each(|boots| *boots += 1);
    assert_eq!((pool.boots(), slots()), (want.clone(), repaired.clone()), "within its slot");

    pool.annotate("mosb.dev/on-delete", Some("stock"));
    let stock = cluster.stock();
    let delete = || {
        let what = ["delete", &pool.config(), "--wait=false"];
        cluster.node.kubectl(&what).ok();
    };
    let kills =
        cluster.kill_after_each_write(delete, || cluster.node.find(&pool.config()).is_none());
    assert!(kills > 15, "{kills}");
    assert!(pool.machines.iter().all(|name| cluster.machines.get(name).booted == stock));
    assert!(slots_are_free(&pool));
    want.iter_mut().for_each(|boots| *boots += 1);
    let slots_now: Vec<usize> = repaired.iter().map(|slots| slots + 1).collect();
    assert_eq!((pool.boots(), slots()), (want, slots_now), "one reboot each");
}

fn slots_are_free(pool: &RolloutPool<'_>) -> bool {
    pool.machines.iter().all(|name| {
        let node = pool.cluster.node.get(&format!("node/{name}"));
        annotation(&node, "mosb.dev/slot").is_empty() && node["spec"]["unschedulable"] != true
    })
}
