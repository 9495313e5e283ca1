//! What an administrator says to a cluster with mosb; the demo and a test do.

use std::io::Write as _;
use std::path::Path;
use std::process::{Command, Stdio};

use serde_json::{Value, json};

use super::Node;

/// A worker's configuration: one MachineConfig here, rendered by mosb.
const WORKER: &str = include_str!("../../../testdata/demo/worker.yaml");
/// What `deploy/kubernetes` calls the image, and `make image` too.
pub const IMAGE: &str = "mosb.local/mosb:dev";
pub const NAMESPACE: &str = "mosb-system";

/// What an administrator has to say before he opts in; the base by its digest, as a renderer wants it.
pub fn world(node: &Node, base: &str) -> Vec<Value> {
    let registry = node.registry();
    let secret = |name: &str| {
        json!({
            "apiVersion": "v1", "kind": "Secret", "type": "kubernetes.io/dockerconfigjson",
            "metadata": {"name": name, "namespace": NAMESPACE},
            "stringData": {".dockerconfigjson": registry.docker_config().to_string()},
        })
    };
    let settings = json!({"imageRegistryBundles": {&registry.host_port: registry.ca_pem}});
    let mut worker: Value = serde_saphyr::from_str(WORKER).unwrap();
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

/// Renders a pool and tells it so, as a `machine-config-controller` would.
pub fn render(node: &Node, mosb: &Path, pool: &str) {
    let kinds = "machineconfigs,machineconfigpools";
    let inputs = node.kubectl(&["get", kinds, "--output=json"]).ok();
    let mut program = Command::new(mosb)
        .args(["render", "--offline", "-o", "json", "--pool", pool, "-"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut stdin = program.stdin.take().unwrap();
    stdin.write_all(&inputs.stdout).unwrap();
    drop(stdin);
    let rendered = program.wait_with_output().unwrap();
    assert!(
        rendered.status.success(),
        "mosb render: {}",
        rendered.status
    );
    let rendered: Value = serde_json::from_slice(&rendered.stdout).unwrap();
    node.apply(&rendered.to_string());
    let change = json!({"spec": {"configuration": {"name": rendered["metadata"]["name"]}}});
    let change = format!("--patch={change}");
    node.kubectl(&["patch", "machineconfigpool", pool, "--type=merge", &change])
        .ok();
}
