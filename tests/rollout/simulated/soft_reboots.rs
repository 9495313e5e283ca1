//! Machines that reboot their user space alone, where the pool allows it. The machines are a stand-in:
//! what bootc, ostree and systemd do in a soft reboot is not tested here.

use mosb_tests::{RolloutCluster, RolloutPool, annotation};
use serde_json::{Value, json};

const SOFT_REBOOT: &str = "mosb.dev/soft-reboot";

#[test]
fn soft_reboots_survive_a_kill_after_each_write() {
    let cluster = RolloutCluster::start_behind_proxy(&json!({}));
    cluster.run_stories(&[("soft, another base, not capable", soft_and_not)]);
    cluster.finish();
}

fn soft_and_not(cluster: &RolloutCluster) {
    let pool = RolloutPool::new(cluster, "worker", 2);
    let [capable, other] = &pool.machines[..] else { panic!("two machines") };
    cluster.machines.change(capable, |machine| machine.can_soft_reboot = true);
    let first = pool.image();
    pool.set_mode("automatic");
    pool.wait_updated(&first);
    assert_eq!(pool.boots(), [1, 1], "off by default");
    let boots = |name: &str| {
        let machine = cluster.machines.get(name);
        // The first boot is before the roll-out.
        (machine.boots - 1, machine.soft_boots)
    };
    let status = || cluster.mosb("rollout status worker -o json").ok().json();

    // The config changes. One machine of the two is capable.
    pool.annotate(SOFT_REBOOT, Some("auto"));
    let second = change_with_kills(&pool, "second");
    assert_eq!((boots(capable), boots(other)), ((1, 1), (2, 0)));
    assert_eq!(pool.boots(), [1, 2], "the kernel of one runs on");
    let soft = &status()["softReboots"];
    assert_eq!((&soft["used"], &soft["notUsed"]), (&json!(1), &json!(1)), "{soft:#}");
    assert!(soft["causes"][0].as_str().unwrap().contains("not capable"), "{soft:#}");
    let report = |name: &str| -> Value {
        let node = cluster.node.get(&format!("node/{name}"));
        serde_json::from_str(annotation(&node, "mosb.dev/node-report")).unwrap()
    };
    assert_eq!(report(capable)["softReboot"], json!({ "used": true }));
    let text = cluster.mosb("nodes worker").ok().text();
    assert!(text.contains("soft reboot") && text.contains("no soft reboot: "), "{text}");

    // The base changes: the kernel is another one.
    cluster.machines.change(other, |machine| machine.can_soft_reboot = true);
    pool.patch(json!({ "paused": true }));
    let third = pool.change("third");
    for name in &pool.machines {
        cluster.machines.change(name, |machine| machine.other_kernels.extend([third.clone()]));
    }
    pool.patch(json!({ "paused": false }));
    pool.wait_updated(&third);
    assert_eq!((boots(capable), boots(other)), ((2, 0), (3, 0)));
    assert_eq!(status()["softReboots"]["notUsed"], 2);

    // Back: another kernel again. Then softly, and without the setting.
    let back = RolloutPool::history_pin(&cluster.node.get(&pool.config()), &second);
    pool.annotate("mosb.dev/rollout-build", Some(&back));
    pool.wait_updated(&second);
    assert_eq!((boots(capable), boots(other)), ((3, 0), (4, 0)));
    let back = RolloutPool::history_pin(&cluster.node.get(&pool.config()), &first);
    pool.annotate("mosb.dev/rollout-build", Some(&back));
    pool.wait_updated(&first);
    assert_eq!((boots(capable), boots(other)), ((3, 1), (4, 1)));
    pool.annotate(SOFT_REBOOT, Some("off"));
    pool.annotate("mosb.dev/rollout-build", None);
    pool.annotate(
        "mosb.dev/rollout-build",
        Some(&RolloutPool::history_pin(&cluster.node.get(&pool.config()), &second)),
    );
    pool.wait_updated(&second);
    assert_eq!((boots(capable), boots(other)), ((4, 0), (5, 0)));
    assert_eq!(status()["softReboots"], Value::Null);
}

/// Rolls out another config, with the controller killed after each write. Returns its image.
fn change_with_kills(pool: &RolloutPool<'_>, content: &str) -> String {
    let cluster = pool.cluster;
    pool.patch(json!({ "paused": true }));
    let image = pool.change(content);
    let slots = || {
        let observed = cluster.observer.observed();
        pool.machines.iter().map(|name| observed.slots[name]).collect::<Vec<_>>()
    };
    let before = slots();
    let is_free = |name: &String| {
        let node = cluster.node.get(&format!("node/{name}"));
        annotation(&node, "mosb.dev/slot").is_empty() && node["spec"]["unschedulable"] != true
    };
    let kills = cluster.kill_after_each_write(
        || pool.patch(json!({ "paused": false })),
        || pool.is_updated(&image) && pool.machines.iter().all(is_free),
    );
    assert!(kills > 15, "{kills}");
    pool.wait_updated(&image);
    assert!(slots().iter().zip(&before).all(|(now, before)| *now == before + 1), "one slot each");
    image
}
