//! A roll-out in which requests of each kind fail: refused, not answered, or cut off after they were
//! carried out; and watches that end. A helper answers as the machines, and an observer watches the
//! whole time.

use mosb_tests::{ApiFault, ROLLOUT_NAMESPACE, RolloutCluster, RolloutPool, wait};
use serde_json::json;
use std::time::Duration;

const LIMIT: Duration = Duration::from_secs(180);
/// A word in the path of each kind of request, and its faults before those of all.
const REQUESTS: [(&str, &[ApiFault]); 7] = [
    ("/nodes/", &[ApiFault::EndWatch, ApiFault::Refuse(409), ApiFault::Hang { done: true }]),
    ("/jobs", &[ApiFault::EndWatch, ApiFault::Refuse(409)]),
    ("/secrets", &[ApiFault::EndWatch, ApiFault::Refuse(409)]),
    ("/eviction", &[]),
    ("/machineconfigpools/", &[ApiFault::EndWatch, ApiFault::Refuse(409)]),
    ("/machineosconfigs/", &[ApiFault::Refuse(409)]),
    ("/events", &[]),
];
const EVERYWHERE: [ApiFault; 3] =
    [ApiFault::Refuse(500), ApiFault::Refuse(429), ApiFault::LoseAnswer];

#[test]
fn a_disturbed_roll_out_ends_the_same() {
    let cluster = RolloutCluster::start_behind_proxy(&json!({}));
    cluster.run_stories(&[("requests that fail", requests_that_fail)]);
    cluster.finish();
}

fn requests_that_fail(cluster: &RolloutCluster) {
    let pool = RolloutPool::new(cluster, "worker", 3);
    let first = pool.image();
    for name in &pool.machines {
        cluster.add_pod(&format!("on-{name}"), name);
    }
    let proxy = cluster.proxy();
    proxy.count_events();
    for (key, faults) in REQUESTS {
        proxy.follow(key, &[]);
        faults.iter().chain(&EVERYWHERE).for_each(|fault| proxy.disturb(key, *fault));
    }
    pool.patch(json!({ "maxUnavailable": 2 }));
    pool.set_mode("automatic");
    pool.wait_updated(&first);
    wait("the Jobs and their Secrets to be deleted", LIMIT, || {
        let left = cluster.node.api().list(Some(ROLLOUT_NAMESPACE), "jobs,secrets", "");
        left.is_empty().then_some(())
    });
    for (key, _) in REQUESTS {
        println!("{key}: {:?}", proxy.written(key));
        assert!(proxy.is_hit(key), "{key}: not all faults occurred");
    }
    assert_eq!(pool.boots(), [1, 1, 1], "one reboot each");
    let observed = cluster.observer.observed();
    for name in &pool.machines {
        assert_eq!((observed.slots[name], observed.evicted[name]), (1, 1), "{name}");
    }
}
