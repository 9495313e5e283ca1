//! Files that come to machines without a reboot, and the image that has them with their next one.

use std::thread::sleep;
use std::time::Duration;

use mosb_tests::{RolloutCluster, RolloutPool, annotation};
use serde_json::json;

use super::STATE;

const CURRENT_IMAGE: &str = "machineconfiguration.openshift.io/currentImage";
const CURRENT_CONFIG: &str = "machineconfiguration.openshift.io/currentConfig";
/// For this long nothing happens that must not.
const QUIET: Duration = Duration::from_secs(5);
const PIN: &str = "mosb.dev/rollout-build";

#[test]
fn files_without_a_reboot_survive_each_kill() {
    let cluster = RolloutCluster::start_behind_proxy(&json!({}));
    cluster.run_stories(&[("live, back, and a power cut", live_and_back)]);
    cluster.finish();
}

fn live_and_back(cluster: &RolloutCluster) {
    let pool = RolloutPool::new(cluster, "worker", 2);
    let first = pool.image();
    pool.set_mode("automatic");
    pool.wait_updated(&first);
    let slots = || {
        let observed = cluster.observer.observed();
        pool.machines.iter().map(|name| observed.slots[name]).collect::<Vec<_>>()
    };
    assert_eq!((pool.boots(), slots()), (vec![1, 1], vec![1, 1]));

    // Without the setting, such a change is an image as any other.
    let second = pool.change_ca("second");
    pool.wait_updated(&second);
    assert_eq!((pool.boots(), slots()), (vec![2, 2], vec![2, 2]));
    pool.annotate("mosb.dev/live-apply", Some("true"));
    let back = pool.pin();
    let node = cluster.node.get(&format!("node/{}", pool.machines[0]));
    let config_of_second = annotation(&node, CURRENT_CONFIG).to_owned();

    pool.patch(json!({ "paused": true }));
    let third = pool.change_ca("third");
    let build = pool.pin();
    let name = build.split('@').next().unwrap();
    let build = cluster.node.get(&format!("machineosbuild/{name}"));
    assert_eq!(annotation(&build, "mosb.dev/live-from"), second);
    assert!(pool.machines.iter().all(|name| cluster.machines.get(name).files == second));
    // The log of the build is archived meanwhile.
    sleep(QUIET);
    let kills = cluster.kill_after_each_write(
        || pool.patch(json!({ "paused": false })),
        || pool.has_files(&third),
    );
    assert!(kills > 5, "{kills}");
    assert_live(&pool, &third, &second);

    // A power cut loses what is staged.
    let [cut, rebooted] = &pool.machines[..] else { panic!("two machines") };
    cluster.machines.cut_power(cut);
    pool.wait_pool(|pool| RolloutPool::condition(pool, "Updated") == "False");
    pool.wait_node(cut, |_| cluster.machines.get(cut).staged.as_ref() == Some(&third));
    pool.wait_pool(|_| pool.has_files(&third));
    assert_live(&pool, &third, &second);
    // Somebody reboots the other one.
    cluster.machines.boot_into(rebooted, &third);
    pool.wait_node(rebooted, |node| annotation(node, CURRENT_IMAGE).ends_with(&third));
    pool.wait_pool(|_| pool.has_files(&third));

    // Whichever of them a machine booted, it takes on the next one.
    let fourth = pool.change_ca("fourth");
    pool.wait_pool(|_| pool.has_files(&fourth));
    sleep(QUIET);

    let kills = cluster
        .kill_after_each_write(|| pool.annotate(PIN, Some(&back)), || pool.has_files(&second));
    assert!(kills > 5, "{kills}");
    for name in &pool.machines {
        pool.wait_node(name, |node| {
            annotation(node, STATE) == "Done"
                && annotation(node, CURRENT_CONFIG) == config_of_second
                && annotation(node, "mosb.dev/slot").is_empty()
        });
    }
    pool.wait_pool(|_| pool.has_files(&second));
    let staged = |name: &str| cluster.machines.get(name).staged;
    assert_eq!((staged(cut), staged(rebooted)), (None, Some(second.clone())));
    assert_eq!((cluster.machines.get(rebooted).booted, slots()), (third, vec![2, 2]));
}

/// All machines have the files of one image, run another one, and got no slot.
fn assert_live(pool: &RolloutPool<'_>, files: &str, booted: &str) {
    let found = pool.cluster.node.get(&format!("machineconfigpool/{}", pool.name));
    let rendered = found["spec"]["configuration"]["name"].as_str().unwrap();
    assert_eq!(found["status"]["updatedMachineCount"], pool.machines.len(), "{found:#}");
    for name in &pool.machines {
        let machine = pool.cluster.machines.get(name);
        assert_eq!((&*machine.files, &*machine.booted), (files, booted));
        assert_eq!(machine.staged.as_deref(), Some(files));
        let node = pool.cluster.node.get(&format!("node/{name}"));
        assert!(annotation(&node, CURRENT_IMAGE).ends_with(booted), "{node:#}");
        assert_eq!(annotation(&node, CURRENT_CONFIG), rendered);
        assert_eq!(annotation(&node, STATE), "Done");
        assert_eq!(annotation(&node, "mosb.dev/slot"), "");
        assert_ne!(node["spec"]["unschedulable"], true);
    }
    assert_eq!(pool.cluster.observer.observed().slots.values().copied().max(), Some(2));
}
