//! Files of a config that machines of a pool take on without a reboot: the real controller, its Jobs,
//! and `mosb node` on machines of the lab, over the real ostree.

use serde_json::{Value, json};

use crate::rollout_cluster::{CONFIG, POOL, RolloutCluster, STATE, condition, mark, step};
use crate::test_lab::own_lab;

const FILE: &str = "/etc/containers/certs.d/story.example.com/ca.crt";
const CURRENT_CONFIG: &str = "machineconfiguration.openshift.io/currentConfig";

#[test]
fn files_reach_machines_without_a_reboot() {
    let lab = own_lab();
    let cluster = RolloutCluster::start(&lab);
    let first = step("the first image", || cluster.image());
    let pin = cluster.pin();
    cluster.annotate(CONFIG, "mosb.dev/live-apply=true");
    cluster.annotate(CONFIG, "mosb.dev/rollout=automatic");
    step("rolled out", || cluster.wait_updated(&first));
    cluster.seen();

    let mut image = first.clone();
    for content in ["one", "two"] {
        cluster.node().apply(&machine_config(content).to_string());
        let before = std::mem::take(&mut image);
        cluster.wait(CONFIG, |_| cluster.image() != before);
        image = cluster.image();
        step("the files are on all machines", || wait_files(&cluster, content));
        for machine in lab.machines() {
            assert_eq!(machine.booted_digest(), first, "{}", machine.name());
            assert_eq!(machine.staged_digest().as_ref(), Some(&image), "{}", machine.name());
        }
        let nodes = cluster.mosb("nodes worker").ok().text();
        assert_eq!(nodes.matches("Done,Live").count(), lab.machines().len(), "{nodes}");
    }
    cluster.annotate(CONFIG, &format!("mosb.dev/rollout-build={pin}"));
    step("back to the first build", || wait_files(&cluster, ""));
    assert!(lab.machines().iter().all(|machine| machine.staged_digest().is_none()));
    step("that is what they booted", || cluster.wait_updated(&first));
    assert_eq!(cluster.seen(), (vec![0, 0, 0], 0), "no reboot, and no machine was unavailable");
}

/// Waits until all machines have this content, or no file, and the pool and its nodes report it.
fn wait_files(cluster: &RolloutCluster<'_>, content: &str) {
    let show = format!("cat {FILE} 2>/dev/null || true");
    cluster.wait(POOL, |pool| {
        let rendered = &pool["spec"]["configuration"]["name"];
        condition(pool, "Updated") == "True"
            && cluster.lab.machines().iter().all(|machine| {
                let node = cluster.node().get(&format!("node/{}", machine.name()));
                let is_current = content.is_empty() || *rendered == mark(&node, CURRENT_CONFIG);
                is_current
                    && mark(&node, STATE) == "Done"
                    && machine.run(&show).ok().text() == content
            })
    });
}

fn machine_config(content: &str) -> Value {
    let source = format!("data:,{content}");
    let file = json!({ "path": FILE, "mode": 420, "contents": { "source": source } });
    json!({
        "apiVersion": "machineconfiguration.openshift.io/v1", "kind": "MachineConfig",
        "metadata": { "name": "52-live", "labels": { "machineconfiguration.openshift.io/role": "worker" } },
        "spec": { "config": { "ignition": { "version": "3.5.0" }, "storage": { "files": [file] } } },
    })
}
