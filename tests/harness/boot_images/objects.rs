//! Machine sets, templates, the golden ConfigMap and what else decides about boot images.

use serde_json::{Value, json};

use super::kinds::{CLUSTER_API, ClusterApi, INFRASTRUCTURE, MACHINE_API, template_version};

/// Where machine sets of OpenShift's Machine API are.
pub const MACHINE_API_NAMESPACE: &str = "openshift-machine-api";
/// The region of the machine sets on AWS.
pub const REGION: &str = "eu-west-1";

/// The resources of the sets of Cluster API.
pub const CLUSTER_API_SETS: [&str; 2] =
    ["machinesets.cluster.x-k8s.io", "machinedeployments.cluster.x-k8s.io"];
/// Annotation of a MachineDeployment: a new image may replace its machines.
pub const ROLL: &str = "mosb.dev/boot-image-roll";

/// Settings that select all sets of these resources, as `machinesets.machine.openshift.io`; these
/// images are known to be stock.
pub fn select_all(resources: &[&str], stock: &[String]) -> Value {
    let manager = |resource: &&str| {
        let (resource, group) = resource.split_once('.').unwrap();
        json!({ "resource": resource, "apiGroup": group, "selection": { "mode": "All" } })
    };
    let managers: Vec<_> = resources.iter().map(manager).collect();
    json!({ "machineManagers": managers, "stockImages": stock })
}

/// The AMI of a release of the tests.
pub fn ami(release: u32) -> String {
    format!("ami-{release:017x}")
}

/// The image of a release on GCP.
pub fn gcp_image(release: u32) -> String {
    format!("projects/fedora-coreos-cloud/global/images/{}", gcp_name(release))
}

fn gcp_name(release: u32) -> String {
    format!("fedora-coreos-{release}-gcp-x86-64")
}

/// The version of a release: a month later for each number.
pub fn release(number: u32) -> String {
    format!("42.2026{:02}01.3.0", number)
}

/// The release of the image for vSphere, which is uploaded under a name: an older one.
pub fn vmware_release(number: u32) -> String {
    format!("42.2025{number:02}01.3.0")
}

/// Where a release's disk for bare metal is.
pub fn metal_disk(number: u32) -> String {
    format!("https://builds.example.com/{}.raw.xz", release(number))
}

/// The image of a release for KubeVirt.
pub fn kubevirt_image(number: u32) -> String {
    format!("quay.io/fedora/fedora-coreos-kubevirt@sha256:{number:064x}")
}

/// A stream as Fedora CoreOS publishes it, at this release.
pub fn stream(number: u32) -> Value {
    let release = release(number);
    json!({ "stream": "stable", "metadata": { "last-modified": "2026-01-01T00:00:00Z" },
        "architectures": { "x86_64": {
            "artifacts": {
                "azure": { "release": release },
                "metal": { "release": release, "formats": { "raw.xz": { "disk": {
                    "location": metal_disk(number), "sha256": "a".repeat(64) } } } },
                "openstack": { "release": release, "formats": { "qcow2.gz": { "disk": {
                    "location": format!("https://builds.example.com/{release}.qcow2.gz"), "sha256": "b".repeat(64) } } } },
                "vmware": { "release": vmware_release(number) } },
            "images": {
                "aws": { "regions": { REGION: { "release": release, "image": ami(number) } } },
                "gcp": { "release": release, "project": "fedora-coreos-cloud", "name": gcp_name(number) },
                "kubevirt": { "release": release, "image": "quay.io/fedora/fedora-coreos-kubevirt:stable",
                    "digest-ref": kubevirt_image(number) } } } } })
}

/// The ConfigMap with the images of a release; `version` is that of the whole release.
pub fn golden(number: u32, version: &str) -> Value {
    json!({ "apiVersion": "v1", "kind": "ConfigMap", "metadata": { "name": "coreos-bootimages" },
        "data": { "stream": stream(number).to_string(), "releaseVersion": version } })
}

/// A machine set of the Machine API on AWS.
pub fn aws_machine_set(name: &str, ami: &str) -> Value {
    machine_set(
        name,
        &json!({ "apiVersion": "machine.openshift.io/v1beta1", "kind": "AWSMachineProviderConfig",
        "ami": { "id": ami }, "instanceType": "m6i.xlarge", "placement": { "region": REGION },
        "userDataSecret": { "name": "worker-user-data" }, "unknownToMosb": { "keep": [1, { "a": null }] } }),
    )
}

/// The set of control-plane machines of a cluster on AWS.
pub fn aws_control_plane(ami: &str) -> Value {
    let of_workers = aws_machine_set("cluster", ami);
    let template = json!({ "machineType": "machines_v1beta1_machine_openshift_io",
        "machines_v1beta1_machine_openshift_io": of_workers["spec"]["template"] });
    json!({ "apiVersion": format!("{MACHINE_API}/v1"), "kind": "ControlPlaneMachineSet",
        "metadata": { "name": "cluster" }, "spec": { "replicas": 3, "state": "Active", "template": template } })
}

fn machine_set(name: &str, provider_spec: &Value) -> Value {
    let labels = json!({ "machine.openshift.io/cluster-api-machineset": name });
    json!({ "apiVersion": format!("{MACHINE_API}/v1beta1"), "kind": "MachineSet",
        "metadata": { "name": name, "namespace": MACHINE_API_NAMESPACE },
        "spec": { "replicas": 1, "selector": { "matchLabels": labels }, "template": { "metadata": { "labels": labels },
            "spec": { "providerSpec": { "value": provider_spec } } } } })
}

/// A Cluster of Cluster API that is available.
pub fn cluster(api: ClusterApi, name: &str) -> Value {
    json!({ "apiVersion": format!("{CLUSTER_API}/{}", api.version()), "kind": "Cluster",
        "metadata": { "name": name }, "spec": {},
        "status": { "conditions": [condition("Available", "True")] } })
}

/// A condition of any status.
pub fn condition(kind: &str, status: &str) -> Value {
    json!({ "type": kind, "status": status, "reason": "Because", "message": "",
        "lastTransitionTime": "2026-01-02T03:04:05Z" })
}

/// A template of GCP machines.
pub fn gcp_template(name: &str, image: &str) -> Value {
    machine_template("GCP", name, &json!({ "image": image, "instanceType": "n2-standard-4" }))
}

/// A template of machines of this provider.
pub fn machine_template(provider: &str, name: &str, spec: &Value) -> Value {
    let version = template_version(provider);
    json!({ "apiVersion": format!("{INFRASTRUCTURE}/{version}"), "kind": format!("{provider}MachineTemplate"),
        "metadata": { "name": name }, "spec": { "template": { "spec": spec } } })
}

/// A MachineDeployment or standalone MachineSet of a Cluster, with machines of a template.
pub fn cluster_api_set(
    api: ClusterApi,
    kind: &str,
    name: &str,
    cluster: &Value,
    template: &Value,
) -> Value {
    let group_version = template["apiVersion"].as_str().unwrap();
    let mut reference = json!({ "kind": template["kind"], "name": template["metadata"]["name"] });
    match api {
        ClusterApi::V1Beta1 => {
            reference["apiVersion"] = json!(group_version);
            reference["namespace"] = cluster["metadata"]["namespace"].clone();
        }
        ClusterApi::V1Beta2 => reference["apiGroup"] = json!(INFRASTRUCTURE),
    }
    let owner = json!({ "apiVersion": cluster["apiVersion"], "kind": "Cluster",
        "name": cluster["metadata"]["name"], "uid": cluster["metadata"]["uid"] });
    json!({ "apiVersion": format!("{CLUSTER_API}/{}", api.version()), "kind": kind,
        "metadata": { "name": name, "ownerReferences": [owner] },
        "spec": { "clusterName": cluster["metadata"]["name"], "replicas": 1, "selector": {},
            "template": { "spec": { "clusterName": cluster["metadata"]["name"],
                "bootstrap": { "dataSecretName": "worker-user-data" }, "infrastructureRef": reference } } } })
}
