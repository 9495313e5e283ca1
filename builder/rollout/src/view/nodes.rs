//! What each node runs and does. Pure.

use jiff::Timestamp;
use schemars::JsonSchema;
use serde::Serialize;

use crate::machine_state::{BOOT_FULL, MachineState};
use crate::node_patch::NodeState;
use crate::observe::machine;
use mosb_api::labels;
use mosb_api::rollout::{EtcReport, Soak, SoakPhase, SoftReboot};
use mosb_cluster::cluster_cache::{ClusterCache, SeenMachine};
use mosb_cluster::node_pool::{NodePool, PoolSelectors};

/// A node, and which images it runs.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "NodeInfo")]
pub struct NodeView {
    /// Its name.
    #[serde(rename = "node")]
    pub name: String,
    /// Its pool; none if it has none, or several custom ones.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pool: Option<String>,
    /// The image that it booted.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub current: Option<String>,
    /// The image that it should boot.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub desired: Option<String>,
    /// The image that is staged on it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub staged: Option<String>,
    /// The image whose files it has although it booted another one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub live: Option<String>,
    /// `Working`, `Rebooting`, `Done`, `Degraded` or `Unreconcilable`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub state: Option<String>,
    /// Since when the roll-out may make it unavailable.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<String>")]
    pub since: Option<Timestamp>,
    /// How it rebooted into `current`, if the pool has `mosb.dev/soft-reboot`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub soft_reboot: Option<SoftReboot>,
    /// What it waits for, why it failed, or what its next reboot deletes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// Whether its condition `Ready` is true.
    pub ready: bool,
    /// Whether it is cordoned.
    pub unschedulable: bool,
    /// Its `/etc`, by its newest report of this boot.
    #[serde(skip)]
    pub etc: Option<EtcReport>,
    #[serde(skip)]
    pub(super) has_slot: bool,
}

impl NodeView {
    pub(super) fn of(state: &MachineState<'_>, pool: Option<&str>) -> Self {
        let machine = state.machine;
        let annotation = |key| machine.node.metadata.annotation(key).map(str::to_owned);
        let full = state.is_boot_full().then(|| BOOT_FULL.to_owned());
        let reasons = annotation(labels::NODE_REASON).into_iter().chain(full);
        let reasons: Vec<String> = reasons.chain(soak_text(state)).collect();
        Self {
            name: machine.node.metadata.name.clone(),
            pool: pool.map(str::to_owned),
            current: annotation(labels::NODE_CURRENT_IMAGE),
            desired: annotation(labels::NODE_DESIRED_IMAGE),
            staged: state.staged.as_ref().map(|target| target.image.to_string()),
            live: state.live().map(|target| target.image.to_string()),
            state: annotation(labels::NODE_STATE),
            since: state.valid_slot().map(|slot| slot.since.0),
            soft_reboot: state.soft_reboot().cloned(),
            reason: (!reasons.is_empty()).then(|| reasons.join("; ")),
            ready: machine.node.ready,
            unschedulable: machine.node.unschedulable,
            etc: state.report.as_ref().and_then(|report| report.etc.clone()),
            has_slot: state.has_slot(),
        }
    }

    pub(super) fn is_degraded(&self) -> bool {
        NodeState::is_degraded(self.state.as_deref())
    }
}

/// The nodes of a pool, or all nodes, by name.
pub fn node_views(cache: &ClusterCache, pool: Option<&str>) -> Vec<NodeView> {
    let selectors = PoolSelectors::of(cache);
    let view = |seen: &SeenMachine| {
        let of = selectors.pool_of(&seen.metadata.labels);
        if pool.is_some_and(|pool| !of.contains(pool)) {
            return None;
        }
        let machine = machine(cache, seen, None);
        let state = MachineState::of(&machine);
        Some(match of {
            NodePool::None => NodeView::of(&state, None),
            NodePool::One(name) => NodeView::of(&state, Some(&name)),
            NodePool::Shared(names) => NodeView {
                reason: Some(format!(
                    "selected by the pools {}; change the labels so that one is left",
                    names.join(", ")
                )),
                ..NodeView::of(&state, None)
            },
        })
    };
    cache.machines.list().iter().filter_map(|seen| view(seen)).collect()
}

/// How the checks of a machine go that runs a target which is not confirmed yet.
fn soak_text(state: &MachineState<'_>) -> Option<String> {
    let record = Soak::of(&state.machine.node.metadata)?;
    match record.phase {
        SoakPhase::Holding { until, .. } => Some(format!("soaks until {}", until.0)),
        SoakPhase::Failing { since, message } => {
            Some(format!("not healthy since {}: {message}", since.0))
        }
        // The annotation with the reason has it.
        SoakPhase::Failed { .. } => None,
    }
}
