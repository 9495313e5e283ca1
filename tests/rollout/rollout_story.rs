//! A pool of three machines, from its first image to the stock image again: staged, drained,
//! rebooted, failed, repaired, pinned and taken back.

use std::time::{Duration, Instant};

use serde_json::{Value, json};

use mosb_tests::{Machine, wait};

use crate::rollout_cluster::{
    CONFIG, POOL, REASON, RolloutCluster, STATE, condition, condition_message, mark, step,
};
use crate::test_lab::{assert_no_login, own_lab};
use crate::{controller_pod, guarded_pod, node_story};

/// A pod of the cluster whose drain a budget holds.
const GUARDED: &str = "machine-1";
const LIMIT: Duration = Duration::from_secs(120);
/// A key of `core`.
const KEY: &str = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIKeyOfTheStory";
/// A Job on a machine is created within a second after the pool may go on.
const QUIET: Duration = Duration::from_secs(8);

#[test]
fn a_pool_is_rolled_out_and_taken_back() {
    let lab = own_lab();
    // They trust the registry only by the settings, which come with each Job.
    lab.machines().iter().for_each(Machine::forget_registry_authority);
    let cluster = RolloutCluster::start(&lab);
    let node = cluster.node();
    let controller = controller_pod::wait_ready(node);
    assert_eq!(controller["spec"]["nodeName"], "control-plane");
    let first = step("the first image", || cluster.image());

    // Staged on all machines; nothing reboots.
    cluster.annotate(CONFIG, "mosb.dev/rollout=stage");
    step("staged on three machines", || {
        for machine in cluster.lab.machines() {
            let is_staged = |node: &Value| mark(node, "mosb.dev/staged").contains(&first);
            cluster.wait(&format!("node/{}", machine.name()), is_staged);
            assert_eq!(machine.staged_digest().as_ref(), Some(&first));
            // `/run` is new after a reboot, so this is the moment to search it.
            assert_no_login(machine);
        }
    });
    assert_eq!(cluster.seen(), (vec![0, 0, 0], 0));

    // The power fails: what is staged is lost, and staged again.
    let cut = cluster.lab.machine(2);
    let before = cut.boot_id().unwrap();
    cut.power_cut();
    cut.wait_reboot(&before);
    step("staged again after a power cut", || {
        let after = cut.boot_id().unwrap();
        cluster.wait("node/machine-2", |node| mark(node, "mosb.dev/staged").contains(&after));
        assert_eq!(cut.staged_digest().as_ref(), Some(&first));
    });

    // A budget holds the drain of one machine; pods with `emptyDir` don't.
    guarded_pod::create(node, GUARDED);
    cluster.wait("pod/guarded", |pod| mosb_tests::condition(pod, "Ready"));
    cluster.seen();
    cluster.annotate(CONFIG, "mosb.dev/rollout=automatic");
    step("until the budget holds a drain", || {
        let held = cluster.wait(&format!("node/{GUARDED}"), |node| {
            mark(node, REASON).contains("budget") && mark(node, REASON).contains("default/guarded")
        });
        assert_eq!(held["spec"]["unschedulable"], true, "{held:#}");
    });
    node.kubectl(&["delete", "poddisruptionbudget/budget", "--namespace=default"]).ok();
    step("rolled out", || cluster.wait_updated(&first));
    assert_eq!(cluster.seen(), (vec![1, 1, 1], 1), "one reboot each, one at a time");
    assert_eq!(node.find("pod/guarded"), None, "it was evicted");
    for machine in cluster.lab.machines() {
        assert_eq!(machine.run("cat /etc/story").ok().text(), "first");
        assert_no_login(machine);
    }
    let pin = cluster.pin();
    wait("the Jobs and their Secrets to be deleted", LIMIT, || {
        cluster.left_over().is_empty().then_some(())
    });

    // Finalizing fails on every machine: the first one that reboots keeps its slot, and no other
    // one is touched.
    cluster.lab.machines().iter().for_each(|machine| machine.fail_finalize(true));
    cluster.change("bad");
    let failed = step("until a machine failed", || {
        let pool = cluster.wait(POOL, |pool| condition(pool, "NodeDegraded") == "True");
        assert_eq!(pool["status"]["degradedMachineCount"], 1, "{pool:#}");
        let nodes = cluster.lab.machines().iter().filter(|machine| {
            mark(&node.get(&format!("node/{}", machine.name())), STATE) == "Degraded"
        });
        nodes.map(|machine| machine.name().to_owned()).collect::<Vec<_>>()
    });
    assert_eq!(failed.len(), 1, "{failed:?}");
    let degraded = node.get(&format!("node/{}", failed[0]));
    assert_eq!(degraded["spec"]["unschedulable"], true, "{degraded:#}");
    println!("{}: {}", failed[0], mark(&degraded, REASON));
    let (boots, most) = cluster.seen();
    assert_eq!((boots.iter().sum::<usize>(), most), (1, 1), "{boots:?}");

    // The corrected image repairs it within its slot, and reaches the others.
    cluster.lab.machines().iter().for_each(|machine| machine.fail_finalize(false));
    let second = step("the corrected image", || cluster.change("second"));
    step("repaired and rolled out", || cluster.wait_updated(&second));
    assert_eq!(cluster.seen(), (vec![1, 1, 1], 1), "one reboot each, one at a time");

    // A key comes to the machines as they are: the image in service stays.
    for machine in cluster.lab.machines() {
        machine.run("useradd --create-home --home-dir /var/home/core core").ok();
    }
    cluster.set_key("second", KEY);
    step("a key", || {
        // No object changes with the last one.
        let have = || keys(&cluster).iter().all(|key| key == &format!("{KEY}\n")).then_some(());
        wait("the key on all machines", LIMIT, have);
        cluster.wait_updated(&second);
    });
    assert_eq!(cluster.seen(), (vec![0, 0, 0], 0), "without a reboot or a cordon");

    // In a paused pool nothing begins; resumed, it goes back to the pinned build.
    wait("the Jobs and their Secrets to be deleted", LIMIT, || {
        cluster.left_over().is_empty().then_some(())
    });
    cluster.mosb("rollout pause worker").ok();
    let (build, _) = pin.split_once('@').unwrap();
    cluster.mosb(&format!("rollout undo worker --to {build} --yes")).ok();
    assert_eq!(mark(&node.get(CONFIG), "mosb.dev/rollout-build"), pin);
    cluster.wait(POOL, |pool| {
        condition(pool, "Updated") == "False"
            && condition_message(pool, "Updating").contains("Pool is paused")
    });
    assert_nothing_begins(&cluster);
    cluster.patch_pool(json!({ "maxUnavailable": 2 }));
    cluster.mosb("rollout resume worker --yes").ok();
    step("back to the pinned build, two at once", || {
        cluster.mosb("rollout status worker --watch --timeout 300s").ok();
        cluster.wait_updated(&first);
    });
    let (boots, most) = cluster.seen();
    assert_eq!(boots, [1, 1, 1], "one reboot each");
    assert!(most <= 2, "{most}");
    assert_eq!(keys(&cluster), ["", "", ""], "its config has none");
    let builds = cluster.mosb("builds worker -o json").ok().json();
    let runs = |row: &&Value| row["runningOn"] == json!(["machine-0", "machine-1", "machine-2"]);
    let found = builds["builds"].as_array().unwrap().iter().find(runs);
    assert_eq!(found.map(|row| &row["build"]), Some(&json!(build)), "{builds:#}");

    // The stock image is a target like any other.
    let stock = cluster.lab.stock().digest;
    cluster.mosb("rollout undo worker --to stock --yes").ok();
    step("back to stock", || cluster.wait_updated(&stock));
    let machine = cluster.lab.machine(0);
    assert_eq!(machine.run("ls /etc/story 2>/dev/null || true").ok().text(), "");
    cluster.seen();

    let after = controller_pod::wait_ready(node);
    assert_eq!(after["metadata"]["uid"], controller["metadata"]["uid"]);
    assert_eq!(controller_pod::restarts(&after), 0, "{}", controller_pod::log(node));
}

/// The keys of `core` on each machine.
fn keys(cluster: &RolloutCluster<'_>) -> Vec<String> {
    cluster.lab.machines().iter().map(node_story::keys).collect()
}

/// A Job is the first step of everything on a machine, and comes long before a reboot.
fn assert_nothing_begins(cluster: &RolloutCluster<'_>) {
    let begun = Instant::now();
    while begun.elapsed() < QUIET {
        assert_eq!(json!(cluster.left_over()), json!([]), "a Job, or the Secret of one");
        for machine in cluster.lab.machines() {
            let node = cluster.node().get(&format!("node/{}", machine.name()));
            assert_eq!((mark(&node, "mosb.dev/slot"), mark(&node, "mosb.dev/staged")), ("", ""));
            assert_ne!(node["spec"]["unschedulable"], true, "{node:#}");
        }
    }
    assert_eq!(cluster.seen(), (vec![0, 0, 0], 0));
}
