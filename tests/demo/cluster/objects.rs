//! The objects that an administrator creates in a cluster with mosb; the demo and a test use them.

use mosb_api::yaml;
use serde_json::{Value, json};

use super::Node;

/// A worker's configuration: one MachineConfig here, rendered by mosb.
const WORKER: &str = include_str!("../../../testdata/demo/worker.yaml");
/// What `deploy/kubernetes` calls the image, and `make image` too.
pub const IMAGE: &str = "mosb.local/mosb:dev";
pub const NAMESPACE: &str = "mosb-system";

/// The objects needed before the opt-in; the base by its digest, as a renderer needs it.
pub fn objects(node: &Node, base: &str) -> Vec<Value> {
    let registry = node.registry();
    let secret = |name: &str| {
        json!({
            "apiVersion": "v1", "kind": "Secret", "type": "kubernetes.io/dockerconfigjson",
            "metadata": {"name": name, "namespace": NAMESPACE},
            "stringData": {".dockerconfigjson": registry.docker_config().to_string()},
        })
    };
    let settings = json!({"imageRegistryBundles": {&registry.host_port: registry.ca_pem}});
    let mut worker = yaml::parse_one(WORKER.as_bytes()).unwrap();
    worker["metadata"] = json!({"name": "00-worker", "labels": role()});
    worker["spec"]["osImageURL"] = base.into();
    vec![
        secret("push"),
        secret("global-pull-secret-copy"),
        json!({
            "apiVersion": "v1", "kind": "ConfigMap",
            "metadata": {"name": "mosb-config", "namespace": NAMESPACE},
            "data": {"config.yaml": settings.to_string()},
        }),
        worker,
        json!({
            "apiVersion": "machineconfiguration.openshift.io/v1", "kind": "MachineConfigPool",
            "metadata": {"name": "worker"},
            "spec": {
                "machineConfigSelector": {"matchLabels": role()},
                "nodeSelector": {"matchLabels": {"node-role.kubernetes.io/worker": ""}},
            },
        }),
    ]
}

fn role() -> Value {
    json!({"machineconfiguration.openshift.io/role": "worker"})
}

/// The opt-in.
pub fn os_config(node: &Node) -> Value {
    json!({
        "apiVersion": "machineconfiguration.openshift.io/v1", "kind": "MachineOSConfig",
        "metadata": {"name": "worker"},
        "spec": {
            "machineConfigPool": {"name": "worker"},
            "imageBuilder": {"imageBuilderType": "Job"},
            "renderedImagePushSecret": {"name": "push"},
            "renderedImagePushSpec": node.registry().repository("acme/worker-os:latest"),
        },
    })
}

/// What changes later.
pub fn change() -> Value {
    let file = json!({
        "path": "/etc/sysctl.d/50-forward.conf", "mode": 420, "overwrite": true,
        "contents": {"source": "data:,net.ipv6.conf.all.forwarding%20%3D%201%0A"},
    });
    json!({
        "apiVersion": "machineconfiguration.openshift.io/v1", "kind": "MachineConfig",
        "metadata": {"name": "50-forward", "labels": role()},
        "spec": {"config": {"ignition": {"version": "3.5.0"}, "storage": {"files": [file]}}},
    })
}
