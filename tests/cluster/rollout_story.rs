//! `mosb controller --rollout` with the rights and under the policies of `deploy/rollout`: real
//! builds, real API server, scheduler, Job controller and evictions; the machines are a helper that
//! answers as them. An observer watches the whole time.
//!
//! On a node of its own, as it looks at every pool there is.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use serde_json::{Value, json};

use crate::rollout_signals as signals;
use mosb_tests::{ROLLOUT_NAMESPACE, RolloutCluster, RolloutPool, annotation, wait};

const ACCOUNT: &str = "system:serviceaccount:mosb-system:mosb-controller";
const REASON: &str = "machineconfiguration.openshift.io/reason";
const PIN: &str = "mosb.dev/rollout-build";
/// On a busy machine.
const LIMIT: Duration = Duration::from_secs(180);

/// What the controller was refused, and which rights of the overlay it used.
fn audit(cluster: &RolloutCluster) -> (Vec<Value>, BTreeSet<String>) {
    let (mut refused, mut used) = (Vec::new(), BTreeSet::new());
    for event in cluster.node.audit() {
        let object = &event["objectRef"];
        if event["user"]["username"] != ACCOUNT || object["apiGroup"] == "build.openshift.io" {
            continue;
        }
        let code = &event["responseStatus"]["code"];
        if event["annotations"]["authorization.k8s.io/decision"] != "allow" || *code == 403 {
            refused.push(event);
            continue;
        }
        let word = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let kind = [word(&object["resource"]), word(&object["subresource"])].join("/");
        let kind = kind.trim_end_matches('/');
        used.insert(format!("{} {kind} {}", word(&object["namespace"]), word(&event["verb"])));
    }
    (refused, used)
}

#[test]
fn the_overlays_rights_roll_out_an_image() {
    plays(from_stage_to_update);
}

#[test]
#[ignore = "make test-all: machines of the lab go this way, too"]
fn an_image_is_taken_back_to_stock() {
    plays(from_stage_to_stock);
}

#[track_caller]
fn plays(story: fn(&RolloutCluster)) {
    let cluster = RolloutCluster::start(&json!({}));
    cluster.run_stories(&[("worker", story)]);

    // Jobs go once their results are on the nodes, and their Secrets with them.
    wait("the Jobs and their Secrets to be deleted", LIMIT, || {
        let left = cluster.node.api().list(Some(ROLLOUT_NAMESPACE), "jobs,secrets", "");
        left.is_empty().then_some(())
    });
    let (refused, used) = audit(&cluster);
    assert!(refused.is_empty(), "refused: {refused:#?}");
    for right in [
        " nodes patch",
        " pods list",
        " deployments list",
        " deployments watch",
        "default pods/eviction create",
        "mosb-rollout jobs create",
        "mosb-rollout jobs delete",
        "mosb-rollout jobs list",
        "mosb-rollout jobs watch",
        "mosb-rollout pods list",
        "mosb-rollout pods watch",
        "mosb-rollout secrets create",
        "mosb-rollout secrets list",
        "mosb-rollout secrets watch",
    ] {
        assert!(used.contains(right), "{right} is granted and not used: {used:#?}");
    }
    cluster.finish();
}

fn from_stage_to_update(cluster: &RolloutCluster) {
    staged_and_updated(cluster);
}

/// A pool whose machines have their first image, and the pin of it.
fn staged_and_updated(cluster: &RolloutCluster) -> (RolloutPool<'_>, String, String) {
    let pool = RolloutPool::new(cluster, "worker", 3);
    let first = pool.image();
    // Without the annotation nothing is brought to machines.
    assert_eq!(RolloutPool::condition(&pool.wait_pool(|_| true), "Updated"), "");

    // Staged, and nothing reboots.
    pool.set_mode("stage");
    pool.wait_staged(&first);
    let observed = cluster.observer.observed();
    assert_eq!((observed.boots.len(), observed.slots.len()), (0, 0), "{observed:#?}");
    let pin = pool.pin();

    // A PodDisruptionBudget holds the drain of one machine, and is then loosened.
    let held = &pool.machines[1];
    cluster.add_guarded_pod("guarded", held);
    pool.set_mode("automatic");
    let node = pool.wait_node(held, |node| annotation(node, REASON).contains("budget"));
    assert!(annotation(&node, REASON).contains("default/guarded"), "{node:#}");
    assert_eq!(node["spec"]["unschedulable"], true);
    cluster.restart();
    cluster.remove_budget("guarded");
    pool.wait_updated(&first);
    assert_eq!(pool.boots(), [1, 1, 1], "one reboot each");
    let observed = cluster.observer.observed();
    assert_eq!(observed.evicted.get(held), Some(&1), "{observed:#?}");
    assert_eq!(observed.most_unavailable["worker"], 1, "{observed:#?}");

    check_events(cluster, &pool);
    (pool, first, pin)
}

fn from_stage_to_stock(cluster: &RolloutCluster) {
    let (pool, first, pin) = staged_and_updated(cluster);

    // A second image, two machines at once, with the controller killed again and again.
    pool.patch(json!({ "maxUnavailable": 2 }));
    let old = pool.wait_pool(|_| true)["status"]["configuration"]["name"].clone();
    let second = pool.change("second");
    for _ in 0..4 {
        std::thread::sleep(Duration::from_secs(1));
        cluster.restart();
    }
    let updated = pool.wait_updated(&second);
    let status = &updated["status"];
    assert_eq!(status["configuration"]["name"], updated["spec"]["configuration"]["name"]);
    assert_eq!(pool.boots(), [2, 2, 2], "one reboot each");

    let before = phases(cluster);
    // Back to the first one, which is not the newest any more.
    pool.annotate(PIN, Some(&pin));
    let updated = pool.wait_updated(&first);
    assert_eq!(updated["status"]["configuration"]["name"], old, "the config of its image");
    assert_eq!(pool.boots(), [3, 3, 3], "one reboot each");

    // A paused pool goes nowhere.
    pool.patch(json!({ "paused": true }));
    pool.annotate(PIN, None);
    pool.wait_pool(|pool| RolloutPool::condition(pool, "Updated") == "False");
    std::thread::sleep(Duration::from_secs(3));
    assert_eq!(pool.boots(), [3, 3, 3]);
    pool.patch(json!({ "paused": false }));
    pool.wait_updated(&second);

    // Back to the image of the release.
    let stock = cluster.stock();
    pool.annotate(PIN, Some(&format!("stock@{stock}")));
    pool.wait_updated(&stock);
    assert_eq!(pool.boots(), [5, 5, 5], "one reboot each");
    check_metrics(cluster, &before);
}

fn phases(cluster: &RolloutCluster) -> BTreeMap<String, f64> {
    signals::phases(&signals::metrics(cluster.logs().last().unwrap()))
}

/// Each machine took its first image, and the controller was killed while it did.
fn check_events(cluster: &RolloutCluster, pool: &RolloutPool) {
    let steps = ["NodeRebooting", "NodeSlotGiven", "NodeStaged", "NodeUpdated"];
    for name in &pool.machines {
        let once = steps.map(|step| (step.to_owned(), 1)).into();
        let events = wait("the machine's events", LIMIT, || {
            let events = signals::events(&cluster.node, name);
            steps.iter().all(|step| events.contains_key(*step)).then_some(events)
        });
        assert_eq!(events, once, "one event a step");
        assert!(signals::is_described(&cluster.node, name, "NodeUpdated"));
    }
    // They follow the status that they are about.
    let events = wait("the pool's events", LIMIT, || {
        let events = signals::pool_events(&cluster.node);
        (events.last()? == "RolloutCompleted").then_some(events)
    });
    assert_eq!(events, ["RolloutStarted", "RolloutCompleted"]);
}

/// Since these counts each machine took three images, and now all run the target.
fn check_metrics(cluster: &RolloutCluster, before: &BTreeMap<String, f64>) {
    let metrics = wait("all machines to be counted as updated", LIMIT, || {
        let metrics = signals::metrics(cluster.logs().last()?);
        let is_updated = signals::machines(&metrics) == [("updated".to_owned(), 3.0)].into();
        is_updated.then_some(metrics)
    });
    let phases = signals::phases(&metrics);
    assert!(phases.keys().eq(["apply", "drain", "slot", "stage"]), "{phases:?}");
    for (phase, count) in phases {
        let earlier = before.get(&phase).copied().unwrap_or_default();
        assert!((count - earlier - 9.0).abs() < 0.5, "{phase}: {earlier}, then {count}");
    }
    assert_eq!(metrics["mosb_rollout_state{pool=\"worker\",state=\"updated\"}"], 1.0);
    let troubles = ["mosb_rollout_blocked", "mosb_rollout_oldest_slot"];
    let trouble = metrics.keys().find(|key| troubles.iter().any(|one| key.starts_with(one)));
    assert_eq!(trouble, None);
}
