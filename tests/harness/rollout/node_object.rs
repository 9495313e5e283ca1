//! The Node objects of machines, and what their kubelets report in them.

use jiff::Timestamp;
use serde_json::{Value, json};

use crate::node::Api;

/// Set together with a cordon by an administrator, so that an observer knows whose it is.
pub const CORDONED_BY_ADMINISTRATOR: &str = "example.com/cordoned-by-administrator";
/// The boot that somebody else than mosb ends.
pub const REBOOTED_BY_OTHERS: &str = "example.com/rebooted-by-others";
const LEASES: &str = "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases";

/// A machine to add.
#[derive(Debug, Clone)]
pub struct NewMachine {
    pub name: String,
    /// The roles in its labels, such as `worker`.
    pub roles: Vec<String>,
    pub architecture: &'static str,
    /// The digest of what it runs.
    pub booted: String,
}

impl NewMachine {
    /// A machine of one role that runs the image of this digest.
    pub fn new(name: &str, role: &str, booted: &str) -> Self {
        Self {
            name: name.to_owned(),
            roles: vec![role.to_owned()],
            architecture: "amd64",
            booted: booted.to_owned(),
        }
    }
}

/// Creates the Node and its Lease, as a kubelet that registers.
pub fn register(api: &Api, machine: &NewMachine) {
    let name = &machine.name;
    let mut labels = json!({ "kubernetes.io/os": "linux",
        "kubernetes.io/arch": machine.architecture, "kubernetes.io/hostname": name });
    for role in &machine.roles {
        labels[format!("node-role.kubernetes.io/{role}")] = json!("");
    }
    // Builds run on the real node.
    let taint = json!({ "key": "example.com/simulated", "effect": "NoSchedule" });
    let node = json!({ "apiVersion": "v1", "kind": "Node",
        "metadata": { "name": name, "labels": labels }, "spec": { "taints": [taint] } });
    let (code, answer) = api.ask("POST", "/api/v1/nodes", Some(&node));
    assert_eq!(code, 201, "{answer:#}");
    let lease = json!({ "apiVersion": "coordination.k8s.io/v1", "kind": "Lease",
        "metadata": { "name": name, "namespace": "kube-node-lease" },
        "spec": { "holderIdentity": name, "leaseDurationSeconds": 40, "renewTime": now() } });
    let (code, answer) = api.ask("POST", LEASES, Some(&lease));
    // A machine that comes again has one already.
    assert!(matches!(code, 201 | 409), "{answer:#}");
}

pub fn renew_lease(api: &Api, name: &str) {
    let renewed = json!({ "spec": { "renewTime": now() } });
    // It goes with its node, which may be deleted.
    api.ask("PATCH", &format!("{LEASES}/{name}"), Some(&renewed));
}

fn now() -> String {
    Timestamp::now().strftime("%Y-%m-%dT%H:%M:%S.%6fZ").to_string()
}

pub fn seconds() -> String {
    Timestamp::now().strftime("%Y-%m-%dT%H:%M:%SZ").to_string()
}

pub fn boot_id(name: &str, boots: u32) -> String {
    format!("{name}-boot-{boots}")
}

/// The status that a kubelet reports. A Node that was deleted meanwhile gets none.
pub fn report_status(api: &Api, name: &str, boots: u32, architecture: &str, ready: bool) {
    let capacity =
        json!({ "cpu": "8", "memory": "32Gi", "ephemeral-storage": "1Ti", "pods": "100" });
    let ready = if ready { "True" } else { "False" };
    let at = seconds();
    let info = json!({ "bootID": boot_id(name, boots), "architecture": architecture,
        "operatingSystem": "linux", "containerRuntimeVersion": "", "kernelVersion": "",
        "kubeProxyVersion": "", "kubeletVersion": "", "machineID": name, "osImage": "",
        "systemUUID": name });
    let status = json!({ "status": { "allocatable": capacity, "capacity": capacity,
        "nodeInfo": info, "conditions": [{ "type": "Ready", "status": ready, "reason": "Test",
            "message": "", "lastHeartbeatTime": at, "lastTransitionTime": at }] } });
    let (code, answer) = api.ask("PATCH", &format!("/api/v1/nodes/{name}/status"), Some(&status));
    assert!(matches!(code, 200 | 404), "{answer:#}");
}

/// Marks the boot of a machine as one that somebody else than mosb ends.
pub fn excuse_reboot(api: &Api, name: &str, boots: u32) {
    annotate(api, name, json!({ REBOOTED_BY_OTHERS: boot_id(name, boots) }));
}

pub fn annotate(api: &Api, name: &str, annotations: Value) {
    let patch = json!({ "metadata": { "annotations": annotations } });
    let (code, answer) = api.ask("PATCH", &format!("/api/v1/nodes/{name}"), Some(&patch));
    assert_eq!(code, 200, "{answer:#}");
}
