//! What is cached of a machine: the fields of a Node that a roll-out decides by.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{Node, NodeStatus, Taint};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

use super::IndexKey;
use super::projection::is_known;
use super::trigger::Trigger;
use crate::node_pool::may_run_etcd;
use mosb_api::{Metadata, labels};

/// The prefix of the taints that follow from the conditions of a Node and from its cordon.
const CONDITION_TAINTS: &str = "node.kubernetes.io/";

/// The cached fields of a machine's Node.
///
/// Two of them are equal if nothing differs that decisions use. The resourceVersion changes with
/// each heartbeat of the kubelet and is therefore not compared; the cached one is always the newest.
#[derive(Debug, Clone, Default)]
pub struct SeenMachine {
    /// Only annotations of machine configuration and of mosb.
    pub metadata: Metadata,
    /// `status.nodeInfo.bootID`; empty if the kubelet has not reported it.
    pub boot_id: String,
    /// `spec.unschedulable`
    pub unschedulable: bool,
    /// Condition `Ready` is `True`.
    pub ready: bool,
    /// When the condition `Ready` changed last.
    pub ready_since: Option<Time>,
    /// Condition `DiskPressure` is `True`.
    pub disk_pressure: bool,
    /// Condition `NetworkUnavailable` is `True`.
    pub network_unavailable: bool,
    /// The status of each condition. Heartbeats do not count.
    pub conditions: BTreeMap<String, String>,
    /// The keys of the taints that keep pods away, without those that the cluster derives from the
    /// fields above.
    pub taints: Vec<String>,
}

impl SeenMachine {
    /// Whether the control plane, with its etcd, may lose a member with this node.
    pub fn is_control_plane(&self) -> bool {
        may_run_etcd(&self.metadata.labels)
    }

    /// Why no other pod can run on a node that has no slot, and what to do; none if one can, as the
    /// Machine Config Operator counts it.
    pub fn obstacle(&self) -> Option<(&'static str, &'static str)> {
        if !self.ready {
            Some(("is not Ready", "check its kubelet"))
        } else if self.unschedulable {
            Some(("is cordoned, and not by mosb", "uncordon it"))
        } else if self.disk_pressure {
            Some(("has DiskPressure", "free space on its disk"))
        } else if self.network_unavailable {
            Some(("has NetworkUnavailable", "check its network plugin"))
        } else {
            None
        }
    }

    pub(super) fn trigger(&self) -> Trigger {
        Trigger::Machine(self.metadata.labels.clone())
    }

    pub(super) fn index_keys(&self) -> Vec<IndexKey> {
        let control_plane = self.is_control_plane().then_some(IndexKey::ControlPlane);
        let has_slot = self.metadata.annotation(labels::NODE_SLOT).is_some();
        control_plane.into_iter().chain(has_slot.then_some(IndexKey::Slot)).collect()
    }

    /// Everything but the resourceVersion.
    fn compared(&self) -> impl PartialEq + '_ {
        let metadata = &self.metadata;
        (
            (&metadata.name, &metadata.uid, &metadata.labels, &metadata.annotations),
            (&metadata.creation_timestamp, &metadata.deletion_timestamp, &self.boot_id),
            [self.unschedulable, self.ready, self.disk_pressure, self.network_unavailable],
            (&self.taints, &self.conditions),
        )
    }
}

impl PartialEq for SeenMachine {
    fn eq(&self, other: &Self) -> bool {
        self.compared() == other.compared()
    }
}

pub(super) fn machine(object: Node) -> Option<(String, SeenMachine)> {
    let meta = object.metadata;
    let (spec, status) = (object.spec.unwrap_or_default(), object.status.unwrap_or_default());
    let keeps_away = |taint: &Taint| {
        taint.effect != "PreferNoSchedule" && !taint.key.starts_with(CONDITION_TAINTS)
    };
    let taints = spec.taints.into_iter().flatten().filter(keeps_away).map(|taint| taint.key);
    let mut annotations = meta.annotations.unwrap_or_default();
    annotations.retain(|key, _| is_known(key) || key == labels::SCALE_DOWN_DISABLED);
    let machine = SeenMachine {
        metadata: Metadata {
            name: meta.name?,
            labels: meta.labels.unwrap_or_default(),
            annotations,
            uid: meta.uid,
            resource_version: meta.resource_version,
            creation_timestamp: meta.creation_timestamp,
            deletion_timestamp: meta.deletion_timestamp,
            ..Metadata::default()
        },
        conditions: {
            let conditions = status.conditions.iter().flatten();
            conditions.map(|one| (one.type_.clone(), one.status.clone())).collect()
        },
        boot_id: status.node_info.as_ref().map(|info| info.boot_id.clone()).unwrap_or_default(),
        unschedulable: spec.unschedulable.unwrap_or_default(),
        taints: taints.collect(),
        ready: is_true(&status, "Ready"),
        ready_since: status
            .conditions
            .iter()
            .flatten()
            .find(|one| one.type_ == "Ready")
            .and_then(|one| one.last_transition_time.clone()),
        disk_pressure: is_true(&status, "DiskPressure"),
        network_unavailable: is_true(&status, "NetworkUnavailable"),
    };
    Some((machine.metadata.name.clone(), machine))
}

fn is_true(status: &NodeStatus, condition: &str) -> bool {
    let mut conditions = status.conditions.iter().flatten();
    conditions.any(|one| one.type_ == condition && one.status == "True")
}

#[cfg(test)]
mod tests {
    use kube::runtime::watcher::Event;
    use serde_json::{Value, json};

    use super::*;
    use crate::cluster_cache::ClusterCache;

    /// The labels of control-plane nodes begin with it.
    const ROLE: &str = "node-role.kubernetes.io/";

    fn node(version: &str, change: impl FnOnce(&mut Value)) -> Node {
        let mut node = json!({
            "metadata": {
                "name": "a", "uid": "u", "resourceVersion": version,
                "labels": { "node-role.kubernetes.io/worker": "" },
                "annotations": { "mosb.dev/slot": "{}", "volumes.kubernetes.io/x": "true" },
                "managedFields": [],
            },
            "spec": { "unschedulable": true },
            "status": {
                "nodeInfo": {
                    "bootID": "b", "architecture": "", "containerRuntimeVersion": "",
                    "kernelVersion": "", "kubeProxyVersion": "", "kubeletVersion": "",
                    "machineID": "", "operatingSystem": "", "osImage": "", "systemUUID": "",
                },
                "conditions": [
                    { "type": "Ready", "status": "True", "lastHeartbeatTime": "2026-01-01T00:00:00Z",
                      "lastTransitionTime": "2025-12-31T00:00:00Z" },
                    { "type": "DiskPressure", "status": "Unknown" },
                ],
            },
        });
        change(&mut node);
        serde_json::from_value(node).unwrap()
    }

    /// A kubelet may change annotations and labels of its Node. The cache has no other annotations.
    #[test]
    fn the_policy_protects_each_mark_that_is_read() {
        let policy = include_str!("../../../../deploy/rollout/admission-policy-nodes.yaml");
        let [machine_config, mosb] = labels::ANNOTATION_PREFIXES;
        for protected in [format!("['{machine_config}', '{mosb}']"), format!("['{ROLE}'")] {
            assert!(policy.contains(&protected), "{protected}");
        }
        for role in ["control-plane", "master", "etcd"] {
            let mut seen = SeenMachine::default();
            seen.metadata.labels = [(format!("{ROLE}{role}"), String::new())].into();
            assert_eq!(seen.index_keys(), [IndexKey::ControlPlane], "{role}");
        }
        let names = include_str!("../../../api/src/labels.rs");
        let marks = names.lines().filter_map(|line| line.strip_prefix("pub const NODE_"));
        let marks: Vec<&str> = marks
            .filter_map(|line| line.split_once(": &str = \""))
            .map(|(_, value)| value)
            .collect();
        assert!(marks.len() > 8, "{marks:?}");
        for mark in marks {
            assert!(is_known(mark), "{mark}: a kubelet could set it");
        }
    }

    #[test]
    fn a_heartbeat_changes_nothing_but_the_cached_version() {
        let cache = ClusterCache::empty("mosb");
        let apply = |node: Node| {
            let changes = cache.machines.apply_event(Event::Apply(machine(node).unwrap()));
            (changes.len(), cache.machines.get("a").unwrap())
        };
        let (changes, seen) = apply(node("1", |_| ()));
        assert_eq!((changes, seen.boot_id.as_str(), seen.unschedulable), (1, "b", true));
        assert_eq!(
            (seen.ready, seen.disk_pressure, seen.network_unavailable),
            (true, false, false)
        );
        let since = seen.ready_since.as_ref().map(|since| since.0.to_string());
        assert_eq!(since.as_deref(), Some("2025-12-31T00:00:00Z"));
        assert!(seen.metadata.annotations.keys().eq(["mosb.dev/slot"]));
        type Change = fn(&mut Value);
        let heartbeat: Change = |node| {
            node["status"]["conditions"][0]["lastHeartbeatTime"] = json!("2026-01-01T00:00:10Z");
        };
        let cases: [(&str, Change, usize); 10] = [
            ("a heartbeat", heartbeat, 0),
            (
                "an annotation of others",
                |node| node["metadata"]["annotations"]["volumes.kubernetes.io/x"] = json!("false"),
                0,
            ),
            ("the capacity", |node| node["status"]["capacity"] = json!({ "cpu": "1" }), 0),
            ("not Ready", |node| node["status"]["conditions"][0]["status"] = json!("Unknown"), 1),
            ("a boot", |node| node["status"]["nodeInfo"]["bootID"] = json!("c"), 1),
            ("uncordoned", |node| node["spec"] = json!({}), 1),
            (
                "a taint of a condition",
                |node| {
                    let key = "node.kubernetes.io/not-ready";
                    node["spec"]["taints"] = json!([{ "key": key, "effect": "NoExecute" }]);
                },
                0,
            ),
            (
                "another taint",
                |node| node["spec"]["taints"] = json!([{ "key": "x", "effect": "NoSchedule" }]),
                1,
            ),
            ("a label", |node| node["metadata"]["labels"] = json!({}), 1),
            ("a mark", |node| node["metadata"]["annotations"] = json!({ "mosb.dev/slot": "x" }), 1),
        ];
        for (number, (what, change, want)) in cases.into_iter().enumerate() {
            apply(node("1", |_| ()));
            let version = format!("2{number}");
            let (changes, seen) = apply(node(&version, change));
            assert_eq!(changes, want, "{what}");
            assert_eq!(seen.metadata.resource_version(), version, "{what}: writes need the newest");
        }
    }
}
