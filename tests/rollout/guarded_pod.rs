//! A pod on a machine whose drain a PodDisruptionBudget holds.

use serde_json::json;

use mosb_tests::{BUSYBOX_IMAGE, Node};

/// Both are in the namespace `default`, as the pod `guarded` and the budget `budget`.
pub fn create(node: &Node, machine: &str) {
    let pod = json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": { "name": "guarded", "namespace": "default", "labels": { "app": "guarded" } },
        "spec": {
            "nodeName": machine, "automountServiceAccountToken": false,
            "terminationGracePeriodSeconds": 0,
            "containers": [{ "name": "main", "image": BUSYBOX_IMAGE, "imagePullPolicy": "Never" }],
            "volumes": [{ "name": "data", "emptyDir": {} }],
        },
    });
    let budget = json!({
        "apiVersion": "policy/v1", "kind": "PodDisruptionBudget",
        "metadata": { "name": "budget", "namespace": "default" },
        "spec": { "minAvailable": 1, "selector": { "matchLabels": { "app": "guarded" } } },
    });
    node.apply(&budget.to_string());
    node.apply(&pod.to_string());
}
