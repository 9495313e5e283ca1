//! The machines of a pass that get a slot, and the patch that gives it.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

use super::context::Context;
use super::decide::{PROBLEM_REQUEUE, Pass};
use super::lookup::{ControlPlaneHealth, RolloutLookup};
use super::machine_state::MachineState;
use super::slot_phase::SlotPhase;
use super::slots::{self, SlotCandidate, SlotChoice, StopReason};
use mosb_plan::api::rollout::{NodeTarget, Slot};

const ZONE: &str = "topology.kubernetes.io/zone";

impl Pass<'_> {
    /// The machines that get a slot now.
    pub fn choose_slots(&mut self) -> Vec<String> {
        let snapshot = self.cx.snapshot;
        let Some(target) = self.cx.rolls_to() else {
            return Vec::new();
        };
        let max = &snapshot.pool.spec.max_unavailable;
        let max = match slots::max_unavailable(max.as_ref(), snapshot.machines.len()) {
            Ok(max) => max,
            Err(message) => {
                self.block("BadMaxUnavailable", message, None);
                return Vec::new();
            }
        };
        let candidates: Vec<SlotCandidate<'_>> = self
            .machines
            .iter()
            .map(|(state, phase)| candidate(self.cx, state, phase.as_ref(), target))
            .collect();
        let cluster = &snapshot.cluster;
        let health = snapshot.lookup_results.control_plane.as_ref();
        match slots::choose(&candidates, max, &cluster.control_plane, health) {
            SlotChoice::Give(names) => names,
            SlotChoice::LookUpControlPlane => {
                self.lookups.push(RolloutLookup::ControlPlane);
                Vec::new()
            }
            SlotChoice::Stopped(stop) => {
                let (reason, message) = match stop {
                    StopReason::Lost(names) => {
                        ("MachineLost", stopped("not back", &names, "repair them"))
                    }
                    StopReason::Failed(names) => {
                        let pool = &snapshot.pool.metadata.name;
                        let remedy = format!("repair them and run mosb rollout start {pool}");
                        ("MachinesFailed", stopped("did not boot the target", &names, &remedy))
                    }
                    StopReason::ControlPlane(why) => (
                        "ControlPlaneUnhealthy",
                        format!(
                            "no control-plane machine is rebooted: {why}; repair the control plane"
                        ),
                    ),
                };
                self.block(reason, message, Some(PROBLEM_REQUEUE));
                Vec::new()
            }
        }
    }

    pub fn give_slot(&mut self, name: &str, target: &NodeTarget) {
        let now = self.cx.now;
        let found = self.machines.iter().zip(&mut self.plans);
        for ((state, _), plan) in found.filter(|((state, _), _)| state.name() == name) {
            let attempt = state.next_attempt(target);
            let slot = Slot {
                target: target.clone(),
                since: Time(now),
                attempt,
                first_attempt: attempt,
                boot_id: state.machine.boot_id.clone(),
                cordoned: true,
            };
            let is_blind = state.is_control_plane()
                && self.cx.snapshot.lookup_results.control_plane
                    == Some(ControlPlaneHealth::Healthy { is_etcd_external: true });
            plan.give(&slot, state, is_blind);
        }
    }
}

fn candidate<'a>(
    cx: &Context<'_>,
    state: &MachineState<'a>,
    phase: Option<&SlotPhase>,
    target: &NodeTarget,
) -> SlotCandidate<'a> {
    let metadata = &state.machine.metadata;
    SlotCandidate {
        name: state.name(),
        zone: metadata.labels.get(ZONE).map(String::as_str),
        created: metadata.creation_timestamp.as_ref().map(|time| time.0),
        is_available: state.is_available(),
        has_slot: state.has_slot(),
        is_failed: phase.is_some_and(SlotPhase::is_failed),
        is_lost: matches!(phase, Some(SlotPhase::Lost { .. })),
        is_staged: state.staged.as_ref() == Some(target)
            && state.report.is_some()
            && !state.runs(target.image.digest())
            && !state.is_being_deleted(),
        is_control_plane: state.is_control_plane(),
        is_own: cx.snapshot.cluster.own_node.as_deref() == Some(state.name()),
    }
}

fn stopped(what: &str, names: &[String], remedy: &str) -> String {
    format!(
        "no machine is rebooted: {what}: {}; {remedy}, or bring a corrected image into service",
        names.join(", ")
    )
}
