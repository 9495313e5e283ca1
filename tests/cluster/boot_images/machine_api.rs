//! Machine sets of OpenShift's Machine API.

use mosb_tests::boot_images::{BootImageCluster, MACHINE_API_NAMESPACE, ami, aws_machine_set};
use serde_json::json;

use super::{
    NONE_SELECTED, all_machine_sets, count_of, details, image_of_aws, message_of, openshift,
    reason_of, version, wait_for_ami,
};

/// An AMI that no stream has.
const CUSTOM: &str = "ami-00000000000000bad";

#[test]
fn sets_follow_the_release_and_own_images_stay() {
    let cluster = openshift(3);
    cluster.settings(&all_machine_sets(&[ami(1), ami(2)]));
    let set = |name: &str, image: &str| aws_machine_set(name, image);
    let mut owned = set("owned", &ami(1));
    owned["metadata"]["ownerReferences"] = json!([{ "apiVersion": "hive.openshift.io/v1", "kind": "MachinePool", "name": "a", "uid": "1" }]);
    let mut windows = set("windows", &ami(1));
    windows["spec"]["template"]["metadata"]["labels"]["machine.openshift.io/os-id"] =
        json!("Windows");
    let broken = json!({ "apiVersion": "machine.openshift.io/v1beta1", "kind": "MachineSet",
        "metadata": { "name": "broken" }, "spec": { "replicas": 1 } });
    let old = set("old", &ami(1));
    for object in [
        &old,
        &set("older", &ami(2)),
        &set("current", &ami(3)),
        &set("custom", CUSTOM),
        &owned,
        &windows,
        &broken,
    ] {
        cluster.apply(MACHINE_API_NAMESPACE, object);
    }
    let untouched = ["current", "custom", "owned", "windows", "broken"]
        .map(|name| (name, version(&cluster, name)));
    cluster.start_controller();

    for name in ["old", "older"] {
        wait_for_ami(&cluster, name, &ami(3));
    }
    assert_eq!(details(&cluster, MACHINE_API_NAMESPACE, "old"), [ami(1), ami(3)]);
    let mut want = old["spec"].clone();
    want["template"]["spec"]["providerSpec"]["value"]["ami"] = json!({ "id": ami(3) });
    let now = cluster.get(MACHINE_API_NAMESPACE, "machineset.machine.openshift.io/old");
    assert_eq!(now["spec"], want, "nothing but the image differs");
    for (name, before) in &untouched {
        assert_eq!(version(&cluster, name), *before, "{name} is not written");
    }
    for (name, part) in [
        ("custom", "nothing proves that"),
        ("owned", "MachinePool a owns it"),
        ("windows", "its machines run Windows"),
        ("broken", "providerSpec"),
    ] {
        let reason = cluster.wait(name, || reason_of(&cluster, name));
        assert!(reason.contains(part), "{name}: {reason}");
    }
    // Only the broken one is an error.
    let why = message_of(&cluster, "BootImageUpdateDegraded", "True").unwrap();
    assert!(why.contains("1 Degraded MAPI MachineSets"), "{why}");

    // The next release.
    cluster.set_release(4);
    for name in ["old", "older", "current"] {
        wait_for_ami(&cluster, name, &ami(4));
    }
    a_restored_set_stays_until_it_is_unpinned(&cluster);

    // Opting out leaves everything as it is.
    cluster.settings(&json!({}));
    cluster.wait("nothing to be selected", || (count_of(&cluster) == 0).then_some(()));
    cluster.kill_controller();
    cluster.set_release(6);
    cluster.start_controller();
    cluster.wait_for_log(NONE_SELECTED);
    assert_eq!(image_of_aws(&cluster, "old"), ami(5));
    let want = [1, 3, 4, 3, 5].map(ami);
    assert_eq!(details(&cluster, MACHINE_API_NAMESPACE, "old"), want);
}

/// Of the set `old`, after releases 1, 3 and 4.
fn a_restored_set_stays_until_it_is_unpinned(cluster: &BootImageCluster) {
    let set = "machineset.machine.openshift.io/old";
    let history = cluster.mosb(&["boot-images", "history", set]).ok().text();
    assert!([1, 3, 4].iter().all(|release| history.contains(&ami(*release))), "{history}");
    cluster.mosb(&["boot-images", "restore", set]).ok();
    wait_for_ami(cluster, "old", &ami(3));
    // A pin keeps the image that a set has.
    let pinned = "machineset.machine.openshift.io/current";
    cluster.mosb(&["boot-images", "pin", pinned]).ok();
    cluster.set_release(5);
    wait_for_ami(cluster, "older", &ami(5));
    let reason = cluster.wait("current to be pinned", || reason_of(cluster, "current"));
    assert!(reason.contains("pinned"), "{reason}");
    assert_eq!(image_of_aws(cluster, "current"), ami(4));
    cluster.mosb(&["boot-images", "unpin", pinned]).ok();
    wait_for_ami(cluster, "current", &ami(5));
    let reason = cluster.wait("old to be pinned", || reason_of(cluster, "old"));
    assert!(reason.contains("pinned"), "{reason}");
    let status = cluster.mosb(&["boot-images", "status"]).ok().text();
    assert!(status.contains("pinned") && status.contains(&ami(3)), "{status}");
    assert_eq!(image_of_aws(cluster, "old"), ami(3), "a newer golden does not end this pin");
    cluster.mosb(&["boot-images", "unpin", set]).ok();
    wait_for_ami(cluster, "old", &ami(5));
}
