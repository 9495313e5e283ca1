//! The controller killed after each write of a roll-out. A helper answers as the machines, and an
//! observer watches the whole time.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use mosb_tests::{ApiFault, ROLLOUT_NAMESPACE, RolloutCluster, RolloutPool};
use serde_json::json;

/// All writes.
const ALL: &str = "";
const LIMIT: Duration = Duration::from_secs(600);
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
fn a_controller_that_is_killed_after_each_write_ends_the_same() {
    let cluster = RolloutCluster::start_behind_proxy(&json!({}));
    cluster.run_stories(&[("killed after each write", killed_after_each_write)]);
    cluster.finish();
}

/// Each process makes one write, which is not answered. So each write is the last one before a kill
/// and the first one after another.
fn killed_after_each_write(cluster: &RolloutCluster) {
    let pool = RolloutPool::new(cluster, "worker", 2);
    let first = pool.image();
    for name in &pool.machines {
        cluster.add_pod(&format!("on-{name}"), name);
    }
    let proxy = cluster.proxy();
    proxy.follow(ALL, &[]);
    proxy.disturb(ALL, ApiFault::Die);
    pool.set_mode("automatic");
    let mut kills = 0;
    let end = Instant::now() + LIMIT;
    while !is_over(&pool, &first) {
        assert!(Instant::now() < end, "after {kills} kills: {:#?}", proxy.written(ALL));
        if !proxy.is_hit(ALL) {
            std::thread::sleep(Duration::from_millis(50));
            continue;
        }
        kills += 1;
        cluster.kill_controllers();
        proxy.disturb(ALL, ApiFault::Die);
        proxy.open();
        cluster.start_controller("first");
    }
    let kinds: BTreeSet<String> = proxy.write_kinds(ALL).into_iter().collect();
    println!("{kills} kills: {:#?}", proxy.written(ALL));
    assert!(WRITES.iter().all(|kind| kinds.contains(*kind)), "{kinds:?}");
    assert!(kills > 20, "{kills}");
    assert_eq!(pool.boots(), [1, 1], "one reboot each");
    let observed = cluster.observer.observed();
    for name in &pool.machines {
        assert_eq!((observed.slots[name], observed.evicted[name]), (1, 1), "{name}");
    }
    cluster.restart();
    pool.wait_updated(&first);
}

/// Whether the pool is Updated and nothing is left of the roll-out.
fn is_over(pool: &RolloutPool<'_>, digest: &str) -> bool {
    let node = &pool.cluster.node;
    let found = node.get(&format!("machineconfigpool/{}", pool.name));
    RolloutPool::condition(&found, "Updated") == "True"
        && pool.machines.iter().all(|name| pool.cluster.machines.get(name).booted == digest)
        && node.api().list(Some(ROLLOUT_NAMESPACE), "jobs", "").is_empty()
}
