//! What happens to machines, to the registry and in the cluster while pools are rolled out: the power
//! fails, an image is deleted, another controller of machines appears. All run at once.

use std::thread::sleep;
use std::time::Duration;

use mosb_tests::{ROLLOUT_NAMESPACE, RolloutCluster, RolloutPool, annotation, wait};
use serde_json::{Value, json};
use tempfile::TempDir;

use super::{REASON, STATE};

const LIMIT: Duration = Duration::from_secs(180);
/// For this long nothing happens that must not.
const QUIET: Duration = Duration::from_secs(5);

#[test]
fn pools_get_their_image_whatever_fails_meanwhile() {
    let cluster = RolloutCluster::start(&json!({ "rollout": { "stagingPerRegistry": 10 } }));
    cluster.run_stories(&[
        ("power cuts", power_cuts),
        ("an image that the registry lost", an_image_that_the_registry_lost),
        ("by commands only", by_commands_only),
    ]);
    println!("{:#?}", cluster.finish());
}

#[test]
fn beside_another_controller_nothing_is_written() {
    let cluster = RolloutCluster::start(&json!({}));
    cluster.run_stories(&[("another controller", another_controller)]);
    cluster.finish();
}

fn is_held(node: &Value) -> bool {
    annotation(node, REASON).contains("budget")
}

/// Once between staged and applied, once in a drain: what is staged is lost, and staged again.
fn power_cuts(cluster: &RolloutCluster) {
    let pool = RolloutPool::new(cluster, "cut", 2);
    let first = pool.image();
    let [staged, draining] = &pool.machines[..] else { panic!("two machines") };
    pool.set_mode("stage");
    pool.wait_staged(&first);
    cluster.machines.cut_power(staged);
    pool.wait_node(staged, |node| {
        let boot = node["status"]["nodeInfo"]["bootID"].as_str().unwrap();
        boot.ends_with("-boot-2") && annotation(node, "mosb.dev/staged").contains(boot)
    });
    assert_eq!(cluster.machines.get(staged).staged.as_ref(), Some(&first));
    assert_eq!(pool.boots(), [1, 0], "only that of the power cut");

    cluster.add_guarded_pod("cut", draining);
    pool.set_mode("automatic");
    let held = pool.wait_node(draining, is_held);
    cluster.machines.cut_power(draining);
    let back = pool.wait_node(draining, |node| {
        let boot = node["status"]["nodeInfo"]["bootID"].as_str().unwrap();
        boot.ends_with("-boot-2") && mosb_tests::condition(node, "Ready") && is_held(node)
    });
    let slot = |node: &Value| -> Value {
        serde_json::from_str(annotation(node, "mosb.dev/slot")).unwrap()
    };
    assert_eq!(slot(&back)["since"], slot(&held)["since"], "it keeps its slot");
    assert_eq!(back["spec"]["unschedulable"], true);
    assert!(cluster.has_pod("cut"), "the budget holds it still");
    cluster.remove_budget("cut");
    pool.wait_updated(&first);
    assert_eq!(pool.boots(), [2, 2], "one by mosb each");
    let observed = cluster.observer.observed();
    assert!(pool.machines.iter().all(|name| observed.slots[name] == 1), "{observed:#?}");
}

/// Before anything is staged, the image is deleted from the registry: no machine is touched until it
/// is there again.
fn an_image_that_the_registry_lost(cluster: &RolloutCluster) {
    let pool = RolloutPool::new(cluster, "missing", 2);
    let first = pool.image();
    let registry = cluster.node.registry();
    let image = format!("acme/missing-os@{first}");
    let copies = TempDir::new().unwrap();
    let copy = format!("oci:{}:copy", copies.path().display());
    registry.pull(&image, &copy);
    registry.delete(&image);
    pool.set_mode("automatic");
    let degraded = |pool: &Value| RolloutPool::message(pool, "RolloutDegraded");
    let found = pool.wait_pool(|pool| degraded(pool).starts_with("ImageMissing"));
    let message = degraded(&found);
    assert!(message.contains(&first) && message.contains("rebuild the pool"), "{message}");
    sleep(QUIET);
    for name in &pool.machines {
        let node = cluster.node.get(&format!("node/{name}"));
        let marks = ["mosb.dev/slot", "mosb.dev/staged"].map(|key| annotation(&node, key));
        assert_eq!((marks, annotation(&node, STATE)), (["", ""], "Done"), "{name}");
        assert_ne!(node["spec"]["unschedulable"], true, "{name}");
        assert_eq!(cluster.machines.get(name).staged, None, "{name}");
    }
    assert_eq!(pool.boots(), [0, 0]);
    registry.push(&copy, "acme/missing-os:again");
    let found = pool.wait_updated(&first);
    assert_eq!(RolloutPool::condition(&found, "RolloutDegraded"), "False", "{found:#}");
    assert_eq!(pool.boots(), [1, 1]);
}

/// An administrator rolls out once, follows it over a restart of the controller, rolls out the next
/// image, and takes it back.
fn by_commands_only(cluster: &RolloutCluster) {
    let pool = RolloutPool::new(cluster, "manual", 2);
    let first = pool.image();
    let status = |what: &str| cluster.mosb(&format!("rollout status manual {what}"));
    sleep(QUIET);
    assert_eq!(status("-o json").ok().json()["phase"], "off");
    assert_eq!(pool.boots(), [0, 0], "the mode is none");

    let held = &pool.machines[1];
    cluster.add_guarded_pod("manual", held);
    cluster.mosb("rollout start manual --yes").ok();
    pool.wait_node(held, is_held);
    let text = status("").ok().text();
    assert!(text.contains("default/manual") && text.contains(held), "{text}");
    cluster.restart();
    cluster.remove_budget("manual");
    let followed = status("--watch --timeout 100s");
    assert_eq!(followed.code(), Some(0), "{followed:?}");
    pool.wait_updated(&first);
    let once = |pool: &RolloutPool<'_>| {
        let config = cluster.node.get(&pool.config());
        annotation(&config, "mosb.dev/rollout-once").to_owned()
    };
    assert_eq!((pool.boots(), once(&pool)), (vec![1, 1], String::new()));

    // Once is once.
    let second = pool.change("second");
    sleep(QUIET);
    assert_eq!(pool.boots(), [1, 1]);
    cluster.mosb("rollout start manual --yes").ok();
    assert_eq!(status("--watch --timeout 100s").code(), Some(0));
    pool.wait_updated(&second);
    cluster.mosb("rollout undo manual --yes").ok();
    assert_eq!(status("--watch --timeout 100s").code(), Some(0));
    pool.wait_updated(&first);
    assert_eq!(pool.boots(), [3, 3]);
    let nodes = cluster.mosb("nodes manual -o json").ok().json();
    let current = |node: &Value| node["current"].as_str().unwrap().ends_with(&first);
    assert!(nodes["nodes"].as_array().unwrap().iter().all(current), "{nodes:#}");
}

/// It appears while one machine is drained. mosb writes nothing any more, whatever happens, and goes
/// on when it has gone.
fn another_controller(cluster: &RolloutCluster) {
    let pool = RolloutPool::new(cluster, "worker", 3);
    let first = pool.image();
    let [updated, held, waiting] = &pool.machines[..] else { panic!("three machines") };
    cluster.add_guarded_pod("guarded", held);
    pool.set_mode("automatic");
    pool.wait_node(held, is_held);
    assert_eq!(cluster.machines.get(updated).booted, first);

    const PLACE: &str = "openshift-machine-config-operator";
    const NAME: &str = "machine-config-controller";
    cluster.node.make_namespace(PLACE);
    let deployment = json!({ "apiVersion": "apps/v1", "kind": "Deployment",
        "metadata": { "name": NAME, "namespace": PLACE },
        "spec": { "replicas": 1, "selector": { "matchLabels": { "a": "b" } }, "template": {
            "metadata": { "labels": { "a": "b" } },
            "spec": { "containers": [{ "name": "a", "image": "registry.invalid/none" }] } } } });
    cluster.node.apply(&deployment.to_string());
    let said = format!("not rolled out by mosb: Deployment {PLACE}/{NAME} does");
    let names_held = format!("slot and cordon stay on {held}");
    let is_logged = || {
        let logs = cluster.logs();
        let mut lines = logs[0].lines();
        lines.any(|line| line.contains(&said) && line.contains(&names_held)).then_some(())
    };
    wait("the other controller to be seen", LIMIT, is_logged);
    let before = seen(cluster, &pool);
    // Everything that it waited for happens.
    cluster.remove_budget("guarded");
    pool.patch(json!({ "maxUnavailable": 3 }));
    cluster.machines.boot_into(updated, &cluster.stock());
    let (before, after) = (before, {
        sleep(3 * QUIET);
        seen(cluster, &pool)
    });
    assert_eq!(before, after);
    assert!(cluster.has_pod("guarded"), "no pod is evicted");
    assert_eq!((pool.boots()[1], pool.boots()[2]), (0, 0));
    // A controller that starts meanwhile writes nothing either.
    cluster.restart();
    wait("the other controller to be seen again", LIMIT, is_logged);
    sleep(QUIET);
    assert_eq!(seen(cluster, &pool), after);

    cluster.node.kubectl(&["delete", "deployment", NAME, "--namespace", PLACE]).ok();
    pool.retry_fallen(updated);
    pool.wait_updated(&first);
    assert_eq!(pool.boots(), [3, 1, 1]);
    assert_eq!(cluster.machines.get(waiting).booted, first);
}

/// All that mosb writes of a roll-out.
fn seen(cluster: &RolloutCluster, pool: &RolloutPool<'_>) -> Value {
    let api = cluster.node.api();
    let nodes = pool.machines.iter().map(|name| {
        let node = cluster.node.get(&format!("node/{name}"));
        let mut marks = node["metadata"]["annotations"].clone();
        marks.as_object_mut().unwrap().remove(mosb_tests::REBOOTED_BY_OTHERS);
        json!([marks, node["spec"]["unschedulable"]])
    });
    let names = |kind: &str| {
        let all = api.list(Some(ROLLOUT_NAMESPACE), kind, "");
        all.iter().map(|one| one["metadata"]["uid"].clone()).collect::<Vec<_>>()
    };
    let found = cluster.node.get("machineconfigpool/worker");
    json!([
        nodes.collect::<Vec<_>>(),
        names("jobs"),
        names("secrets"),
        found["status"],
        cluster.node.get(&pool.config())["metadata"]["annotations"]
    ])
}
