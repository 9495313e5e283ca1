//! Pods on machines, and budgets that hold their eviction.

use serde_json::json;

use super::cluster::RolloutCluster;

impl RolloutCluster {
    /// A pod on a machine, with a label of its name.
    pub fn add_pod(&self, name: &str, machine: &str) {
        let pod = json!({ "apiVersion": "v1", "kind": "Pod",
            "metadata": { "name": name, "namespace": "default", "labels": { "app": name } },
            "spec": { "nodeName": machine, "containers": [{ "name": "a", "image": "a" }] } });
        self.node.apply(&pod.to_string());
    }

    /// A pod on a machine that no drain may evict.
    pub fn add_guarded_pod(&self, name: &str, machine: &str) {
        let budget = json!({ "apiVersion": "policy/v1", "kind": "PodDisruptionBudget",
            "metadata": { "name": name, "namespace": "default" },
            "spec": { "minAvailable": 1, "selector": { "matchLabels": { "app": name } } } });
        self.node.apply(&budget.to_string());
        self.add_pod(name, machine);
    }

    /// The pod may be evicted.
    pub fn remove_budget(&self, name: &str) {
        let what = format!("poddisruptionbudget/{name}");
        self.node.kubectl(&["delete", &what, "--namespace=default"]).ok();
    }

    /// Whether the pod is there.
    pub fn has_pod(&self, name: &str) -> bool {
        self.node.api().find(Some("default"), "pod", name).is_some()
    }
}
