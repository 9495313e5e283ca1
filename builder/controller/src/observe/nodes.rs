//! The nodes of a pool: their platforms, and which of them may build its images.

use std::collections::BTreeSet;
use std::sync::Arc;

use crate::cluster_cache::{ClusterCache, SeenNode};
use crate::snapshot::BuildNodes;
use crate::workload::CONTROL_PLANE_LABELS;
use crate::workload::MachineRole;
use mosb_image::Platform;
use mosb_plan::api::{MachineConfigPool, Selector};

/// The pool of control-plane machines in every OpenShift cluster.
const CONTROL_PLANE_POOL: &str = "master";

pub(super) fn platforms(cache: &ClusterCache, pool: &MachineConfigPool) -> BTreeSet<Platform> {
    let nodes = nodes(cache, pool);
    nodes.iter().filter_map(|node| platform(node)).collect()
}

/// The role of a pool's machines: control plane if the pool is named `master`, or if all of its
/// nodes are control-plane nodes.
pub fn machine_role(cache: &ClusterCache, pool: &MachineConfigPool) -> MachineRole {
    let are_all = || {
        let nodes = nodes(cache, pool);
        !nodes.is_empty() && nodes.iter().all(|node| is_control_plane(node))
    };
    if pool.metadata.name == CONTROL_PLANE_POOL || are_all() {
        MachineRole::ControlPlane(pool.spec.node_selector.clone().unwrap_or_default())
    } else {
        MachineRole::Other
    }
}

/// Where the images of a pool may be built.
pub(super) fn build_nodes(cache: &ClusterCache, pool: &MachineConfigPool) -> BuildNodes {
    let settings = cache.settings().ok();
    let names_others =
        settings.is_some_and(|(settings, _)| settings.job.control_plane.node_selector.is_some());
    match machine_role(cache, pool) {
        MachineRole::ControlPlane(_) if !names_others => BuildNodes::ControlPlane {
            exists: nodes(cache, pool).iter().any(|node| is_control_plane(node)),
        },
        MachineRole::ControlPlane(_) | MachineRole::Other => BuildNodes::Any,
    }
}

fn is_control_plane(node: &SeenNode) -> bool {
    let mut labels = CONTROL_PLANE_LABELS.iter();
    labels.any(|label| node.labels.contains_key(*label))
}

/// The nodes of a pool. A node that another pool selects does not count for `worker`.
fn nodes(cache: &ClusterCache, pool: &MachineConfigPool) -> Vec<Arc<SeenNode>> {
    let selector = |pool: &MachineConfigPool| {
        let wire = pool.spec.node_selector.as_ref()?;
        // An invalid selector selects nothing, as in the cluster.
        Selector::new(wire).ok()
    };
    let Some(own) = selector(pool) else {
        return Vec::new();
    };
    let others: Vec<Selector> = match pool.metadata.name.as_str() {
        "worker" => {
            let others = cache.pools.filter_list(|other| other.metadata.name != "worker");
            others.iter().filter_map(|other| selector(other)).collect()
        }
        _ => Vec::new(),
    };
    let theirs = |node: &SeenNode| others.iter().any(|other| other.matches(&node.labels));
    cache.nodes.filter_list(|node| own.matches(&node.labels) && !theirs(node))
}

fn platform(node: &SeenNode) -> Option<Platform> {
    let label = |key: &str| node.labels.get(key);
    let architecture = label("kubernetes.io/arch")?;
    Platform::new(label("kubernetes.io/os")?, architecture, None).ok()
}
