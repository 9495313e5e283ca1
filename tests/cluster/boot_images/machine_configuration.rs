//! What an administrator of OpenShift chooses in MachineConfiguration `cluster`, with the rules of
//! its CRD, and the Machine Config Operator, which mosb yields to.

use mosb_tests::boot_images::{
    BootImageCluster, MACHINE_API_NAMESPACE, ami, aws_control_plane, aws_machine_set,
};
use serde_json::{Value, json};

use super::{
    NONE_SELECTED, condition_of, details, message_of, openshift, reason_in, reason_of,
    set_renderer, version,
};

const CONFIGURATION: &str = "machineconfiguration.operator.openshift.io/cluster";

fn manager(resource: &str, selection: Value) -> Value {
    json!({ "resource": resource, "apiGroup": "machine.openshift.io", "selection": selection })
}

fn choose(cluster: &BootImageCluster, managed: &Value) {
    let spec = json!({ "spec": { "managedBootImages": managed } });
    cluster.patch(MACHINE_API_NAMESPACE, CONFIGURATION, &spec);
}

/// Chooses this for machine sets, and all control-plane machines: their set shows that a choice is
/// in effect.
fn choose_workers(cluster: &BootImageCluster, selection: Value) {
    let control_plane = manager("controlplanemachinesets", json!({ "mode": "All" }));
    let managers = [manager("machinesets", selection), control_plane];
    choose(cluster, &json!({ "machineManagers": managers }));
}

fn partial(selector: Value) -> Value {
    json!({ "mode": "Partial", "partial": { "machineResourceSelector": selector } })
}

/// Waits until a set has the image of this release.
#[track_caller]
fn wait_for(cluster: &BootImageCluster, name: &str, release: u32) {
    cluster.wait(&format!("{name}: release {release}"), || {
        let recorded = details(cluster, MACHINE_API_NAMESPACE, name);
        recorded.last().is_some_and(|last| *last == ami(release)).then_some(())
    });
}

#[track_caller]
fn wait_for_control_plane(cluster: &BootImageCluster, release: u32) {
    wait_for(cluster, "cluster", release);
}

#[test]
#[ignore = "make test-all: unit tests have the decisions"]
fn the_operators_machine_configuration_comes_first() {
    let cluster = openshift(2);
    cluster.settings(&json!({ "stockImages": [ami(1)] }));
    let mut chosen = aws_machine_set("a", &ami(1));
    chosen["metadata"]["labels"] = json!({ "managed": "yes" });
    for set in [&chosen, &aws_machine_set("b", &ami(1)), &aws_control_plane(&ami(1))] {
        cluster.apply(MACHINE_API_NAMESPACE, set);
    }
    let versions = || ["a", "b"].map(|name| version(&cluster, name));
    let before = versions();
    // Absent, and empty: nothing is selected.
    for managed in [Value::Null, json!({ "machineManagers": [] })] {
        choose(&cluster, &managed);
        cluster.kill_controller();
        cluster.start_controller();
        cluster.wait_for_log(NONE_SELECTED);
        let plan = cluster.mosb(&["boot-images", "plan", "-o", "json"]).ok().text();
        assert!(!plan.contains(&ami(2)), "{managed}: {plan}");
    }

    // Had it been changed before, its record would have release 2.
    cluster.set_release(3);
    choose_workers(&cluster, partial(json!({ "matchLabels": { "managed": "yes" } })));
    wait_for(&cluster, "a", 3);
    wait_for_control_plane(&cluster, 3);
    assert_eq!(details(&cluster, MACHINE_API_NAMESPACE, "a"), [ami(1), ami(3)]);
    assert_eq!(version(&cluster, "b"), before[1], "b is not selected");

    // An empty selector selects all.
    choose_workers(&cluster, partial(json!({})));
    wait_for(&cluster, "b", 3);

    // An invalid selector that the CRD accepts: an error, and no set is changed.
    let before = versions();
    choose_workers(
        &cluster,
        partial(json!({ "matchExpressions": [{ "key": "a", "operator": "Foo" }] })),
    );
    let error =
        cluster.wait("the selector", || message_of(&cluster, "BootImageUpdateDegraded", "True"));
    assert!(error.contains("MachineConfiguration cluster") && error.contains("Foo"), "{error}");
    cluster.set_release(4);
    wait_for_control_plane(&cluster, 4);
    assert_eq!(versions(), before);
    choose_workers(&cluster, json!({ "mode": "None" }));
    cluster.wait("no error", || message_of(&cluster, "BootImageUpdateDegraded", "False"));
    cluster.set_release(5);
    wait_for_control_plane(&cluster, 5);
    assert_eq!(versions(), before);

    // What the CRD rejects.
    let selection = partial(json!({}));
    let managers = json!([manager("controlplanemachinesets", selection)]);
    let spec = json!({ "spec": { "managedBootImages": { "machineManagers": managers } } });
    let words = ["patch", CONFIGURATION, "--type=merge", "--patch", &spec.to_string()];
    assert_ne!(cluster.node.kubectl(&words).code(), Some(0), "Partial for the control plane");

    yields_to_the_operator(&cluster);
}

/// A machine-config-controller runs and manages machine sets, but no control-plane machines.
fn yields_to_the_operator(cluster: &BootImageCluster) {
    set_renderer(cluster, 1);
    let ours = || cluster.node.api().find(None, "bootimagestatus", "cluster");
    // From now on, the operator writes the other status.
    cluster
        .wait("a status of ours", || condition_of(&ours()?, "BootImageUpdateProgressing", "False"));
    let managers = json!([manager("machinesets", json!({ "mode": "All" }))]);
    let patch = json!({ "status": { "managedBootImagesStatus": { "machineManagers": managers } } });
    let patch = patch.to_string();
    let words = ["patch", CONFIGURATION, "--subresource=status", "--type=merge", "--patch", &patch];
    cluster.node.kubectl(&words).ok();
    choose_workers(cluster, json!({ "mode": "All" }));
    let object = cluster.status().unwrap();
    let before = ["a", "b"].map(|name| version(cluster, name));
    cluster.set_release(6);
    wait_for_control_plane(cluster, 6);
    for name in ["a", "b"] {
        let reason = cluster.wait(name, || reason_in(&ours()?, name));
        assert!(reason.contains("machine-config-controller manages the boot images"), "{reason}");
    }
    assert_eq!(["a", "b"].map(|name| version(cluster, name)), before);
    assert_eq!(cluster.status().unwrap(), object, "the operator's object is not written");

    set_renderer(cluster, 0);
    for name in ["a", "b"] {
        wait_for(cluster, name, 6);
    }
    cluster.wait("no reason", || reason_of(cluster, "a").is_none().then_some(()));
}
