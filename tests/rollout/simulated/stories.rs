//! Stories with a pool each; all run at once under one controller.

use std::thread::sleep;
use std::time::Duration;

use mosb_tests::{NewMachine, Reboot, RolloutCluster, RolloutPool, annotation, wait};
use serde_json::{Value, json};

use super::{REASON, STATE};

const LIMIT: Duration = Duration::from_secs(420);
/// For this long nothing happens that must not.
const QUIET: Duration = Duration::from_secs(5);

#[test]
fn pools_go_from_staged_to_deleted() {
    let settings = json!({ "rollout": { "stagingPerRegistry": 10, "nodeTimeoutMinutes": 5 } });
    let cluster = RolloutCluster::start(&settings);
    cluster.run_stories(&[
        ("stage only", stage_only),
        ("two at once", two_at_once),
        ("pause in the middle", pause_in_the_middle),
        ("a machine that stays away", a_machine_that_stays_away),
        ("a cordon of an administrator", a_cordon_of_an_administrator),
        ("drift", drift),
        ("deleted, and kept", deleted_and_kept),
        ("deleted, and stock", deleted_and_stock),
        ("another architecture", another_architecture),
    ]);
    println!("{:#?}", cluster.finish());
}

/// Whether a drain waits for a budget.
fn is_held(node: &Value) -> bool {
    annotation(node, REASON).contains("budget")
}

fn has_slot(cluster: &RolloutCluster, name: &str) -> bool {
    !annotation(&cluster.node.get(&format!("node/{name}")), "mosb.dev/slot").is_empty()
}

fn stage_only(cluster: &RolloutCluster) {
    let pool = RolloutPool::new(cluster, "staged", 2);
    let first = pool.image();
    pool.set_mode("stage");
    pool.wait_staged(&first);
    let second = pool.change("second");
    pool.wait_staged(&second);
    sleep(QUIET);
    assert_eq!(pool.boots(), [0, 0]);
    let observed = cluster.observer.observed();
    assert!(pool.machines.iter().all(|name| !observed.slots.contains_key(name)));
    let found = pool.wait_pool(|pool| RolloutPool::condition(pool, "Updated") == "False");
    assert_eq!(found["status"]["unavailableMachineCount"], 0, "{found:#}");
}

/// A drain that is held keeps one of two slots, and the others go on.
fn two_at_once(cluster: &RolloutCluster) {
    let pool = RolloutPool::new(cluster, "pair", 4);
    let first = pool.image();
    pool.patch(json!({ "maxUnavailable": "50%" }));
    let held = &pool.machines[0];
    cluster.add_guarded_pod("pair", held);
    pool.set_mode("automatic");
    pool.wait_node(held, is_held);
    for name in &pool.machines[1..] {
        pool.wait_node(name, |_| cluster.machines.get(name).booted == first);
    }
    assert_eq!(pool.boots()[0], 0);
    cluster.remove_budget("pair");
    pool.wait_updated(&first);
    assert_eq!(pool.boots(), [1, 1, 1, 1]);
    assert_eq!(cluster.observer.observed().most_unavailable["pair"], 2);
}

/// A pause ends a drain: the machine is uncordoned, and nothing reboots until the pause is over.
fn pause_in_the_middle(cluster: &RolloutCluster) {
    let pool = RolloutPool::new(cluster, "paused", 2);
    let first = pool.image();
    let held = &pool.machines[1];
    cluster.add_guarded_pod("paused", held);
    pool.set_mode("automatic");
    pool.wait_node(held, is_held);
    pool.patch(json!({ "paused": true }));
    pool.wait_node(held, |node| {
        annotation(node, "mosb.dev/slot").is_empty() && node["spec"]["unschedulable"] != true
    });
    cluster.remove_budget("paused");
    let slots = cluster.observer.observed().slots[held];
    sleep(QUIET);
    assert_eq!(pool.boots(), [1, 0]);
    assert_eq!(cluster.observer.observed().slots[held], slots, "a paused pool gets no slot");
    assert!(cluster.has_pod("paused"));
    pool.patch(json!({ "paused": false }));
    pool.wait_updated(&first);
    assert_eq!(pool.boots(), [1, 1]);
}

fn a_machine_that_stays_away(cluster: &RolloutCluster) {
    let pool = RolloutPool::new(cluster, "away", 2);
    let first = pool.image();
    let [lost, other] = &pool.machines[..] else { panic!("two machines") };
    pool.patch(json!({ "maxUnavailable": 2 }));
    // Only one has staged it when the other one is lost.
    cluster.machines.change(lost, |one| one.reboot = Reboot::StaysAway);
    cluster.add_guarded_pod("away", other);
    pool.set_mode("automatic");
    let degraded = |pool: &Value| RolloutPool::message(pool, "RolloutDegraded");
    // One with a slot goes on; a pause takes that back.
    pool.wait_node(other, is_held);
    pool.patch(json!({ "paused": true }));
    pool.wait_node(other, |node| annotation(node, "mosb.dev/slot").is_empty());
    cluster.remove_budget("away");
    pool.wait_node(lost, |node| annotation(node, STATE) == "Degraded");
    pool.patch(json!({ "paused": false }));
    let found = pool.wait_pool(|pool| degraded(pool).contains("MachineLost"));
    assert!(degraded(&found).contains(lost), "{}", degraded(&found));
    sleep(QUIET);
    assert!(has_slot(cluster, lost) && !has_slot(cluster, other), "no new slot");
    assert_eq!(pool.boots(), [0, 0]);
    cluster.machines.come_back(lost);
    pool.wait_updated(&first);
    assert_eq!(pool.boots(), [1, 1]);
}

/// A machine that an administrator cordoned counts as unavailable, gets no slot and is never
/// uncordoned.
fn a_cordon_of_an_administrator(cluster: &RolloutCluster) {
    let pool = RolloutPool::new(cluster, "cordoned", 3);
    let first = pool.image();
    let [cordoned, others @ ..] = &pool.machines[..] else { panic!("machines") };
    cluster.machines.cordon(cordoned, true);
    pool.set_mode("automatic");
    pool.wait_staged(&first);
    sleep(QUIET);
    assert_eq!(pool.boots(), [0, 0, 0], "one is unavailable already");
    pool.patch(json!({ "maxUnavailable": 2 }));
    for name in others {
        pool.wait_node(name, |node| {
            cluster.machines.get(name).booted == first
                && annotation(node, "mosb.dev/slot").is_empty()
        });
    }
    sleep(QUIET);
    assert_eq!(pool.boots(), [0, 1, 1]);
    assert_eq!(cluster.node.get(&format!("node/{cordoned}"))["spec"]["unschedulable"], true);
    cluster.machines.cordon(cordoned, false);
    pool.wait_updated(&first);
    assert_eq!(pool.boots(), [1, 1, 1]);
}

/// Somebody else boots a machine into another image: that is reported, and brought back only in the
/// mode `automatic`, after a pause or when an administrator asks for it.
fn drift(cluster: &RolloutCluster) {
    let pool = RolloutPool::new(cluster, "drifting", 2);
    let first = pool.image();
    pool.set_mode("automatic");
    pool.wait_updated(&first);
    let (stock, changed) = (cluster.stock(), &pool.machines[0]);
    cluster.machines.boot_into(changed, &stock);
    pool.wait_pool(|pool| RolloutPool::condition(pool, "Updated") == "False");
    pool.retry_fallen(changed);
    pool.wait_updated(&first);
    assert_eq!(pool.boots(), [3, 1], "to the first image, by others, and back");

    pool.set_mode("stage");
    cluster.machines.boot_into(changed, &stock);
    let found = pool.wait_pool(|pool| RolloutPool::condition(pool, "Updated") == "False");
    assert_eq!(found["status"]["updatedMachineCount"], 1, "{found:#}");
    pool.retry_fallen(changed);
    pool.wait_node(changed, |node| annotation(node, "mosb.dev/staged").contains(&first));
    sleep(QUIET);
    assert_eq!(pool.boots(), [4, 1]);
    let node = cluster.node.get(&format!("node/{changed}"));
    let current = annotation(&node, "machineconfiguration.openshift.io/currentImage");
    assert!(current.ends_with(&stock), "{current}");
}

fn delete_config(pool: &RolloutPool<'_>) {
    let what = ["delete", &pool.config(), "--wait=false"];
    pool.cluster.node.kubectl(&what).ok();
}

fn wait_deleted(pool: &RolloutPool<'_>) {
    let what = pool.config();
    wait(&format!("{what} to be deleted"), LIMIT, || {
        pool.cluster.node.find(&what).is_none().then_some(())
    });
}

fn deleted_and_kept(cluster: &RolloutCluster) {
    let pool = RolloutPool::new(cluster, "kept", 1);
    let first = pool.image();
    pool.set_mode("automatic");
    pool.wait_updated(&first);
    let config = cluster.node.get(&pool.config());
    let finalizers = config["metadata"]["finalizers"].to_string();
    assert!(finalizers.contains("mosb.dev/rollout"), "{finalizers}");
    delete_config(&pool);
    wait_deleted(&pool);
    sleep(QUIET);
    assert_eq!(pool.boots(), [1]);
    assert_eq!(cluster.machines.get(&pool.machines[0]).booted, first);
}

/// The machines go to the stock image first; a drain that is held delays the deletion.
fn deleted_and_stock(cluster: &RolloutCluster) {
    let pool = RolloutPool::new(cluster, "stocked", 2);
    let first = pool.image();
    pool.set_mode("automatic");
    pool.wait_updated(&first);
    pool.annotate("mosb.dev/on-delete", Some("stock"));
    let held = &pool.machines[1];
    cluster.add_guarded_pod("stocked", held);
    delete_config(&pool);
    pool.wait_node(held, is_held);
    assert!(cluster.node.find(&pool.config()).is_some());
    cluster.remove_budget("stocked");
    wait_deleted(&pool);
    let stock = cluster.stock();
    assert!(pool.machines.iter().all(|name| cluster.machines.get(name).booted == stock));
    assert_eq!(pool.boots(), [2, 2]);
    assert!(pool.machines.iter().all(|name| !has_slot(cluster, name)));
}

/// A machine for which the image has no platform is reported, and the others go on.
fn another_architecture(cluster: &RolloutCluster) {
    let pool = RolloutPool::new(cluster, "mixed", 1);
    let first = pool.image();
    let other = "mixed-arm";
    let mut machine = NewMachine::new(other, &pool.name, &cluster.stock());
    machine.architecture = "arm64";
    cluster.machines.join(&machine);
    pool.set_mode("automatic");
    let node = pool.wait_node(other, |node| annotation(node, STATE) == "Degraded");
    assert!(annotation(&node, REASON).contains("no image for the platform"), "{node:#}");
    let fits =
        |node: &Value| annotation(node, STATE) == "Done" && node["spec"]["unschedulable"] != true;
    pool.wait_node(&pool.machines[0], |node| {
        fits(node) && cluster.machines.get(&pool.machines[0]).booted == first
    });
    assert_eq!(pool.boots(), [1]);
    let found = pool.wait_pool(|pool| RolloutPool::condition(pool, "NodeDegraded") == "True");
    assert_eq!(found["status"]["degradedMachineCount"], 1, "{found:#}");
    assert!(!has_slot(cluster, other));
}
