//! What each node runs and does. Pure.

use jiff::Timestamp;

use super::target::TargetView;
use crate::cluster_cache::{ClusterCache, SeenMachine};
use crate::node_pool::{NodePool, PoolSelectors};
use crate::rollout::machine_state::{BOOT_FULL, MachineState};
use crate::rollout::observe::machine;
use crate::rollout::snapshot::Machine;
use mosb_image::Digest;
use mosb_plan::api::labels;
use mosb_plan::api::rollout::{EtcReport, NodeTarget};

/// A node, as a person or a script sees it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct NodeView {
    pub name: String,
    /// None if no pool selects it, or several custom pools do.
    pub pool: Option<String>,
    /// The image that it booted.
    pub current: Option<String>,
    /// The image that it should boot.
    pub desired: Option<String>,
    /// The digest of the machine part that was brought to it last.
    pub machine_part: Option<Digest>,
    /// The image that is staged in this boot.
    pub staged: Option<String>,
    /// The image whose files it has although it booted another one.
    pub live: Option<String>,
    /// `Working`, `Rebooting`, `Done`, `Degraded` or `Unreconcilable`.
    pub state: Option<String>,
    /// Since when it may be unavailable for the roll-out.
    pub since: Option<Timestamp>,
    /// What it waits for, why it failed, or what its next reboot deletes.
    pub reason: Option<String>,
    pub ready: bool,
    /// `spec.unschedulable`
    pub unschedulable: bool,
    /// Its `/etc`, by its newest report of this boot.
    pub etc: Option<EtcReport>,
    pub(super) has_slot: bool,
    pub(super) is_available: bool,
    pub(super) booted: Option<Digest>,
    pub(super) staged_digest: Option<Digest>,
    effective_image: Option<Digest>,
    is_live_unknown: bool,
}

impl NodeView {
    pub(super) fn of(machine: &Machine, pool: Option<&str>) -> Self {
        let state = MachineState::of(machine);
        let annotation = |key| machine.metadata.annotation(key).map(str::to_owned);
        let full = state.is_boot_full().then(|| BOOT_FULL.to_owned());
        let reasons: Vec<String> =
            annotation(labels::NODE_REASON).into_iter().chain(full).collect();
        Self {
            name: machine.metadata.name.clone(),
            pool: pool.map(str::to_owned),
            current: annotation(labels::NODE_CURRENT_IMAGE),
            desired: annotation(labels::NODE_DESIRED_IMAGE),
            machine_part: state.machine_part(),
            staged: state.staged.as_ref().map(|target| target.image.to_string()),
            live: state.live().map(|target| target.image.to_string()),
            state: annotation(labels::NODE_STATE),
            since: state.valid_slot().map(|slot| slot.since.0),
            reason: (!reasons.is_empty()).then(|| reasons.join("; ")),
            ready: machine.ready,
            unschedulable: machine.unschedulable,
            etc: state.report.as_ref().and_then(|report| report.etc.clone()),
            has_slot: state.has_slot(),
            is_available: state.is_available(),
            booted: state.booted(),
            staged_digest: state.staged.as_ref().map(|target| target.image.digest()),
            effective_image: state.effective_image(),
            is_live_unknown: state.is_live_unknown(),
        }
    }

    /// Whether it has this target and the roll-out is through with it, as the controller counts.
    pub(super) fn is_updated(&self, target: &TargetView) -> bool {
        let has_part = |target: &NodeTarget| target.accepts_part(self.machine_part);
        self.effective_image == Some(target.build.digest)
            && target.target.as_ref().is_none_or(has_part)
            && !self.has_slot
    }

    /// Whether it runs the image of this target.
    pub(super) fn runs(&self, target: &TargetView) -> bool {
        self.booted == Some(target.build.digest)
    }

    /// Whether it may get the files of this target without a reboot: it runs an image that differs only
    /// in such files, or runs the target and has others.
    pub(super) fn may_go_live(&self, target: &TargetView) -> bool {
        if self.runs(target) {
            return self.live.is_some() || self.is_live_unknown;
        }
        self.booted.is_some_and(|booted| target.live_images.contains(&booted))
    }

    pub(super) fn is_degraded(&self) -> bool {
        matches!(self.state.as_deref(), Some("Degraded" | "Unreconcilable"))
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
        Some(match of {
            NodePool::None => NodeView::of(&machine, None),
            NodePool::One(name) => NodeView::of(&machine, Some(&name)),
            NodePool::Shared(names) => NodeView {
                reason: Some(format!(
                    "selected by the pools {}; change the labels so that one is left",
                    names.join(", ")
                )),
                ..NodeView::of(&machine, None)
            },
        })
    };
    cache.machines.list().iter().filter_map(|seen| view(seen)).collect()
}
