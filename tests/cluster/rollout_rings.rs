//! A pool with a policy, on a real API server and with a real Prometheus: a window that is closed, an
//! alert, and two rings of which the first one soaks. A helper answers as the machines, and an observer
//! watches the whole time.

use std::time::{SystemTime, UNIX_EPOCH};

use serde_json::{Value, json};

use crate::monitoring::prometheus::Prometheus;
use mosb_tests::{RolloutCluster, RolloutPool, annotation};

const POLICY: &str = "mosb.dev/rollout-policy";
const SOAK: &str = "mosb.dev/soak";
const ALERT: &str = "DatabaseDegraded";

/// The wall clock in UTC, after so many minutes.
fn clock(minutes: u64) -> String {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs() / 60;
    let minute = (now + minutes) % (24 * 60);
    format!("{:02}:{:02}", minute / 60, minute % 60)
}

fn confirmed(node: &Value) -> Value {
    serde_json::from_str(annotation(node, "mosb.dev/confirmed")).unwrap()
}

#[test]
fn machines_wait_for_window_alert_and_ring() {
    let folder = tempfile::tempdir().unwrap();
    let rule = json!({ "alert": ALERT, "expr": "vector(1)" });
    let rules = json!({ "groups": [{ "name": "test", "rules": [rule] }] });
    let prometheus = Prometheus::start(folder.path(), &rules, "127.0.0.1:1");
    let alerts = json!({ "prometheus": prometheus.url(), "names": [ALERT] });
    let rings = json!([{ "count": 1, "soak": "40s" }]);
    let policies = json!({ "rolloutPolicies": {
        "closed": { "windows": [{ "from": clock(6 * 60), "to": clock(7 * 60) }] },
        "alerts": { "rings": rings, "blockOn": { "alerts": alerts } },
        "rings": { "rings": rings, "windows": [{ "from": clock(24 * 60 - 60), "to": clock(6 * 60) }],
            "health": { "nodeConditions": { "Ready": "True" } } },
    } });
    let cluster = RolloutCluster::start(&policies);
    cluster.run_stories(&[("rings", rings_of_a_pool)]);
    // Gone, it is not known which alerts fire.
    drop(prometheus);
    cluster.run_stories(&[("rings, and Prometheus is away", the_rest)]);
    println!("{:#?}", cluster.finish());
}

fn rings_of_a_pool(cluster: &RolloutCluster) {
    let pool = RolloutPool::new(cluster, "rings", 3);
    let first = pool.image();
    pool.annotate(POLICY, Some("closed"));
    pool.set_mode("automatic");
    pool.wait_staged(&first);
    let updating = |want: &str| {
        pool.wait_pool(|pool| RolloutPool::message(pool, "Updating").contains(want));
    };
    updating("it is outside the windows of policy closed; the next one begins at ");
    pool.annotate(POLICY, Some("alerts"));
    updating("alerts fire: DatabaseDegraded");
    assert_eq!(pool.boots(), [0, 0, 0]);
}

fn the_rest(cluster: &RolloutCluster) {
    let machines = (0..3).map(|number| format!("rings-{number}")).collect();
    let pool = RolloutPool { cluster, name: "rings".to_owned(), machines };
    let first = pool.image();
    pool.wait_pool(|pool| {
        RolloutPool::message(pool, "Updating").contains("it is not known which alerts fire")
    });
    pool.annotate(POLICY, Some("unknown"));
    pool.wait_pool(|pool| {
        RolloutPool::message(pool, "RolloutDegraded").starts_with("BadRolloutPolicy: ")
    });
    assert_eq!(pool.boots(), [0, 0, 0]);
    pool.annotate(POLICY, Some("rings"));
    pool.wait_node(&pool.machines[0], |node| annotation(node, SOAK).contains("holding"));
    assert_eq!(pool.boots(), [1, 0, 0], "one soaks");
    pool.wait_pool(|pool| {
        RolloutPool::message(pool, "Updating").contains("ring 1 of 2; soaking: rings-0 until ")
    });
    pool.wait_updated(&first);
    let at = |name: &String| {
        let node = pool.wait_node(name, |node| {
            annotation(node, "mosb.dev/confirmed").contains(&first)
                && annotation(node, SOAK).is_empty()
        });
        confirmed(&node)["at"].as_str().unwrap().to_owned()
    };
    let times: Vec<String> = pool.machines.iter().map(at).collect();
    assert!(times[1..].iter().all(|other| *other > times[0]), "{times:?}");
    assert_eq!(pool.boots(), [1, 1, 1]);
}
