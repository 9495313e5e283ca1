//! Machine sets of OpenShift's Machine API.

use mosb_tests::boot_images::{BootImageCluster, MACHINE_API_NAMESPACE, ami, aws_machine_set};
use serde_json::{Value, json};

use super::{all_machine_sets, count_of, details, image_of_aws, is_skipped, openshift, why_of};

/// An AMI that no stream has.
const CUSTOM: &str = "ami-00000000000000bad";

#[test]
fn sets_follow_the_release_and_an_administrators_images_stay() {
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
        cluster.wait(name, || (image_of_aws(&cluster, name) == ami(3)).then_some(()));
    }
    cluster.wait("the history of old", || {
        (details(&cluster, MACHINE_API_NAMESPACE, "old").len() == 2).then_some(())
    });
    assert_eq!(details(&cluster, MACHINE_API_NAMESPACE, "old"), [ami(1), ami(3)]);
    let mut want = old["spec"].clone();
    want["template"]["spec"]["providerSpec"]["value"]["ami"] = json!({ "id": ami(3) });
    let now = cluster.get(MACHINE_API_NAMESPACE, "machineset.machine.openshift.io/old");
    assert_eq!(now["spec"], want, "nothing but the image differs");
    for (name, before) in &untouched {
        assert_eq!(version(&cluster, name), *before, "{name} is not written");
    }
    cluster.wait("skipped sets", || {
        is_skipped(&cluster, &["custom", "owned", "windows"]).then_some(())
    });
    let why =
        cluster.wait("the broken set", || why_of(&cluster, "BootImageUpdateDegraded", "True"));
    assert!(why.contains("broken"), "{why}");

    // The next release.
    cluster.set_release(4);
    for name in ["old", "older", "current"] {
        cluster.wait(name, || (image_of_aws(&cluster, name) == ami(4)).then_some(()));
    }
    cluster.wait("the history of old", || {
        (details(&cluster, MACHINE_API_NAMESPACE, "old").len() == 3).then_some(())
    });

    // Opting out leaves everything as it is.
    cluster.settings(&json!({}));
    cluster.set_release(5);
    cluster.wait("nothing to be enrolled", || (count_of(&cluster) == 0).then_some(()));
    assert_eq!(image_of_aws(&cluster, "old"), ami(4));
    assert_eq!(details(&cluster, MACHINE_API_NAMESPACE, "old"), [ami(1), ami(3), ami(4)]);
}

#[test]
fn a_rival_that_puts_its_image_back_ends_the_attempts() {
    let cluster = openshift(2);
    cluster.settings(&all_machine_sets(&[ami(1)]));
    cluster.apply(MACHINE_API_NAMESPACE, &aws_machine_set("fought", &ami(1)));
    cluster.start_controller();
    // A GitOps tool: whenever the image is another one, its own is put back.
    let reverts = std::cell::Cell::new(0);
    let message = cluster.wait("the end of the attempts", || {
        if image_of_aws(&cluster, "fought") == ami(2) && reverts.get() < 10 {
            reverts.set(reverts.get() + 1);
            let back = json!({ "spec": { "template": { "spec": { "providerSpec": { "value": { "ami": { "id": ami(1) } } } } } } });
            cluster.patch(MACHINE_API_NAMESPACE, "machineset.machine.openshift.io/fought", &back);
        }
        why_of(&cluster, "BootImageUpdateDegraded", "True")
    });
    assert_eq!(reverts.get(), 3, "{message}");
    assert!(message.contains("providerSpec.value.ami"), "{message}");
    assert_eq!(image_of_aws(&cluster, "fought"), ami(1));
    // A restart does not forget it.
    cluster.kill_controller();
    cluster.start_controller();
    let same = cluster
        .wait("the same after a restart", || why_of(&cluster, "BootImageUpdateDegraded", "True"));
    assert_eq!(same, message);
    assert_eq!(image_of_aws(&cluster, "fought"), ami(1));
}

#[test]
fn a_kill_after_each_write_ends_the_same() {
    let cluster = openshift(2);
    let sets = ["a", "b", "c"];
    for name in sets {
        cluster.apply(MACHINE_API_NAMESPACE, &aws_machine_set(name, &ami(1)));
    }
    cluster.start_controller();
    let is_over = || {
        sets.iter().all(|name| {
            image_of_aws(&cluster, name) == ami(2)
                && details(&cluster, MACHINE_API_NAMESPACE, name).len() == 2
        }) && why_of(&cluster, "BootImageUpdateProgressing", "False").is_some()
    };
    let kills =
        cluster.kill_after_each_write(|| cluster.settings(&all_machine_sets(&[ami(1)])), is_over);
    // For each set a history, its first entry, the image, and its second entry.
    assert!(kills >= 4 * sets.len(), "{kills}");
    for name in sets {
        assert_eq!(details(&cluster, MACHINE_API_NAMESPACE, name), [ami(1), ami(2)]);
    }
}

fn version(cluster: &BootImageCluster, name: &str) -> Value {
    let set =
        cluster.get(MACHINE_API_NAMESPACE, &format!("machineset.machine.openshift.io/{name}"));
    set["metadata"]["resourceVersion"].clone()
}
