//! Which pool a node belongs to. Input: all pools, and the labels of a node. Output: at most one
//! pool for each node, as the Machine Config Operator chooses it. A node of another operating system
//! is of no pool: no image can be for it.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::ClusterCache;
use mosb_api::{MachineConfigPool, Selector};
use mosb_image::Platform;

/// The pool of control-plane machines in every OpenShift cluster.
pub const CONTROL_PLANE_POOL: &str = "master";
/// The label with the operating system of a node, which the kubelet sets.
const OS: &str = "kubernetes.io/os";
/// The pool of the nodes that no other pool selects.
const DEFAULT_POOL: &str = "worker";

/// The labels of control-plane nodes, and the keys of their taints.
pub const CONTROL_PLANE_LABELS: [&str; 2] =
    ["node-role.kubernetes.io/control-plane", "node-role.kubernetes.io/master"];
/// Whether a node with these labels is a control-plane node.
pub fn has_control_plane_label(labels: &BTreeMap<String, String>) -> bool {
    CONTROL_PLANE_LABELS.iter().any(|label| labels.contains_key(*label))
}

/// The label of nodes that run etcd alone, as RKE2 sets it.
const ETCD_LABEL: &str = "node-role.kubernetes.io/etcd";

/// Whether a pod of etcd on a node with these labels is a member of the cluster's etcd. The API
/// server lets no kubelet set these labels on its own node (NodeRestriction).
pub fn may_run_etcd(labels: &BTreeMap<String, String>) -> bool {
    has_control_plane_label(labels) || labels.contains_key(ETCD_LABEL)
}

/// The pool of a node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum NodePool {
    None,
    One(String),
    /// Several custom pools select the node, sorted by name: it belongs to none of them.
    Shared(Vec<String>),
}

impl NodePool {
    /// Whether the node is in the pool, or would be if other custom pools did not select it.
    pub fn contains(&self, pool: &str) -> bool {
        match self {
            Self::None => false,
            Self::One(name) => name == pool,
            Self::Shared(names) => names.iter().any(|name| name == pool),
        }
    }
}

/// The node selectors of all pools, sorted by the pool's name.
#[derive(Debug)]
pub struct PoolSelectors(Vec<(String, Selector)>);

impl PoolSelectors {
    pub fn of(cache: &ClusterCache) -> Self {
        Self::new(&cache.pools.list())
    }

    fn new(pools: &[Arc<MachineConfigPool>]) -> Self {
        let selector = |pool: &Arc<MachineConfigPool>| {
            // An invalid or empty selector selects nothing, as in the cluster.
            let selector = Selector::new(pool.spec.node_selector.as_ref()?).ok()?;
            Some((pool.metadata.name.clone(), selector))
        };
        Self(pools.iter().filter_map(selector).collect())
    }

    /// Whether a node is in this pool, by its labels.
    pub fn members_of<'a>(
        &'a self,
        pool: &'a str,
    ) -> impl Fn(&BTreeMap<String, String>) -> bool + 'a {
        let own = self.0.iter().find(|(name, _)| name == pool);
        move |labels| {
            own.is_some_and(|(_, own)| own.matches(labels)) && self.pool_of(labels).contains(pool)
        }
    }

    /// `master` if it selects the node, else the one custom pool that does, else `worker`.
    pub fn pool_of(&self, labels: &BTreeMap<String, String>) -> NodePool {
        if labels.get(OS).is_some_and(|os| os != "linux") {
            return NodePool::None;
        }
        let selecting = self.0.iter().filter(|(_, selector)| selector.matches(labels));
        let mut names: Vec<&str> = selecting.map(|(name, _)| name.as_str()).collect();
        if names.contains(&CONTROL_PLANE_POOL) {
            return NodePool::One(CONTROL_PLANE_POOL.to_owned());
        }
        let before = names.len();
        names.retain(|name| *name != DEFAULT_POOL);
        match names.as_slice() {
            [] if before > 0 => NodePool::One(DEFAULT_POOL.to_owned()),
            [] => NodePool::None,
            [one] => NodePool::One((*one).to_owned()),
            several => NodePool::Shared(several.iter().map(|name| (*name).to_owned()).collect()),
        }
    }
}

/// The platform of a node with these labels, which the kubelet sets.
pub fn node_platform(labels: &BTreeMap<String, String>) -> Option<Platform> {
    let label = |key: &str| labels.get(key);
    let architecture = label("kubernetes.io/arch")?;
    Platform::new(label("kubernetes.io/os")?, architecture, None).ok()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_node_is_in_one_pool_as_the_machine_config_operator_chooses_it() {
        let pool = |name: &str, label: Option<&str>| {
            let selector = label.map(|label| json!({ "matchLabels": { label: "" } }));
            let pool =
                json!({ "metadata": { "name": name }, "spec": { "nodeSelector": selector } });
            Arc::new(serde_json::from_value(pool).unwrap())
        };
        let empty = json!({ "metadata": { "name": "empty" }, "spec": { "nodeSelector": {} } });
        let selectors = PoolSelectors::new(&[
            Arc::new(serde_json::from_value(empty).unwrap()),
            pool("gpu", Some("gpu")),
            pool("infra", Some("infra")),
            pool("master", Some("control-plane")),
            pool("none", None),
            pool("worker", Some("worker")),
        ]);
        let one = |name: &str| NodePool::One(name.to_owned());
        for (labels, want) in [
            (&[][..], NodePool::None),
            (&["worker"], one("worker")),
            (&["infra"], one("infra")),
            (&["infra", "worker"], one("infra")),
            (&["control-plane", "infra", "worker"], one("master")),
            (&["control-plane", "gpu", "infra"], one("master")),
            (
                &["gpu", "infra", "worker"],
                NodePool::Shared(vec!["gpu".to_owned(), "infra".to_owned()]),
            ),
        ] {
            let mut map: BTreeMap<String, String> =
                labels.iter().map(|label| ((*label).to_owned(), String::new())).collect();
            assert_eq!(selectors.pool_of(&map), want, "{labels:?}");
            map.insert(OS.to_owned(), "linux".to_owned());
            assert_eq!(selectors.pool_of(&map), want, "{labels:?}");
            map.insert(OS.to_owned(), "windows".to_owned());
            assert_eq!(selectors.pool_of(&map), NodePool::None, "{labels:?}");
            assert!(!selectors.members_of("worker")(&map), "{labels:?}");
        }
    }
}
