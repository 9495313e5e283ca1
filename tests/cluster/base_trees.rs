//! The ConfigMap with base trees is a cache: one that can't be written is a warning, and what no build needs goes.

use std::collections::BTreeSet;
use std::time::Duration;

use serde_json::{Value, json};

use crate::fault_stories::story::{Pool, Seen};
use crate::fault_world::{World, condition, ends, in_namespace, ours, world};
use mosb_tests::{base_image, wait};

const SOON: Duration = Duration::from_secs(60);
const NAME: &str = "mosb-base-trees";

fn map() -> String {
    format!("{}/{NAME}", in_namespace("configmaps"))
}

/// The ConfigMap with one entry, which is of a base that no build names.
fn make(world: &World, immutable: bool) {
    let stale = "e".repeat(64);
    let map = json!({ "apiVersion": "v1", "kind": "ConfigMap", "metadata": { "name": NAME },
        "immutable": immutable, "data": { stale: world.images[0] } });
    world.make(&in_namespace("configmaps"), &map);
}

fn data(world: &World) -> Value {
    world.proxy.ask("GET", &map(), None).1["data"].clone()
}

/// Lets a pool's build end with a tree to record.
fn build(world: &World, pool: &str, ended: &mut BTreeSet<String>) -> Pool {
    world.pool(pool, ends::TREE);
    world.make(&ours("machineosconfigs", ""), &world.config(pool));
    wait(&format!("the image of {pool}"), SOON, || {
        let found = Seen::of(world).pool(pool);
        world.kubelet(&found.runners, ended);
        let settled = found.serves(ends::TREE) && found.runners.is_empty();
        settled.then_some(found)
    })
}

#[test]
fn a_cache_of_base_trees_that_cannot_be_written_stops_no_pool_and_is_pruned() {
    let world = &*world();
    for pool in ["tree-immutable", "tree-next"] {
        world.proxy.follow(pool, &[]);
    }
    world.delete(&map());
    make(world, true);
    let controller = world.controller();
    let mut ended = BTreeSet::new();
    let seen = build(world, "tree-immutable", &mut ended);
    assert!(condition(&seen.config, "Blocked").is_none());
    let said = controller.said();
    let words = [
        "mosb-base-trees",
        "immutable",
        "is not recorded, so the next build on it reads its layers again",
    ];
    let warned = |line: &str| words.iter().all(|word| line.contains(word));
    assert!(said.lines().any(warned), "{said}");

    // The pool is not stuck: its next build is made too.
    world.renders("tree-immutable", ends::TWO);
    wait("the next image", SOON, || {
        let found = Seen::of(world).pool("tree-immutable");
        world.kubelet(&found.runners, &mut ended);
        found.serves(ends::TWO).then_some(())
    });

    world.delete(&map());
    make(world, false);
    build(world, "tree-next", &mut ended);
    let base = base_image().digest("base");
    let want = json!({ base.trim_start_matches("sha256:"): world.images[1] });
    wait("the entry, and no other", SOON, || (data(world) == want).then_some(()));
}
