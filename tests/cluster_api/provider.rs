//! A stand-in for the providers of infrastructure and of control planes: it writes what the contract
//! of Cluster API asks of them, and runs nothing.

use mosb_tests::Node;
use mosb_tests::boot_images::{TENANT, condition};
use serde_json::{Value, json};

const GCP: &str = "infrastructure.cluster.x-k8s.io/v1beta1";
const CONTROL_PLANE: &str = "controlplane.cluster.x-k8s.io/v1beta1";

/// The infrastructure and the control plane of a Cluster, both ready. The control plane runs
/// elsewhere, so the Cluster has no machines of it.
pub fn cluster_parts(name: &str) -> [Value; 2] {
    [
        json!({ "apiVersion": GCP, "kind": "GCPCluster", "metadata": { "name": name }, "spec": {},
            "status": { "initialization": { "provisioned": true } } }),
        json!({ "apiVersion": CONTROL_PLANE, "kind": "HostedControlPlane", "metadata": { "name": name },
            "spec": {}, "status": { "initialization": { "controlPlaneInitialized": true },
                "externalManagedControlPlane": true, "conditions": [condition("Available", "True")] } }),
    ]
}

/// A machine of the control plane, as an administrator makes one by hand.
pub fn control_plane_machine(cluster: &str, stub: &str) -> [Value; 2] {
    let name = format!("{cluster}-control-plane");
    let (group, _) = GCP.split_once('/').unwrap();
    [
        json!({ "apiVersion": GCP, "kind": "GCPMachine", "metadata": { "name": name }, "spec": {} }),
        json!({ "apiVersion": "cluster.x-k8s.io/v1beta2", "kind": "Machine",
            "metadata": { "name": name, "labels": { "cluster.x-k8s.io/control-plane": "" } },
            "spec": { "clusterName": cluster, "bootstrap": { "dataSecretName": stub },
                "infrastructureRef": { "apiGroup": group, "kind": "GCPMachine", "name": name } } }),
    ]
}

/// Reports each new infrastructure machine as provisioned, and adds a Node for it that is ready.
pub fn provision(node: &Node) {
    for machine in node.list("gcpmachines") {
        let has_owner = machine["metadata"]["ownerReferences"].is_array();
        if has_owner && machine["status"]["initialization"]["provisioned"] != true {
            provision_machine(node, &machine);
        }
    }
}

fn provision_machine(node: &Node, machine: &Value) {
    let name = machine["metadata"]["name"].as_str().unwrap();
    let id = format!("gce://project/zone/{name}");
    let conditions = [
        condition("Ready", "True"),
        condition("MemoryPressure", "False"),
        condition("DiskPressure", "False"),
        condition("PIDPressure", "False"),
    ];
    let joined = json!({ "apiVersion": "v1", "kind": "Node", "metadata": { "name": name },
        "spec": { "providerID": id }, "status": { "conditions": conditions } });
    node.apply(&joined.to_string());
    let path = format!("/apis/{GCP}/namespaces/{TENANT}/gcpmachines/{name}");
    let spec = json!({ "spec": { "providerID": id } });
    let status = json!({ "status": { "initialization": { "provisioned": true } } });
    for (path, change) in [(&path, spec), (&format!("{path}/status"), status)] {
        let (code, answer) = node.api().ask("PATCH", path, Some(&change));
        // It may have been deleted meanwhile.
        assert!(matches!(code, 200 | 404), "{path}: {code} {answer:#}");
    }
}
