//! How far the roll-out of a pool is. Pure.
//!
//! What the machines should run and what they run is found as in the controller, so it holds at
//! once after a request. Why nothing new is begun is read from the pool's conditions, which may be
//! of the decision before.

use std::collections::BTreeSet;

use jiff::Timestamp;
use schemars::JsonSchema;
use serde::Serialize;

use super::nodes::NodeView;
use super::target::TargetView;
use crate::desired_target::Desired;
use crate::machine_state::MachineState;
use crate::node_patch::NodeState;
use crate::reason::{MACHINES_FAILED, PASSING, RolloutPhase};
use crate::snapshot::RolloutSnapshot;
use mosb_api::rollout::{PinnedBuild, RolloutMode};
use mosb_api::{Condition, condition, labels};
use mosb_cluster::status::{NOT_ENABLED, ROLLOUT_DEGRADED};

/// Conditions of a pool that a roll-out writes.
const CONDITIONS: [&str; 5] = ["Updated", "Updating", "NodeDegraded", "Degraded", ROLLOUT_DEGRADED];
/// The most machines that a message names.
const NAMED: usize = 3;

/// How far the roll-out of a pool is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "RolloutStatus")]
pub struct RolloutView {
    /// The pool.
    pub pool: String,
    /// The MachineOSConfig of the pool.
    #[serde(rename = "machineOSConfig", skip_serializing_if = "Option::is_none")]
    pub config: Option<String>,
    /// `none`, `stage` or `automatic`.
    #[schemars(with = "String")]
    pub mode: RolloutMode,
    /// Whether the pool is paused.
    pub paused: bool,
    /// `updated`, `staged`, `off`, `progressing`, `paused`, `blocked` or `failed`.
    #[schemars(with = "String")]
    pub phase: RolloutPhase,
    /// One sentence.
    pub message: String,
    /// What the machines should run.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub target: Option<TargetView>,
    /// How many machines there are.
    pub machines: MachineCounts,
    /// How machines rebooted into the image that they run; absent unless one was allowed a soft reboot.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub soft_reboots: Option<SoftReboots>,
    /// Conditions of the pool.
    pub conditions: Vec<PoolCondition>,
    /// The machines that are not updated.
    pub behind: Vec<NodeView>,
    /// What ages are counted from.
    #[serde(skip)]
    pub now: Timestamp,
}

/// A condition of a pool.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct PoolCondition {
    /// For example `Updated`.
    #[serde(rename = "type")]
    pub kind: String,
    /// `True`, `False` or `Unknown`.
    pub status: String,
    /// One word.
    #[serde(skip_serializing_if = "String::is_empty")]
    #[schemars(with = "Option<String>")]
    pub reason: String,
    /// A text for people.
    #[serde(skip_serializing_if = "String::is_empty")]
    #[schemars(with = "Option<String>")]
    pub message: String,
}

impl From<&Condition> for PoolCondition {
    fn from(condition: &Condition) -> Self {
        let Condition { kind, status, reason, message, .. } = condition.clone();
        Self { kind, status, reason, message }
    }
}

/// Machines of a pool.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "RolloutMachines")]
pub struct MachineCounts {
    /// All.
    pub all: usize,
    /// Those that run the target, or have its files.
    pub updated: usize,
    /// Those of them that are available.
    pub ready: usize,
    /// Those that have staged the target, and don't run it.
    pub staged: usize,
    /// Those that have the files of the target, and boot it the next time.
    pub live: usize,
    /// Those that are not available.
    pub unavailable: usize,
    /// Those that failed.
    pub degraded: usize,
}

/// How machines rebooted that were allowed a soft reboot.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "RolloutSoftReboots")]
pub struct SoftReboots {
    /// How many rebooted their user space alone.
    pub used: usize,
    /// How many booted their kernel.
    pub not_used: usize,
    /// Why they did; at most three.
    pub causes: BTreeSet<String>,
}

impl SoftReboots {
    fn of(states: &[MachineState<'_>]) -> Option<Self> {
        let mut found = Self::default();
        for soft in states.iter().filter_map(MachineState::soft_reboot) {
            found.used += usize::from(soft.used);
            found.not_used += usize::from(!soft.used);
            let cause = soft.cause.iter().filter(|_| !soft.used);
            found.causes.extend(cause.take(NAMED.saturating_sub(found.causes.len())).cloned());
        }
        (found.used + found.not_used > 0).then_some(found)
    }
}

/// The roll-out of the pool.
pub fn rollout_view(snapshot: &RolloutSnapshot, now: Timestamp) -> RolloutView {
    let pool = &snapshot.pool;
    let name = &pool.metadata.name;
    let desired = Desired::of(snapshot);
    let config = snapshot.config.as_ref();
    let target = TargetView::of(snapshot, &desired);
    let states: Vec<MachineState<'_>> = snapshot.machines.iter().map(MachineState::of).collect();
    let machines = MachineCounts::of(&states, target.as_ref());
    let is_updated =
        |state: &MachineState<'_>| target.as_ref().is_some_and(|target| target.is_on(state));
    let behind = states.iter().filter(|state| !is_updated(state));
    let behind = behind.map(|state| NodeView::of(state, Some(name))).collect();
    let conditions = CONDITIONS.iter().filter_map(|kind| condition(&pool.status.conditions, kind));
    let mut view = RolloutView {
        pool: name.clone(),
        config: config.map(|config| config.metadata.name.clone()),
        // What a wrong value means is in the message.
        mode: config.and_then(|one| RolloutMode::of(&one.metadata).ok()).unwrap_or_default(),
        paused: pool.spec.paused,
        phase: RolloutPhase::Off,
        message: String::new(),
        target,
        machines,
        soft_reboots: SoftReboots::of(&states),
        conditions: conditions.map(PoolCondition::from).collect(),
        behind,
        now,
    };
    (view.phase, view.message) = phase(snapshot, &desired, &view);
    view
}

impl MachineCounts {
    fn of(states: &[MachineState<'_>], target: Option<&TargetView>) -> Self {
        let mut counts = Self { all: states.len(), ..Self::default() };
        for state in states {
            let is_updated = target.is_some_and(|target| target.is_on(state));
            let is_available = state.is_available();
            let node_state = state.machine.node.metadata.annotation(labels::NODE_STATE);
            let (booted, staged) = (state.booted(), state.staged.as_ref());
            let digest = target.map(|target| target.build.digest);
            let is_staged = staged.is_some_and(|staged| Some(staged.image.digest()) == digest);
            counts.updated += usize::from(is_updated);
            counts.ready += usize::from(is_updated && is_available);
            counts.staged += usize::from(is_staged && !is_updated);
            counts.live += usize::from(is_updated && booted != digest);
            counts.unavailable += usize::from(!is_available || state.has_slot());
            counts.degraded += usize::from(NodeState::is_degraded(node_state));
        }
        counts
    }
}

fn phase(
    snapshot: &RolloutSnapshot,
    desired: &Desired,
    view: &RolloutView,
) -> (RolloutPhase, String) {
    let pool = &view.pool;
    let blocked = |message: String| (RolloutPhase::Blocked, message);
    if let Some(who) = &snapshot.other_controller {
        return blocked(format!("{who} brings images to the machines, so mosb does not"));
    }
    if let Desired::Invalid(error) = desired {
        return blocked(error.message.clone());
    }
    let degraded = condition(&snapshot.pool.status.conditions, ROLLOUT_DEGRADED);
    let degraded = degraded.filter(|one| one.is_true());
    if let Some(condition) = degraded.filter(|one| one.reason == NOT_ENABLED) {
        return blocked(condition.message.clone());
    }
    let Some(target) = &view.target else {
        let why = if view.config.is_none() {
            "it has no MachineOSConfig"
        } else {
            "it has no image in service yet"
        };
        return (RolloutPhase::Off, format!("nothing is rolled out: {why}"));
    };
    let (counts, build) = (view.machines, short(&target.build));
    if counts.all == 0 {
        let message = "the pool selects no machines; compare its nodeSelector with the labels of the nodes; mosb nodes lists the pool of each";
        return blocked(message.to_owned());
    }
    let mut runs = format!("{} of {} machines run {build}", counts.updated, counts.all);
    if counts.live > 0 {
        runs += &format!(", {} of them live: they boot it at their next reboot", counts.live);
    }
    if counts.updated == counts.all {
        return (RolloutPhase::Updated, runs);
    }
    let has_slot = view.behind.iter().any(|node| node.has_slot);
    let mode = if target.is_once { RolloutMode::Automatic } else { view.mode };
    let staged = counts.updated + counts.staged;
    if mode == RolloutMode::None && !has_slot {
        let message = format!(
            "{runs}; nothing is rolled out, because mosb.dev/rollout is none: mosb rollout start {pool} does it once"
        );
        return (RolloutPhase::Off, message);
    }
    if mode == RolloutMode::Stage && staged == counts.all && !has_slot {
        let message = format!("{build} is staged or running on all {staged} machines");
        return (RolloutPhase::Staged, message);
    }
    if view.paused && !has_slot {
        let message = format!("{runs}; the pool is paused: mosb rollout resume {pool} goes on");
        return (RolloutPhase::Paused, message);
    }
    match degraded.filter(|one| !PASSING.contains(&&*one.reason)) {
        Some(one) if MACHINES_FAILED.contains(&&*one.reason) => {
            return (RolloutPhase::Failed, format!("{runs}; {}", one.message));
        }
        Some(one) => return blocked(format!("{runs}; {}", one.message)),
        None => {}
    }
    if view.behind.iter().all(NodeView::is_degraded) {
        return (RolloutPhase::Failed, format!("{runs}; {}", reasons(&view.behind)));
    }
    let waiting = degraded.map(|one| format!("; waiting: {}", one.message)).unwrap_or_default();
    let message = format!("{runs}, {} staged{}{waiting}", counts.staged, working(&view.behind));
    (RolloutPhase::Progressing, message)
}

/// `NAME@sha256:` and 12 digits: one line has little space.
fn short(build: &PinnedBuild) -> String {
    format!("{}@sha256:{}", build.name, &build.digest.hex()[..12])
}

/// The nodes with a slot, and what they wait for.
fn working(behind: &[NodeView]) -> String {
    let text = |node: &NodeView| {
        let reason = node.reason.as_ref().map(|reason| format!(": {reason}"));
        let state = node.state.as_deref().unwrap_or("Working");
        format!("; {} {state}{}", node.name, reason.unwrap_or_default())
    };
    let slots = behind.iter().filter(|node| node.has_slot);
    slots.take(NAMED).map(text).collect()
}

fn reasons(behind: &[NodeView]) -> String {
    let text = |node: &NodeView| {
        format!("{}: {}", node.name, node.reason.as_deref().unwrap_or("no reason is known"))
    };
    behind.iter().take(NAMED).map(text).collect::<Vec<_>>().join("; ")
}
