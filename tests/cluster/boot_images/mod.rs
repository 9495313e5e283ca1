//! Boot images of machine sets on a real API server: the controller with the rights of
//! `deploy/boot-images`. See [`mosb_tests::boot_images`] for the kinds of clouds, of OpenShift and of
//! Cluster API, and for what does not run.

mod cluster_api;
mod expiring;
mod faults;
mod machine_api;
mod machine_configuration;
mod many_sets;
mod pool_os;
mod rights;
mod rival;
mod skew;
mod stubs;

use mosb_tests::boot_images::{
    BootImageCluster, CLUSTER_API_SETS, ClusterApi, MACHINE_API_NAMESPACE, TENANT, select_all,
};
use serde_json::{Value, json};

/// The Secret that the sets of the tests name.
const STUB: &str = "worker-user-data";

/// A cluster of OpenShift on AWS that runs this release, with a stub that every image reads.
fn openshift(release: u32) -> BootImageCluster {
    let cluster = openshift_without_stub(release);
    cluster.readable_stub(MACHINE_API_NAMESPACE, STUB);
    cluster
}

fn openshift_without_stub(release: u32) -> BootImageCluster {
    let cluster = BootImageCluster::new(ClusterApi::V1Beta2, true, release);
    let infrastructure = json!({ "apiVersion": "config.openshift.io/v1", "kind": "Infrastructure",
        "metadata": { "name": "cluster" }, "spec": {},
        "status": { "platformStatus": { "type": "AWS" }, "infrastructureName": "a" } });
    let version = json!({ "apiVersion": "config.openshift.io/v1", "kind": "ClusterVersion",
        "metadata": { "name": "version" }, "spec": {},
        "status": { "history": [{ "state": "Completed", "version": "4.20.9" }], "desired": { "version": "4.20.9" } } });
    let configuration = json!({ "apiVersion": "operator.openshift.io/v1", "kind": "MachineConfiguration",
        "metadata": { "name": "cluster" }, "spec": {} });
    for object in [infrastructure, version, configuration] {
        cluster.apply_with_status(None, &object);
    }
    cluster
}

/// A cluster without OpenShift, with a stub that every image reads.
fn plain(version: ClusterApi, release: u32) -> BootImageCluster {
    let cluster = BootImageCluster::new(version, false, release);
    cluster.readable_stub(TENANT, STUB);
    cluster
}

/// What the controller logs if it has no set to keep current.
const NONE_SELECTED: &str = "no machine sets are selected";

const MACHINE_SETS: &str = "machinesets.machine.openshift.io";
const CONTROL_PLANE: &str = "controlplanemachinesets.machine.openshift.io";

/// Settings that select all machine sets of the Machine API; these images are known to be stock.
fn all_machine_sets(stock: &[String]) -> Value {
    select_all(&[MACHINE_SETS], stock)
}

/// Settings that select all sets, of the Machine API and of Cluster API.
fn all_of_both(stock: &[String]) -> Value {
    select_all(&[&[MACHINE_SETS, CONTROL_PLANE], &CLUSTER_API_SETS[..]].concat(), stock)
}

/// A stand-in for the machine-config-controller: a Deployment without a pod. mosb reads only the
/// number of its replicas.
fn set_renderer(cluster: &BootImageCluster, replicas: u32) {
    const NAMESPACE: &str = "openshift-machine-config-operator";
    cluster.node.make_namespace(NAMESPACE);
    let labels = json!({ "app": "a" });
    let template = json!({ "metadata": { "labels": labels },
        "spec": { "containers": [{ "name": "a", "image": "a" }] } });
    let deployment = json!({ "apiVersion": "apps/v1", "kind": "Deployment",
        "metadata": { "name": "machine-config-controller" },
        "spec": { "replicas": replicas, "selector": { "matchLabels": labels }, "template": template } });
    cluster.apply(NAMESPACE, &deployment);
}

fn image_of_aws(cluster: &BootImageCluster, name: &str) -> String {
    let set =
        cluster.get(MACHINE_API_NAMESPACE, &format!("machineset.machine.openshift.io/{name}"));
    let value = &set["spec"]["template"]["spec"]["providerSpec"]["value"];
    value["ami"]["id"].as_str().unwrap_or_default().to_owned()
}

/// The images that a set's history names, the oldest first.
fn details(cluster: &BootImageCluster, namespace: &str, name: &str) -> Vec<String> {
    entries(cluster, namespace, name).into_iter().map(|(image, _)| image).collect()
}

/// The same, with how often each was written.
fn entries(cluster: &BootImageCluster, namespace: &str, name: &str) -> Vec<(String, i64)> {
    let histories = cluster.node.api().list(Some(namespace), "bootimagehistories", "");
    let of_set = |history: &&Value| history["status"]["machineResourceReference"]["name"] == name;
    let history = histories.iter().find(of_set);
    let details = history.and_then(|history| history["status"]["details"].as_array());
    let entry = |detail: &Value| {
        let image = detail["bootImageRef"].as_str().unwrap();
        (image.to_owned(), detail["count"].as_i64().unwrap_or_default())
    };
    details.into_iter().flatten().map(entry).collect()
}

/// Waits until a set of the Machine API has this image and a record of it.
#[track_caller]
fn wait_for_ami(cluster: &BootImageCluster, name: &str, image: &str) {
    cluster.wait(&format!("{name}: {image}"), || {
        let recorded = details(cluster, MACHINE_API_NAMESPACE, name);
        let is_so = image_of_aws(cluster, name) == image
            && recorded.last().is_some_and(|last| last == image);
        is_so.then_some(())
    });
}

/// The message of a condition that has this status.
fn message_of(cluster: &BootImageCluster, kind: &str, value: &str) -> Option<String> {
    condition_of(&cluster.status()?, kind, value)
}

fn condition_of(object: &Value, kind: &str, value: &str) -> Option<String> {
    let conditions = object["status"]["conditions"].as_array()?;
    let one = conditions.iter().find(|one| one["type"] == kind && one["status"] == value)?;
    Some(one["message"].as_str().unwrap().to_owned())
}

/// Why a set does not have its image, as the conditions report it.
fn reason_of(cluster: &BootImageCluster, name: &str) -> Option<String> {
    reason_in(&cluster.status()?, name)
}

fn reason_in(object: &Value, name: &str) -> Option<String> {
    let conditions = object["status"]["conditions"].as_array()?;
    let mut messages = conditions.iter().filter_map(|one| one["message"].as_str());
    // Those of Cluster API are named with their namespace.
    let starts = [format!(" {name}: "), format!("/{name}: ")];
    let (_, rest) =
        messages.find_map(|text| starts.iter().find_map(|start| text.split_once(start)))?;
    let ends = [" | ", ", CAPI ", ", MAPI ", ", error syncing "];
    let end = ends.iter().filter_map(|end| rest.find(end)).min();
    Some(rest[..end.unwrap_or(rest.len())].to_owned())
}

/// How many sets of the Machine API the status counts.
fn count_of(cluster: &BootImageCluster) -> usize {
    let message = message_of(cluster, "BootImageUpdateProgressing", "False").unwrap_or_default();
    let all = message.split(" MAPI MachineSets").next().and_then(|text| text.rsplit(' ').next());
    all.and_then(|all| all.parse().ok()).unwrap_or(usize::MAX)
}

/// The version of a set of the Machine API, which every write changes.
fn version(cluster: &BootImageCluster, name: &str) -> Value {
    let set =
        cluster.get(MACHINE_API_NAMESPACE, &format!("machineset.machine.openshift.io/{name}"));
    set["metadata"]["resourceVersion"].clone()
}
