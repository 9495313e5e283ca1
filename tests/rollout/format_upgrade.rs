//! An image of an older format in a pool that is rolled out automatically, on a real API server with
//! a helper that answers as the machines.
//!
//! It is made as an upgrade leaves it: with `os-change`, mosb writes the image that earlier versions
//! wrote. With `every-config`, it plans the newest format for the same config.

use std::time::Duration;

use mosb_tests::{RolloutCluster, RolloutPool, wait};
use serde_json::{Value, json};

const API: &str = "machineconfiguration.openshift.io/v1";
const BUILD_ON: &str = "mosb.dev/build-on";
const DECISION: Duration = Duration::from_secs(120);

/// A pool of machines whose config has a script below `/var`.
fn pool<'c>(cluster: &'c RolloutCluster, name: &str) -> RolloutPool<'c> {
    let mut pool = RolloutPool { cluster, name: name.to_owned(), machines: Vec::new() };
    for _ in 0..2 {
        pool.join();
    }
    write_script(&pool, "first");
    let labels = json!({ "machineconfiguration.openshift.io/role": name });
    let selector = json!({ "matchLabels": { format!("node-role.kubernetes.io/{name}"): "" } });
    let object = json!({ "apiVersion": API, "kind": "MachineConfigPool", "metadata": { "name": name },
        "spec": { "nodeSelector": selector, "machineConfigSelector": { "matchLabels": labels } } });
    cluster.node.apply(&object.to_string());
    let mut config = pool.os_config();
    config["metadata"]["annotations"] = json!({ BUILD_ON: "os-change" });
    cluster.node.apply(&config.to_string());
    pool
}

/// The rendered config of the base that all pools of the cluster use, with this script.
fn write_script(pool: &RolloutPool<'_>, content: &str) {
    let file = json!({ "path": "/usr/local/bin/story", "mode": 0o755,
        "contents": { "source": format!("data:,{content}") } });
    let object = json!({ "apiVersion": API, "kind": "MachineConfig",
        "metadata": { "name": format!("50-{}", pool.name),
            "labels": { "machineconfiguration.openshift.io/role": pool.name } },
        "spec": { "osImageURL": pool.cluster.base(), "config": {
            "ignition": { "version": "3.5.0" }, "storage": { "files": [file] } } } });
    pool.cluster.node.apply(&object.to_string());
}

/// The images of all builds.
fn builds(cluster: &RolloutCluster) -> usize {
    let list = cluster.node.kubectl(&["get", "machineosbuilds", "--output=json"]).ok().json();
    list["items"].as_array().unwrap().len()
}

#[test]
fn an_image_of_an_older_format_is_neither_built_nor_rolled_out_again() {
    let cluster = RolloutCluster::start(&json!({}));
    let pool = pool(&cluster, "older");
    let first = pool.image();
    pool.set_mode("automatic");
    pool.wait_updated(&first);
    assert_eq!((pool.boots(), builds(&cluster)), (vec![1, 1], 1));

    cluster.kill_controllers();
    pool.annotate(BUILD_ON, Some("every-config"));
    cluster.start_controller("first");
    wait("a decision about the pool", DECISION, || {
        let is_of_pool = |line: &str| line.contains("older: ");
        cluster.logs()[0].lines().any(is_of_pool).then_some(())
    });
    assert_eq!((pool.image(), builds(&cluster)), (first.clone(), 1));

    // The next change is of the newest format, and the first reboot since.
    write_script(&pool, "second");
    let config = pool.wait(&pool.config(), |config| {
        let image = config["status"]["currentImagePullSpec"].as_str();
        image.is_some_and(|image| !image.ends_with(&first))
    });
    let second = image(&config);
    pool.wait_updated(&second);
    assert_eq!(pool.boots(), [2, 2]);
    // The earlier config has the image that it had.
    write_script(&pool, "first");
    pool.wait_updated(&first);
    assert_eq!((pool.boots(), builds(&cluster)), (vec![3, 3], 2));
    println!("{:#?}", cluster.finish());
}

fn image(config: &Value) -> String {
    let image = config["status"]["currentImagePullSpec"].as_str().unwrap();
    image.rsplit_once('@').unwrap().1.to_owned()
}
