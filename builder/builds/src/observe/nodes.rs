//! The nodes of a pool: their platforms, and which of them may build its images.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use mosb_api::MachineConfigPool;
use mosb_cluster::cluster_cache::{ClusterCache, SeenNode};
use mosb_cluster::node_pool::{
    CONTROL_PLANE_POOL, PoolSelectors, has_control_plane_label, node_platform,
};
use mosb_image::Platform;
use mosb_workload::{BuildNodes, MachineRole};

/// The nodes of a pool by platform; without their names if all have the same one.
pub(super) fn platforms(
    cache: &ClusterCache,
    pool: &MachineConfigPool,
) -> BTreeMap<Platform, BTreeSet<String>> {
    let mut platforms: BTreeMap<Platform, BTreeSet<String>> = BTreeMap::new();
    for node in nodes(cache, pool) {
        if let Some(platform) = node_platform(&node.labels) {
            platforms.entry(platform).or_default().insert(node.name.clone());
        }
    }
    if platforms.len() == 1 {
        platforms.values_mut().for_each(BTreeSet::clear);
    }
    platforms
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
    let selected = settings.and_then(|(settings, _)| settings.job.control_plane.node_selector);
    match (machine_role(cache, pool), selected) {
        (MachineRole::Other, _) => BuildNodes::Any,
        (MachineRole::ControlPlane(_), Some(labels)) => BuildNodes::Selected(labels),
        (MachineRole::ControlPlane(_), None) => BuildNodes::ControlPlane {
            exists: nodes(cache, pool).iter().any(|node| is_control_plane(node)),
        },
    }
}

fn is_control_plane(node: &SeenNode) -> bool {
    has_control_plane_label(&node.labels)
}

/// The nodes of a pool. One that several custom pools select counts for each of them: all of them
/// build for its platform.
fn nodes(cache: &ClusterCache, pool: &MachineConfigPool) -> Vec<Arc<SeenNode>> {
    let selectors = PoolSelectors::of(cache);
    let is_member = selectors.members_of(&pool.metadata.name);
    cache.nodes.filter_list(|node| is_member(&node.labels))
}
