//! What precedes the Job that reboots a drained machine. The slot records it before the Job is
//! created, so that neither a late view of the Jobs nor another controller takes the slot back
//! under a machine that reboots.
//!
//! Invariant: the Job of a slot is created only while its record is fresh, and a slot is taken back
//! only once its record is so old that no Job can follow from it unseen.

use std::time::Duration;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

use super::context::Context;
use super::desired_target::Desired;
use super::elapsed::elapsed;
use super::job_request::{NodeJobRequest, NodeVerb};
use super::lookup::RolloutLookup;
use super::machine_plan::MachinePlan;
use super::machine_state::MachineState;
use super::slots::ControlPlaneCheck;
use jiff::Timestamp;
use mosb_api::rollout::{Applying, Slot};
use mosb_cluster::status::{EventReason, ROLLOUT_DEGRADED};
use mosb_reconcile::waits::ROLLOUT_PROBLEM;

/// How long after its record a Job may be created; then it is recorded again.
const RECORD_FRESH: Duration = Duration::from_secs(5 * 60);
/// How long after its record a Job may exist unseen: it is created at the end of the time above by
/// a pass that takes minutes, and the watch of Jobs may be as late.
const RECORD_HOLDS: Duration = Duration::from_secs(20 * 60);

/// Whether an `apply` Job of this slot may exist although it is not seen.
pub(super) fn may_have_job(slot: &Slot, now: Timestamp) -> bool {
    slot.applying.as_ref().is_some_and(|record| elapsed(record.since.0, now) < RECORD_HOLDS)
}

impl MachinePlan {
    /// The next step of a machine whose pods are gone. Returns the slot that it has afterwards.
    pub(super) fn begin_apply(
        &mut self,
        ctx: &Context<'_>,
        state: &MachineState<'_>,
        slot: &Slot,
    ) -> Slot {
        if !ctx.may_run(&slot.target) {
            let image = &slot.target.image;
            self.wait_for(match ctx.desired {
                // The message may differ in each pass, and the Node would be patched each time.
                Desired::Unknown(problem) => format!(
                    "it is not known whether it may run {image}: {}; see condition {ROLLOUT_DEGRADED} of the pool",
                    problem.cause()
                ),
                _ => format!("{image} is not a known image of the pool"),
            });
            return slot.clone();
        }
        if state.is_control_plane() {
            let health = ctx.snapshot.lookup_results.control_plane.as_ref();
            let nodes = &ctx.snapshot.cluster.control_plane;
            match ControlPlaneCheck::of(state.name(), nodes, health) {
                ControlPlaneCheck::Healthy => {}
                ControlPlaneCheck::LookUp => {
                    self.lookups.push(RolloutLookup::ControlPlane);
                    return slot.clone();
                }
                ControlPlaneCheck::Unhealthy(why) => {
                    self.wait_for(format!("the control plane must not lose a node: {why}"));
                    return slot.clone();
                }
            }
        }
        let is_recorded = slot.applying.as_ref().is_some_and(|record| {
            record.attempt == slot.attempt && elapsed(record.since.0, ctx.now) < RECORD_FRESH
        });
        if is_recorded {
            let (verb, target) = (NodeVerb::Apply, Some(&slot.target));
            self.create.push(NodeJobRequest::new(
                ctx.snapshot,
                state.machine,
                verb,
                target,
                slot.attempt,
            ));
            let text = format!(
                "{} is drained and reboots into {}, attempt {}",
                state.name(),
                slot.target.image,
                slot.attempt
            );
            self.event = Some((EventReason::NodeRebooting, text));
            slot.clone()
        } else if ctx.takes_back(state, slot) {
            self.wait_for("its apply Job may still be running unseen".to_owned());
            slot.clone()
        } else {
            let record = Applying { attempt: slot.attempt, since: Time(ctx.now) };
            let next = Slot { applying: Some(record), ..slot.clone() };
            self.patch.slot(Some(&next));
            next
        }
    }

    fn wait_for(&mut self, cause: String) {
        self.waiting = Some(cause);
        self.requeue_after = Some(ROLLOUT_PROBLEM);
    }
}
