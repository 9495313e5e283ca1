//! What a pool allows, and which machines are of it: what the controller decides, computed a second
//! time, from the objects as they are in the API.

use serde_json::Value;

/// A pool as the API has it.
#[derive(Debug, Clone)]
pub struct PoolLimits {
    pub name: String,
    labels: Vec<(String, String)>,
    max_unavailable: Value,
    /// It is paused, and the controller decided with that: it has written the status of this spec. A
    /// slot of a decision from before may still be written after the pause.
    pub paused: bool,
}

impl PoolLimits {
    /// None of a pool that selects no node.
    pub fn of(pool: &Value) -> Option<Self> {
        let labels = pool["spec"]["nodeSelector"]["matchLabels"].as_object()?;
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let is_seen = pool["status"]["observedGeneration"] == pool["metadata"]["generation"];
        Some(Self {
            name: text(&pool["metadata"]["name"]),
            labels: labels.iter().map(|(key, value)| (key.clone(), text(value))).collect(),
            max_unavailable: pool["spec"]["maxUnavailable"].clone(),
            paused: pool["spec"]["paused"] == true && is_seen,
        })
    }

    /// Whether its selector selects a node.
    pub fn selects(&self, node: &Value) -> bool {
        let labels = &node["metadata"]["labels"];
        !self.labels.is_empty()
            && self.labels.iter().all(|(key, value)| labels[key.as_str()] == value.as_str())
    }

    /// How many machines may be unavailable at once: at least one; a percentage is rounded down.
    pub fn most_unavailable(&self, machines: usize) -> usize {
        let value = &self.max_unavailable;
        let percent = value.as_str().and_then(|text| text.strip_suffix('%'));
        let most = match percent.and_then(|percent| percent.parse::<usize>().ok()) {
            Some(percent) => percent * machines / 100,
            None => value.as_u64().and_then(|number| usize::try_from(number).ok()).unwrap_or(1),
        };
        most.max(1)
    }
}

/// The pool of a node: `master`, else a custom one, else `worker`.
pub fn pool_of<'p>(
    pools: impl Iterator<Item = &'p PoolLimits>,
    node: &Value,
) -> Option<&'p PoolLimits> {
    let rank = |pool: &&PoolLimits| match &*pool.name {
        "master" => 0,
        "worker" => 2,
        _ => 1,
    };
    pools.filter(|pool| pool.selects(node)).min_by_key(rank)
}

/// Whether pods can't be scheduled on it, or it is about to be like that.
pub fn is_unavailable(node: &Value) -> bool {
    is_cordoned(node) || !is_ready(node) || has_slot(node)
}

pub fn is_cordoned(node: &Value) -> bool {
    node["spec"]["unschedulable"] == true
}

pub fn is_ready(node: &Value) -> bool {
    crate::node::condition(node, "Ready")
}

pub fn has_slot(node: &Value) -> bool {
    !annotation(node, SLOT).is_empty()
}

pub fn is_control_plane(node: &Value) -> bool {
    let labels = &node["metadata"]["labels"];
    CONTROL_PLANE.iter().any(|label| !labels[label].is_null())
}

/// The value of an annotation; empty if there is none.
pub fn annotation<'n>(object: &'n Value, key: &str) -> &'n str {
    object["metadata"]["annotations"][key].as_str().unwrap_or_default()
}

pub const SLOT: &str = "mosb.dev/slot";
const CONTROL_PLANE: [&str; 2] =
    ["node-role.kubernetes.io/control-plane", "node-role.kubernetes.io/master"];
