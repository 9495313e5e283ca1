//! The machines of a pass that get a slot, and the patch that gives it.

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

use super::decide::Pass;
use super::lookup::{ControlPlaneHealth, RolloutLookup};
use super::machine_plan::MachinePlan;
use super::machine_state::MachineState;
use super::part_jobs::part_failure;
use super::slot_phase::SlotPhase;
use super::slots::{self, SlotCandidate, SlotChoice, SlotLimits, StopReason};
use super::snapshot::ClusterMachines;
use mosb_api::labels;
use mosb_api::rollout::{NodeTarget, Slot};
use mosb_reconcile::waits::{ROLLOUT_PROBLEM, ROLLOUT_WATCH};
use mosb_reconcile::watch::OWN_WRITE_TIMEOUT;

const ZONE: &str = "topology.kubernetes.io/zone";

impl<'a> Pass<'a> {
    /// The machines that get a slot for the target now.
    pub fn choose_slots(&mut self) -> Vec<String> {
        let Some(target) = self.ctx.rolls_to().filter(|_| self.ctx.policy_error().is_none()) else {
            return Vec::new();
        };
        let mut candidates = self.candidates(target);
        loop {
            let names = self.choose(&candidates, self.ctx.max_failed());
            let held = self.held.len();
            self.hold_blocked(&names, &candidates);
            if self.held.len() == held {
                return self.with_current_view(names);
            }
            for one in &mut candidates {
                one.is_staged &= !self.held.contains_key(one.name);
            }
        }
    }

    /// The machines that get a slot for what they ran before, because their checks failed.
    pub fn choose_back(&mut self) -> Vec<(String, NodeTarget)> {
        let back = self.machines.iter().filter_map(|(state, _)| {
            let back = self.ctx.brings_back(state).filter(|_| !state.has_slot())?;
            (state.report.is_some() && state.staged.as_ref() == Some(&back))
                .then(|| (state.name().to_owned(), back))
        });
        let mut back: BTreeMap<String, NodeTarget> = back.collect();
        let closed = self.gates.as_ref().and_then(|gates| gates.closed_for(self.ctx.now));
        self.again(closed.filter(|_| !back.is_empty()));
        let Some(target) = self.ctx.target().filter(|_| !back.is_empty() && closed.is_none())
        else {
            return Vec::new();
        };
        let mut candidates = self.candidates(target);
        for one in &mut candidates {
            one.is_staged = back.contains_key(one.name);
            (one.is_failed, one.is_lost, one.is_own_held) = (false, false, false);
        }
        let names = self.choose(&candidates, 0);
        let names = self.with_current_view(names);
        names.into_iter().filter_map(|name| back.remove_entry(&name)).collect()
    }

    /// The machines as what decides about slots for this target.
    fn candidates(&self, target: &NodeTarget) -> Vec<SlotCandidate<'a>> {
        let machines = self.machines.iter().zip(&self.plans);
        machines
            .map(|((state, phase), plan)| candidate(self, state, phase.as_ref(), plan, target))
            .collect()
    }

    fn choose(&mut self, candidates: &[SlotCandidate<'_>], max_failed: usize) -> Vec<String> {
        let snapshot = self.ctx.snapshot;
        let max = &snapshot.pool.spec.max_unavailable;
        let max_unavailable = match slots::max_unavailable(max.as_ref(), snapshot.machines.len()) {
            Ok(max) => max,
            Err(message) => {
                self.block("BadMaxUnavailable", message, None);
                return Vec::new();
            }
        };
        let limits = SlotLimits { max_unavailable, max_failed };
        let cluster = &snapshot.cluster;
        let health = snapshot.lookup_results.control_plane.as_ref();
        match slots::choose(candidates, limits, &cluster.control_plane, health) {
            SlotChoice::Give(names) => names,
            SlotChoice::LookUpControlPlane => {
                self.lookups.push(RolloutLookup::ControlPlane);
                Vec::new()
            }
            SlotChoice::Stopped(stop) => {
                let (reason, message) = match stop {
                    StopReason::Lost(names) => {
                        ("MachineLost", self.stopped("not back", &names, "repair them"))
                    }
                    StopReason::Failed(names) => {
                        let pool = &snapshot.pool.metadata.name;
                        let remedy = format!("repair them and run mosb rollout start {pool}");
                        let what = "failed at the target";
                        ("MachinesFailed", self.stopped(what, &names, &remedy))
                    }
                    StopReason::ControlPlane(why) => (
                        "ControlPlaneUnhealthy",
                        format!(
                            "no control-plane machine is rebooted: {why}; repair the control plane"
                        ),
                    ),
                };
                self.block(reason, message, Some(ROLLOUT_PROBLEM));
                Vec::new()
            }
        }
    }

    /// These machines, if the slots in the cache are those of this moment. Each patch is guarded by
    /// the version of its own Node alone, so a late view could exceed a limit of several nodes.
    fn with_current_view(&mut self, names: Vec<String>) -> Vec<String> {
        if names.is_empty() {
            return names;
        }
        let cluster = &self.ctx.snapshot.cluster;
        if let Some(watch) = &cluster.broken_watch {
            let message =
                format!("no machine is rebooted: the watch failed: {watch}; check the API server");
            self.block("WatchFailed", message, Some(ROLLOUT_WATCH));
            return Vec::new();
        }
        match &self.ctx.snapshot.lookup_results.slots {
            None => {
                self.lookups.push(RolloutLookup::Slots);
                names
            }
            Some(Err(problem)) => {
                self.block("LookupFailed", problem.message.clone(), Some(ROLLOUT_PROBLEM));
                Vec::new()
            }
            Some(Ok(slots)) if *slots == cluster.slots => names,
            Some(Ok(_)) => {
                // The watch shows the difference soon.
                self.again(Some(OWN_WRITE_TIMEOUT));
                Vec::new()
            }
        }
    }

    /// Which machines stop the pool, and since when they are unavailable for their image.
    fn stopped(&self, what: &str, names: &[String], remedy: &str) -> String {
        let with_time = |name: &String| {
            let mut machines = self.machines.iter();
            let found = machines.find(|(state, _)| state.name() == name);
            let slot = found.and_then(|(state, _)| state.valid_slot());
            slot.map_or_else(
                || name.clone(),
                |slot| format!("{name} (slot since {})", slot.since.0),
            )
        };
        let names: Vec<String> = names.iter().map(with_time).collect();
        format!(
            "no machine is rebooted: {what}: {}; {remedy}, or bring a corrected image into service",
            names.join(", ")
        )
    }

    pub fn give_slot(&mut self, name: &str, target: &NodeTarget) {
        let now = self.ctx.now;
        let found = self.machines.iter().zip(&mut self.plans);
        for ((state, _), plan) in found.filter(|((state, _), _)| state.name() == name) {
            let attempt = state.next_attempt(target);
            let slot = Slot {
                target: target.clone(),
                since: Time(now),
                attempt,
                first_attempt: attempt,
                boot_id: state.machine.node.boot_id.clone(),
                cordoned: true,
                disables_scale_down: state
                    .machine
                    .node
                    .metadata
                    .annotation(labels::SCALE_DOWN_DISABLED)
                    .is_none(),
                without_drain: is_drain_skipped(state, &self.ctx.snapshot.cluster),
                applying: None,
                failure: None,
            };
            let is_blind = state.is_control_plane()
                && self.ctx.snapshot.lookup_results.control_plane
                    == Some(ControlPlaneHealth::Healthy { is_etcd_external: true });
            plan.give(&slot, state, is_blind);
        }
    }
}

fn candidate<'a>(
    pass: &Pass<'a>,
    state: &MachineState<'a>,
    phase: Option<&SlotPhase>,
    plan: &MachinePlan,
    target: &NodeTarget,
) -> SlotCandidate<'a> {
    let ctx = pass.ctx;
    let metadata = &state.machine.node.metadata;
    SlotCandidate {
        name: state.name(),
        zone: metadata.labels.get(ZONE).map(String::as_str),
        created: metadata.creation_timestamp.as_ref().map(|time| time.0),
        is_available: state.is_available(),
        has_slot: state.has_slot(),
        is_failed: phase.is_some_and(SlotPhase::is_failed)
            || state.valid_slot().is_some_and(|slot| slot.failure.is_some())
            || ctx.is_held_back(state)
            || ctx.soak_failure(state).or(plan.soak_failure.clone()).is_some()
            || part_failure(state, target, ctx.now).is_some(),
        is_lost: matches!(phase, Some(SlotPhase::Lost { .. })),
        is_staged: state.staged.as_ref() == Some(target)
            && state.report.is_some()
            && !state.has(target)
            && !ctx.may_go_live(state)
            && !state.is_part_changing()
            && ctx.is_for(state)
            && !ctx.is_kept_from_target(state)
            && pass.gates.as_ref().is_none_or(|gates| gates.hold(ctx.ring_of(state)).is_none())
            && !state.is_being_deleted(),
        is_control_plane: state.is_control_plane(),
        is_own: ctx.is_own(state),
        is_own_held: ctx.is_own(state) && pass.holds_own().is_some(),
    }
}

/// Whether a machine that gets a slot now reboots without being drained: the only node of the
/// cluster, and the only one that takes the controller, without which the drain would not end. If it
/// is not known where the controller runs, that is the only control-plane node. If other nodes are only
/// cordoned or away, the machine waits for them.
fn is_drain_skipped(state: &MachineState<'_>, cluster: &ClusterMachines) -> bool {
    let has_controller_alone = match cluster.own_node.as_deref() {
        Some(own) => own == state.name() && cluster.other_places.is_none(),
        None => state.is_control_plane() && cluster.control_plane.len() <= 1,
    };
    has_controller_alone || cluster.nodes <= 1
}
