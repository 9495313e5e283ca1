//! Roll-outs in which something happens, on a real API server: machines that fail, machines that
//! come and go, and a control plane. A helper answers as the machines, and an observer watches the
//! whole time. Each story has a pool of its own; all run at once under one controller. More stories
//! are in the program `rollout`.

use mosb_tests::{RolloutCluster, RolloutPool, annotation, finish, limited, program};
use serde_json::{Value, json};

use crate::rollout_parts::keys_and_arguments;

const REASON: &str = "machineconfiguration.openshift.io/reason";
const STATE: &str = "machineconfiguration.openshift.io/state";

#[test]
#[ignore = "make test-all: unit tests have the decisions"]
fn pools_roll_out_whatever_machines_do() {
    // The pools don't wait for each other's registry.
    let cluster = RolloutCluster::start(&json!({ "rollout": { "stagingPerRegistry": 10 } }));
    cluster.run_stories(&[
        ("machines that fail", machines_that_fail),
        ("machines that come and go", machines_that_come_and_go),
        ("a control plane", a_control_plane),
        ("disks that change", disks_that_change),
        ("keys and arguments", keys_and_arguments),
    ]);
    println!("{:#?}", cluster.finish());
}

/// A disk is not changed by an image: nothing is built, until the MachineConfig is reverted or the
/// change is accepted.
fn disks_that_change(cluster: &RolloutCluster) {
    let pool = RolloutPool::new(cluster, "disks", 1);
    let first = pool.image();
    pool.set_mode("automatic");
    pool.wait_updated(&first);
    let builds = || {
        let label = "machineconfiguration.openshift.io/target-machine-config-pool=disks";
        cluster.node.api().list(None, "machineosbuilds", label).len()
    };
    let disk = json!({ "device": "/dev/disk/by-id/data", "wipeTable": true });
    let disks = json!({ "apiVersion": "machineconfiguration.openshift.io/v1", "kind": "MachineConfig",
        "metadata": { "name": "60-disks", "labels": { "machineconfiguration.openshift.io/role": "disks" } },
        "spec": { "config": { "ignition": { "version": "3.5.0" }, "storage": { "disks": [disk] } } } });
    let blocked = |why: &str| {
        let config = pool.wait(&pool.config(), |config| {
            RolloutPool::message(config, "Blocked").starts_with(why)
        });
        RolloutPool::message(&config, "Blocked")
    };
    for _ in 0..2 {
        cluster.node.apply(&disks.to_string());
        let message = blocked("Unreconcilable: ");
        for want in
            ["60-disks: spec.config.storage.disks[/dev/disk/by-id/data]", "revert", "reinstall"]
        {
            assert!(message.contains(want), "{message}");
        }
        let mut status = limited(program());
        status.args(["status", "disks", "-o", "json", "--namespace", "mosb-system"]);
        status.arg("--kubeconfig").arg(cluster.node.kubeconfig());
        let status = finish(&mut status, &[]).json();
        assert_eq!(status["pools"][0]["reason"]["code"], "unreconcilable", "{status:#}");
        // The pool itself says so.
        let found = pool.wait_pool(|pool| {
            let message = RolloutPool::message(pool, "Updating");
            message.contains("Unreconcilable: ") && message.contains("disks[/dev/disk/by-id/data]")
        });
        let updated = RolloutPool::message(&found, "Updated");
        assert!(!updated.contains("All nodes are updated"), "{found:#}");
        assert_eq!((builds(), pool.image(), pool.boots()), (1, first.clone(), vec![1]));
        cluster.node.kubectl(&["delete", "machineconfig", "60-disks"]).ok();
        blocked("AsExpected: ");
        pool.wait_updated(&first);
    }

    // The machine was installed anew meanwhile, says the administrator.
    cluster.node.apply(&disks.to_string());
    blocked("Unreconcilable: ");
    let found = pool.wait_pool(|_| true);
    let rendered = found["spec"]["configuration"]["name"].as_str().unwrap();
    pool.annotate("mosb.dev/accept-unreconcilable", Some(rendered));
    let second = pool.image_after(&first);
    pool.wait_updated(&second);
    assert_eq!((builds(), pool.boots()), (2, vec![2]));
    assert!(blocked("AsExpected: ").ends_with(": "));
}

fn is_degraded(node: &Value) -> bool {
    annotation(node, STATE) == "Degraded"
}

/// One machine does not boot the image, and one loses it in each attempt: both keep their slots and
/// no other machine is touched, until the corrected image repairs them within their slots.
fn machines_that_fail(cluster: &RolloutCluster) {
    let pool = RolloutPool::new(cluster, "failing", 4);
    let first = pool.image();
    let [broken, lossy, twice, last] = &pool.machines[..] else { panic!("four machines") };
    cluster.machines.change(broken, |one| one.broken_images.extend([first.clone()]));
    cluster.machines.change(lossy, |one| one.lossy_reboots = 3);
    cluster.machines.change(twice, |one| one.lossy_reboots = 2);
    pool.patch(json!({ "maxUnavailable": 2 }));
    // A machine that stages later than another one gets its slot later.
    pool.set_mode("stage");
    pool.wait_staged(&first);
    pool.set_mode("automatic");
    for (name, why) in [(broken, "fell back"), (lossy, "nothing was finalized")] {
        let node = pool.wait_node(name, is_degraded);
        assert!(annotation(&node, REASON).contains(why), "{node:#}");
        assert_eq!(node["spec"]["unschedulable"], true, "{node:#}");
    }
    let found =
        pool.wait_pool(|pool| RolloutPool::message(pool, "RolloutDegraded").contains("Machines"));
    let message = RolloutPool::message(&found, "RolloutDegraded");
    assert!(message.contains(broken) && message.contains(lossy), "{message}");
    assert_eq!(found["status"]["degradedMachineCount"], 2, "{found:#}");
    // One reboot, and at most three attempts.
    assert_eq!(pool.boots(), [1, 3, 0, 0]);

    let second = pool.change("second");
    pool.wait_updated(&second);
    assert_eq!(pool.boots(), [2, 4, 3, 1], "{twice} lost it twice");
    let observed = cluster.observer.observed();
    for name in [broken, lossy, twice, last] {
        assert_eq!(observed.slots[name], 1, "{name} was repaired within its slot");
    }
}

/// While a drain is held: a second image comes into service, a machine joins, another one leaves,
/// and the node object of the one with the slot is deleted.
fn machines_that_come_and_go(cluster: &RolloutCluster) {
    let mut pool = RolloutPool::new(cluster, "moving", 3);
    let first = pool.image();
    let held = pool.machines[1].clone();
    cluster.add_guarded_pod("moving", &held);
    // Slots are given to machines that have the image: in the order of their names only if all have it.
    pool.set_mode("stage");
    pool.wait_staged(&first);
    pool.set_mode("automatic");
    pool.wait_node(&held, |node| annotation(node, REASON).contains("budget"));
    assert_eq!(cluster.machines.get(&pool.machines[0]).booted, first);
    assert_eq!(pool.boots(), [1, 0, 0]);

    // Nothing rebooted yet: the drain goes on for the newer image.
    let second = pool.change("second");
    let joined = pool.join();
    let left = pool.machines.remove(2);
    cluster.machines.leave(&left);
    pool.wait_node(&joined, |node| annotation(node, "mosb.dev/staged").contains(&second));
    // Its slot disappears with it.
    cluster.machines.leave(&held);
    pool.machines.remove(1);
    pool.wait_updated(&second);
    assert_eq!(pool.boots(), [2, 1], "one reboot an image");

    // It joins again, as another one of the same name.
    cluster.remove_budget("moving");
    let stock = cluster.stock();
    cluster.machines.join(&mosb_tests::NewMachine::new(&held, &pool.name, &stock));
    pool.machines.push(held);
    pool.wait_updated(&second);
    assert_eq!(pool.boots(), [2, 1, 1]);
}

/// The only control-plane machine is not drained. Three of them are rebooted one at a time, and
/// only while etcd and the others are healthy.
fn a_control_plane(cluster: &RolloutCluster) {
    // The image for control-plane machines is built on one of the pool, and only the real node runs
    // builds.
    let label = "node-role.kubernetes.io/master";
    cluster.node.kubectl(&["label", "node/node", &format!("{label}=")]).ok();
    let mut pool = RolloutPool::new(cluster, "master", 1);
    pool.patch(json!({ "maxUnavailable": 3 }));
    let first = pool.image();
    cluster.node.kubectl(&["label", "node/node", &format!("{label}-")]).ok();
    cluster.add_guarded_pod("control-plane", &pool.machines[0]);
    pool.set_mode("automatic");
    pool.wait_updated(&first);
    assert!(cluster.has_pod("control-plane"), "it could run nowhere else");
    cluster.remove_budget("control-plane");

    let etcd = ["etcd-0", "etcd-1"];
    for (name, machine) in etcd.iter().zip(pool.machines.iter().cycle()) {
        add_etcd(cluster, name, machine);
    }
    set_ready(cluster, etcd[1], false);
    pool.join();
    pool.join();
    let degraded = |pool: &Value| RolloutPool::message(pool, "RolloutDegraded");
    let found = pool.wait_pool(|pool| degraded(pool).contains("ControlPlaneUnhealthy"));
    assert!(degraded(&found).contains("etcd-1"), "{}", degraded(&found));
    assert_eq!(pool.boots(), [1, 0, 0]);
    set_ready(cluster, etcd[1], true);
    pool.wait_updated(&first);
    assert_eq!(pool.boots(), [1, 1, 1]);
    let observed = cluster.observer.observed();
    assert_eq!(observed.most_unavailable["master"], 1, "{observed:#?}");
}

/// A static pod, as kubeadm runs etcd.
fn add_etcd(cluster: &RolloutCluster, name: &str, machine: &str) {
    let pod = json!({ "apiVersion": "v1", "kind": "Pod",
        "metadata": { "name": name, "namespace": "kube-system",
            "labels": { "component": "etcd" },
            "annotations": { "kubernetes.io/config.mirror": "1" } },
        "spec": { "nodeName": machine, "containers": [{ "name": "etcd", "image": "etcd" }] } });
    cluster.node.apply(&pod.to_string());
    let is_ready = |pod: &Value| mosb_tests::condition(pod, "Ready");
    mosb_tests::wait("etcd", std::time::Duration::from_secs(60), || {
        let pod = cluster.node.api().find(Some("kube-system"), "pod", name)?;
        is_ready(&pod).then_some(())
    });
}

fn set_ready(cluster: &RolloutCluster, name: &str, is_ready: bool) {
    let status = if is_ready { "True" } else { "False" };
    let patch = json!({ "status": { "conditions": [{ "type": "Ready", "status": status }] } });
    let target = format!("/api/v1/namespaces/kube-system/pods/{name}/status");
    let (code, answer) = cluster.node.api().ask("PATCH", &target, Some(&patch));
    assert_eq!(code, 200, "{answer:#}");
}
