//! The ConfigMap with base trees is a cache: one that can't be written is a warning, and what no
//! build needs goes.

use std::collections::BTreeSet;
use std::time::Duration;

use serde_json::{Value, json};

use crate::fault_cluster::{FaultCluster, cluster, condition, ends, in_namespace, ours};
use crate::fault_stories::story::{Pool, Seen};
use mosb_controller::builds::BaseTreeKey;
use mosb_controller::workload::BuildNodes;
use mosb_image::ImageRef;
use mosb_tests::{base_image, wait};

/// A controller's start and its lookups, on a busy machine.
const SOON: Duration = Duration::from_secs(180);
const NAME: &str = "mosb-base-trees";

fn map() -> String {
    format!("{}/{NAME}", in_namespace("configmaps"))
}

/// The ConfigMap with one entry, which is of a base that no build names.
fn make(cluster: &FaultCluster, immutable: bool) {
    let stale = "e".repeat(64);
    let map = json!({ "apiVersion": "v1", "kind": "ConfigMap", "metadata": { "name": NAME },
        "immutable": immutable, "data": { stale: cluster.images[0] } });
    cluster.make(&in_namespace("configmaps"), &map);
}

fn data(cluster: &FaultCluster) -> Value {
    cluster.proxy.api().ask("GET", &map(), None).1["data"].clone()
}

/// Lets a pool's build end with a tree to record.
fn build(cluster: &FaultCluster, pool: &str, ended: &mut BTreeSet<String>) -> Pool {
    cluster.pool(pool, ends::TREE);
    cluster.make(&ours("machineosconfigs", ""), &cluster.config(pool));
    wait(&format!("the image of {pool}"), SOON, || {
        let found = Seen::of(cluster).pool(pool);
        cluster.kubelet(&found.runners, ended);
        let settled = found.serves(ends::TREE) && found.runners.is_empty();
        settled.then_some(found)
    })
}

#[test]
fn an_unwritable_cache_stops_no_pool() {
    let cluster = &*cluster();
    for pool in ["tree-immutable", "tree-next"] {
        cluster.proxy.follow(pool, &[]);
    }
    cluster.delete(&map());
    make(cluster, true);
    let controller = cluster.controller();
    let mut ended = BTreeSet::new();
    let seen = build(cluster, "tree-immutable", &mut ended);
    assert!(condition(&seen.config, "Blocked").is_none());
    let log = controller.log();
    let words = [
        "mosb-base-trees",
        "immutable",
        "is not recorded, so the next build on it reads its layers again",
    ];
    let warned = |line: &str| words.iter().all(|word| line.contains(word));
    assert!(log.lines().any(warned), "{log}");

    // The pool is not stuck: its next build is made too.
    cluster.renders("tree-immutable", ends::TWO);
    wait("the next image", SOON, || {
        let found = Seen::of(cluster).pool("tree-immutable");
        cluster.kubelet(&found.runners, &mut ended);
        found.serves(ends::TWO).then_some(())
    });

    cluster.delete(&map());
    make(cluster, false);
    build(cluster, "tree-next", &mut ended);
    let base = base_image().digest("base");
    let push: ImageRef = cluster.push.parse().unwrap();
    let key = BaseTreeKey::new(&base.parse().unwrap(), push.repo(), &BuildNodes::Any);
    let want = json!({ key.data_key(): cluster.images[1] });
    wait("the entry, and no other", SOON, || (data(cluster) == want).then_some(()));
}
