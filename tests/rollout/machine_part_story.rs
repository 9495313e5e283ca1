//! Keys and kernel arguments of a config on the machines of a pool. rpm-ostree is a stand-in on
//! machines of the lab; boot entries, files and reboots are real.

use serde_json::{Value, json};

use crate::node_story::{boot_arguments, keys};
use crate::rollout_cluster::{CONFIG, POOL, RolloutCluster, STATE, condition, mark, step};
use crate::test_lab::own_lab;

#[test]
fn keys_reach_the_machines_of_a_pool_without_a_reboot_and_kernel_arguments_with_one() {
    let lab = own_lab();
    // As by an installation.
    for machine in lab.machines() {
        machine.run("useradd --create-home --home-dir /var/home/core --password '*' core").ok();
    }
    let cluster = RolloutCluster::start(&lab);
    let first = step("the first image", || cluster.image());
    let pin = cluster.pin();
    cluster.annotate(CONFIG, "mosb.dev/rollout=automatic");
    step("rolled out", || cluster.wait_updated(&first));
    cluster.seen();

    cluster.node().apply(&machine_config(&["ssh-ed25519 AAAA one"], &[]).to_string());
    step("the keys are on all machines", || {
        wait_keys(&cluster, "ssh-ed25519 AAAA one\n");
        cluster.wait_updated(&first);
    });
    assert_eq!(cluster.seen(), (vec![0, 0, 0], 0), "no reboot, and no machine was unavailable");
    assert_ne!(cluster.pin(), pin, "another build of the same image");

    cluster.node().apply(&machine_config(&["ssh-ed25519 AAAA two"], &["story=1"]).to_string());
    let second = step("the image with an argument", || {
        cluster.wait(CONFIG, |_| cluster.image() != first);
        cluster.image()
    });
    step("rolled out", || cluster.wait_updated(&second));
    assert_eq!(cluster.seen(), (vec![1, 1, 1], 1), "one reboot each, one at a time");
    for machine in lab.machines() {
        assert_eq!(boot_arguments(machine), ["story=1"], "{}", machine.name());
        assert_eq!(keys(machine), "ssh-ed25519 AAAA two\n", "{}", machine.name());
    }

    cluster.annotate(CONFIG, &format!("mosb.dev/rollout-build={pin}"));
    step("back to the first build", || cluster.wait_updated(&first));
    assert_eq!(cluster.seen(), (vec![1, 1, 1], 1), "one reboot each, one at a time");
    for machine in lab.machines() {
        assert_eq!(boot_arguments(machine), [""; 0], "{}", machine.name());
        assert_eq!(keys(machine), "", "{}", machine.name());
    }
}

fn wait_keys(cluster: &RolloutCluster<'_>, want: &str) {
    cluster.wait(POOL, |pool| {
        let nodes = cluster.lab.machines().iter();
        condition(pool, "Updated") == "True"
            && nodes.into_iter().all(|machine| {
                let node = cluster.node().get(&format!("node/{}", machine.name()));
                mark(&node, STATE) == "Done" && keys(machine) == want
            })
    });
}

fn machine_config(keys: &[&str], arguments: &[&str]) -> Value {
    let user = json!({ "name": "core", "sshAuthorizedKeys": keys });
    json!({
        "apiVersion": "machineconfiguration.openshift.io/v1", "kind": "MachineConfig",
        "metadata": { "name": "51-part", "labels": { "machineconfiguration.openshift.io/role": "worker" } },
        "spec": {
            "kernelArguments": arguments,
            "config": { "ignition": { "version": "3.5.0" }, "passwd": { "users": [user] } },
        },
    })
}
