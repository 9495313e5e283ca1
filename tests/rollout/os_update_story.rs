//! A pool whose base becomes another one, then one that no machine can boot, and back.

use mosb_tests::{Machine, base_image};

use crate::rollout_cluster::{
    CONFIG, POOL, RolloutCluster, STATE, WORKER, condition, condition_message, mark, step,
};
use crate::test_lab::own_lab;

const CURRENT_IMAGE: &str = "machineconfiguration.openshift.io/currentImage";

#[test]
fn a_pool_moves_to_another_base_and_back() {
    let lab = own_lab();
    let cluster = RolloutCluster::start(&lab);
    let [one, two, joins] = lab.machines() else { panic!("three machines") };
    let first = step("the first image", || cluster.image());
    let pin = cluster.pin();
    joins.remove();
    cluster.annotate(CONFIG, "mosb.dev/rollout=automatic");
    step("on the first base", || [one, two].map(|machine| wait_runs(&cluster, machine, &first)));

    let second = lab.second_stock();
    let moved = step("the image on the second base", || cluster.change_base(&second.reference));
    step("on the second base", || [one, two].map(|machine| wait_runs(&cluster, machine, &moved)));
    [one, two].into_iter().for_each(|machine| assert_has(machine, "first", true));

    // It is installed from the first base, as machines are whose boot image is older.
    joins.reinstall();
    cluster.node().kubectl(&["label", "node", joins.name(), &format!("{WORKER}=")]).ok();
    step("a machine joins", || cluster.wait_updated(&moved));
    assert_has(joins, "first", true);
    cluster.seen();

    // It has no kernel and nothing of ostree. The machines stay as they are.
    lab.registry().push(&base_image().reference("base"), "lab/plain:latest");
    let plain = lab.registry().repository("lab/plain:latest");
    step("an image that does not boot", || cluster.change_base(&plain));
    let pool = step("a machine says why", || {
        cluster.wait(POOL, |pool| condition(pool, "NodeDegraded") == "True")
    });
    let message = condition_message(&pool, "NodeDegraded");
    assert!(message.contains("ostree.bootable"), "{message}");
    for machine in lab.machines() {
        let node = cluster.node().get(&format!("node/{}", machine.name()));
        assert!(mark(&node, CURRENT_IMAGE).ends_with(&moved), "{node:#}");
        assert_eq!(machine.booted_digest(), moved);
    }
    let (boots, most) = cluster.seen();
    assert_eq!((boots, most), (vec![0, 0, 0], 0), "no machine reboots for it");

    // Back to the first base, by the build; then to the stock image of the second one.
    let (build, _) = pin.split_once('@').unwrap();
    cluster.mosb(&format!("rollout undo worker --to {build} --yes")).ok();
    step("back on the first base", || cluster.wait_updated(&first));
    lab.machines().iter().for_each(|machine| assert_has(machine, "first", false));
    cluster.change_base(&second.reference);
    cluster.mosb("rollout undo worker --to stock --yes").ok();
    step("the second base itself", || cluster.wait_updated(&second.digest));
    lab.machines().iter().for_each(|machine| assert_has(machine, "", true));
}

fn wait_runs(cluster: &RolloutCluster<'_>, machine: &Machine, digest: &str) {
    cluster.wait(&format!("node/{}", machine.name()), |node| {
        mark(node, CURRENT_IMAGE).ends_with(digest)
            && (mark(node, STATE), mark(node, "mosb.dev/slot")) == ("Done", "")
    });
    assert_eq!(machine.booted_digest(), digest, "{}", machine.name());
}

/// The file of the pool, and what the bases have for themselves.
fn assert_has(machine: &Machine, story: &str, is_second: bool) {
    let line = "cat /etc/story 2>/dev/null || true; echo
        ls -d /usr/share/second-base /usr/bin/factor 2>/dev/null || true";
    let base = if is_second { "/usr/share/second-base" } else { "/usr/bin/factor" };
    let found = machine.run(line).ok().text();
    assert_eq!(found, format!("{story}\n{base}\n"), "{}", machine.name());
}
