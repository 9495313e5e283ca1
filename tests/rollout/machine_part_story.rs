//! Keys and kernel arguments of a config on the machines of a pool, and files that machines had before
//! mosb. rpm-ostree may be a stand-in on machines of the lab; boot entries, files and reboots are real.

use serde_json::{Value, json};

use mosb_tests::Machine;

use crate::node_story::{boot_arguments, keys};
use crate::rollout_cluster::{CONFIG, POOL, RolloutCluster, STATE, condition, mark, step};
use crate::test_lab::own_lab;

/// A file of the pool's config.
const FILE: &str = "/etc/story";

#[test]
fn keys_come_live_and_arguments_by_reboot() {
    let lab = own_lab();
    // As by an installation.
    for machine in lab.machines() {
        machine.run("useradd --create-home --home-dir /var/home/core --password '*' core").ok();
    }
    let [installed, edited, _] = lab.machines() else { panic!("three machines") };
    install_before_mosb(installed, "old");
    install_before_mosb(edited, "mine");
    let cluster = RolloutCluster::start(&lab);
    let first = step("the first image", || cluster.image());
    let pin = cluster.pin();
    cluster.mosb("nodes adopt worker").ok();
    cluster.annotate(CONFIG, "mosb.dev/rollout=automatic");
    step("rolled out", || cluster.wait_updated(&first));
    cluster.seen();
    let found =
        lab.machines().iter().map(|machine| machine.run(&format!("cat {FILE}")).ok().text());
    assert_eq!(found.collect::<Vec<_>>(), ["first", "mine", "first"], "an edited file stays");
    let drift: Value = cluster.mosb("nodes drift worker -o json").ok().json();
    for node in drift["nodes"].as_array().unwrap() {
        let is_hidden = node["etc"]["hidden"].to_string().contains(FILE);
        assert_eq!(is_hidden, node["node"] == edited.name(), "{drift:#}");
    }

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

/// As if Ignition had written another content of [`FILE`] long ago, with the record of the daemon that
/// the cluster had then; the content now.
fn install_before_mosb(machine: &Machine, now: &str) {
    let file = json!({ "path": FILE, "mode": 420, "contents": { "source": "data:,old" } });
    let record = json!({
        "apiVersion": "machineconfiguration.openshift.io/v1", "kind": "MachineConfig",
        "metadata": { "name": "rendered-worker-00000000000000000000000000000000" },
        "spec": { "config": { "ignition": { "version": "3.4.0" }, "storage": { "files": [file] } } },
    });
    let write = format!("printf %s {now} > {FILE}; mkdir -p ${{0%/*}}; cat > $0");
    let path = "/etc/machine-config-daemon/currentconfig";
    machine.enter(&["sh", "-euc", &write, path], record.to_string().as_bytes()).ok();
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
