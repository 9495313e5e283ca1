//! Boot images of machine sets on a real API server: the controller with the rights of
//! `deploy/boot-images`. See [`mosb_tests::boot_images`] for what stands in for a cloud's kinds.

mod cluster_api;
mod expiring;
mod machine_api;
mod restore;
mod rival;
mod stubs;

use mosb_tests::boot_images::{BootImageCluster, ClusterApi, MACHINE_API_NAMESPACE, TENANT};
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

/// Settings that enrol all machine sets of the Machine API; these images are known to be stock.
fn all_machine_sets(stock: &[String]) -> Value {
    json!({ "machineManagers": [{ "resource": "machinesets", "apiGroup": "machine.openshift.io",
        "selection": { "mode": "All" } }], "stockImages": stock })
}

fn image_of_aws(cluster: &BootImageCluster, name: &str) -> String {
    let set =
        cluster.get(MACHINE_API_NAMESPACE, &format!("machineset.machine.openshift.io/{name}"));
    let value = &set["spec"]["template"]["spec"]["providerSpec"]["value"];
    value["ami"]["id"].as_str().unwrap_or_default().to_owned()
}

/// The images that a set's history names, the oldest first.
fn details(cluster: &BootImageCluster, namespace: &str, name: &str) -> Vec<String> {
    let words = ["get", "bootimagehistories", "--namespace", namespace, "--output=json"];
    let list: Value = serde_json::from_str(&cluster.node.kubectl(&words).ok().text()).unwrap();
    let of_set = |history: &&Value| history["status"]["machineResourceReference"]["name"] == name;
    let history = list["items"].as_array().unwrap().iter().find(of_set);
    let details = history.and_then(|history| history["status"]["details"].as_array());
    let image = |detail: &Value| detail["bootImageRef"].as_str().unwrap().to_owned();
    details.into_iter().flatten().map(image).collect()
}

/// The object with the conditions of this cluster.
fn status(cluster: &BootImageCluster) -> Option<Value> {
    let of_openshift = cluster.node.kubectl(&[
        "get",
        "machineconfiguration.operator.openshift.io/cluster",
        "--output=json",
    ]);
    let text = if of_openshift.code() == Some(0) {
        of_openshift.text()
    } else {
        cluster.node.kubectl(&["get", "bootimagestatus/cluster", "--output=json"]).text()
    };
    serde_json::from_str(&text).ok()
}

/// The message of a condition that has this status.
fn why_of(cluster: &BootImageCluster, kind: &str, value: &str) -> Option<String> {
    let object = status(cluster)?;
    let conditions = object["status"]["conditions"].as_array()?;
    let one = conditions.iter().find(|one| one["type"] == kind && one["status"] == value)?;
    Some(one["message"].as_str().unwrap().to_owned())
}

/// Whether the status names all these sets, with why they are left alone.
fn is_skipped(cluster: &BootImageCluster, names: &[&str]) -> bool {
    let of = |value| why_of(cluster, "BootImageUpdateProgressing", value);
    let message = of("True").or_else(|| of("False")).unwrap_or_default();
    names.iter().all(|name| message.contains(&format!(" {name}: ")))
}

/// How many sets of the Machine API the status counts.
fn count_of(cluster: &BootImageCluster) -> usize {
    let message = why_of(cluster, "BootImageUpdateProgressing", "False").unwrap_or_default();
    let all = message.split(" MAPI MachineSets").next().and_then(|text| text.rsplit(' ').next());
    all.and_then(|all| all.parse().ok()).unwrap_or(usize::MAX)
}
