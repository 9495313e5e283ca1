//! What a machine with a slot gets next: evictions, the Job that reboots it, another attempt, or the
//! end of its slot.
//!
//! Invariant: the patch that ends a slot uncordons only what the slot cordoned.

use std::time::Duration;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

use super::begin_apply::may_have_job;
use super::context::Context;
use super::drain::{Drain, DrainRecord};
use super::effect::{Action, Eviction};
use super::elapsed::elapsed;
use super::lookup::RolloutLookup;
use super::machine_plan::MachinePlan;
use super::machine_state::MachineState;
use super::machine_status::MachineFailure;
use super::new_job::may_be_soft;
use super::node_patch::NodeState;
use super::slot_phase::{MAX_TRIES, SlotPhase};
use mosb_api::rollout::{Fallback, NodeTarget, Slot};
use mosb_cluster::status::EventReason;

/// How soon pods are listed that may have come meanwhile.
const LIST_REQUEUE: Duration = Duration::from_secs(5);
/// How soon the result of evictions decides when pods are listed again.
const EVICTED_REQUEUE: Duration = Duration::from_secs(1);

impl MachinePlan {
    /// A machine with a slot. Returns the slot that it has afterwards.
    pub fn advance(
        &mut self,
        ctx: &Context<'_>,
        state: &MachineState<'_>,
        slot: &Slot,
        phase: &SlotPhase,
    ) -> Option<Slot> {
        match phase {
            SlotPhase::Finished => {
                self.release(ctx, state, slot, &slot.target);
                let soft = state.soft_reboot().map(|soft| format!(" ({soft})")).unwrap_or_default();
                let text = format!("{} runs {}{soft}", state.name(), slot.target.image);
                self.event = Some((EventReason::NodeUpdated, text));
                return None;
            }
            SlotPhase::Draining if ctx.takes_back(state, slot) && !may_have_job(slot, ctx.now) => {
                self.take_back(ctx, state, slot);
                return None;
            }
            // A registry is still asked which image it is, as that of the stock image: until the answer, all
            // stays as it is.
            SlotPhase::Draining if ctx.is_target_pending() && !ctx.may_run(&slot.target) => {}
            SlotPhase::Draining => return Some(self.drain(ctx, state, slot)),
            SlotPhase::Applying { is_rebooting: false } => {
                self.under_way(
                    slot,
                    NodeState::Working,
                    &state.job_waiting(ctx.now).unwrap_or_default(),
                );
            }
            SlotPhase::Applying { is_rebooting: true } => {
                self.under_way(slot, NodeState::Rebooting, "");
            }
            SlotPhase::AwaitingReport => {
                let reason = no_report(state).unwrap_or_default();
                self.waiting = Some(reason.clone()).filter(|reason| !reason.is_empty());
                self.under_way(slot, NodeState::Rebooting, &reason);
            }
            SlotPhase::NextAttempt => {
                let next = Slot {
                    attempt: slot.attempt + 1,
                    boot_id: state.machine.node.boot_id.clone(),
                    applying: None,
                    ..slot.clone()
                };
                self.patch.slot(Some(&next));
                self.under_way(slot, NodeState::Working, "");
                let text = format!(
                    "{} rebooted without a try to boot {}; attempt {}",
                    state.name(),
                    slot.target.image,
                    next.attempt
                );
                self.event = Some((EventReason::NodeRetried, text));
                return Some(next);
            }
            SlotPhase::Retry => {
                self.under_way(slot, NodeState::Working, "");
                // Its Job is deleted, and a new one follows.
                return Some(Slot { attempt: 0, ..slot.clone() });
            }
            SlotPhase::Failing(failure) => {
                let next = Slot { applying: None, failure: Some(failure.clone()), ..slot.clone() };
                self.patch.slot(Some(&next));
                self.under_way(&next, NodeState::Degraded, "");
                return Some(next);
            }
            SlotPhase::Failed { retry_in } => {
                self.requeue_after = *retry_in;
                return self.failed(ctx, state, slot);
            }
            SlotPhase::Lost { since } => {
                let text = if state.machine.node.ready && state.machine.node.boot_id == slot.boot_id
                {
                    let why = state.job_waiting(ctx.now).map(|why| format!(": {why}"));
                    let why = why.unwrap_or_else(|| "; see its pod in mosb-rollout".to_owned());
                    // A soft reboot keeps the boot ID.
                    let is_known = !may_be_soft(ctx.snapshot);
                    let what = if is_known { "not rebooted" } else { "not back" };
                    format!("{what}: its Job runs since {since}{why}")
                } else {
                    let cause = no_report(state).map(|cause| format!(": {cause}"));
                    let cause = cause.unwrap_or_default();
                    format!("not back with {} since {since}{cause}", slot.target.image)
                };
                self.degrade(NodeState::Degraded, text);
            }
        }
        Some(slot.clone())
    }

    /// A machine whose `apply` Job is not seen. Returns the slot that it has afterwards.
    fn drain(&mut self, ctx: &Context<'_>, state: &MachineState<'_>, slot: &Slot) -> Slot {
        let mut next = slot.clone();
        let mut held = None;
        let machine = state.machine;
        let is_uncordoned = slot.cordoned && !machine.node.unschedulable;
        if slot.cordoned {
            self.patch.cordon(true);
        }
        // The Jobs of a machine that is not Ready would wait, and its pods don't end.
        if !machine.node.ready {
            self.waiting = Some("it is not Ready".to_owned());
        } else if !ctx.may_create_jobs() {
            // Nothing would follow the drain; the condition of the pool has the reason.
            self.waiting = Some("no Job may be created".to_owned());
        } else if is_uncordoned {
            // Pods may come until it is cordoned again: they are looked up afterwards.
            self.waiting = Some("somebody uncordoned it".to_owned());
            self.requeue_after = Some(LIST_REQUEUE);
        } else if slot.without_drain {
            next = self.begin_apply(ctx, state, slot);
        } else {
            let record = machine.drain.as_ref();
            match ctx.snapshot.lookup_results.pods.get(state.name()) {
                None => match record.and_then(|record| Some((record, record.wait(ctx.now)?))) {
                    Some((record, left)) => {
                        self.requeue_after = Some(left);
                        self.waiting = record.waiting();
                        held = record.held();
                    }
                    None => {
                        self.lookups.push(RolloutLookup::Pods { node: state.name().to_owned() });
                    }
                },
                Some(Err(problem)) => {
                    let now = DrainRecord::after_list(record, Err(&problem.message), ctx.now);
                    self.waiting = now.waiting();
                    // What held the drain before still does, as far as is known.
                    held = now.held();
                    self.requeue_after = Some(now.interval());
                }
                Some(Ok(pods)) => {
                    let drain = Drain::of(pods, record);
                    if drain.is_done() {
                        next = self.begin_apply(ctx, state, slot);
                    } else {
                        let now = DrainRecord::after_list(record, Ok(&drain), ctx.now);
                        let is_evicting = !drain.evict.is_empty();
                        self.requeue_after =
                            Some(if is_evicting { EVICTED_REQUEUE } else { now.interval() });
                        self.waiting = now.held();
                    }
                    self.actions.extend(drain.evictions().map(|pod| {
                        Action::from(Eviction {
                            namespace: pod.namespace.clone(),
                            pod: pod.name.clone(),
                            uid: pod.uid.clone(),
                            node: state.name().to_owned(),
                        })
                    }));
                }
            }
        }
        let limit = ctx.policy().and_then(|policy| policy.drain_timeout);
        if let Some(limit) = limit.filter(|_| next.applying.is_none()) {
            let left = limit.0.checked_sub(elapsed(slot.since.0, ctx.now));
            let left = left.filter(|left| !left.is_zero());
            self.is_drain_late = left.is_none();
            self.requeue_after = self.requeue_after.into_iter().chain(left).min();
        }
        let reason = held.or_else(|| self.waiting.clone()).unwrap_or_default();
        self.under_way(&next, NodeState::Working, &reason);
        next
    }

    /// The state of a machine with a slot. One that failed is degraded until it runs its target, so
    /// that another try does not hide it.
    fn under_way(&mut self, slot: &Slot, state: NodeState, reason: &str) {
        let Some(failure) = &slot.failure else {
            self.patch.state(state, reason);
            return;
        };
        let text = if failure.is_final {
            failure.message.clone()
        } else {
            format!("{}; {} of {MAX_TRIES} tries failed", failure.message, failure.tries)
        };
        self.degrade(NodeState::Degraded, text);
    }

    /// A machine that did not boot its target gets the newer one within its slot.
    fn failed(&mut self, ctx: &Context<'_>, state: &MachineState<'_>, slot: &Slot) -> Option<Slot> {
        let newer = ctx.rolls_to().filter(|target| **target != slot.target);
        if let Some(target) = newer.filter(|_| state.machine.node.ready) {
            // Its machine part needs no slot, or it gets another one for it.
            if state.runs(target.image.digest()) || state.has(target) {
                self.release(ctx, state, slot, target);
                let text = format!("{} runs {}", state.name(), target.image);
                self.event = Some((EventReason::NodeUpdated, text));
                return None;
            }
            if state.staged.as_ref() == Some(target) {
                let attempt = state.next_attempt(target);
                let next = Slot {
                    target: target.clone(),
                    since: Time(ctx.now),
                    attempt,
                    first_attempt: attempt,
                    boot_id: state.machine.node.boot_id.clone(),
                    applying: None,
                    failure: None,
                    ..slot.clone()
                };
                self.patch.slot(Some(&next));
                self.patch.desired_target(target);
                self.patch.state(NodeState::Working, "");
                let text = format!(
                    "{} gets {} in place of {}",
                    state.name(),
                    target.image,
                    slot.target.image
                );
                self.event = Some((EventReason::NodeSlotGiven, text));
                return Some(next);
            }
        }
        if let Some(left) = state.went_back_from(&slot.target, ctx.now)
            && state.machine.node.ready
        {
            self.leave_on_earlier(ctx, state, slot, &left);
            return None;
        }
        let has_no_config = ctx.snapshot.config.is_none() && ctx.snapshot.rivals.is_empty();
        if has_no_config && state.machine.node.ready && state.report.is_some() {
            self.take_back(ctx, state, slot);
            return None;
        }
        self.under_way(slot, NodeState::Degraded, "");
        Some(slot.clone())
    }

    fn release(
        &mut self,
        ctx: &Context<'_>,
        state: &MachineState<'_>,
        slot: &Slot,
        target: &NodeTarget,
    ) {
        self.end_slot(slot);
        self.confirm(ctx, state, target);
        if state.runs(target.image.digest()) {
            self.patch.staged(None);
        }
        self.patch.desired_target(target);
        self.patch.state(NodeState::Done, "");
    }

    fn end_slot(&mut self, slot: &Slot) {
        self.patch.slot(None);
        if slot.cordoned {
            self.patch.cordon(false);
        }
        if slot.disables_scale_down {
            self.patch.disable_scale_down(false);
        }
    }

    /// A machine that went back by itself is in service again, and does not get the target once more.
    fn leave_on_earlier(
        &mut self,
        ctx: &Context<'_>,
        state: &MachineState<'_>,
        slot: &Slot,
        left: &Fallback,
    ) {
        self.end_slot(slot);
        self.patch.fallback(Some(left));
        let (image, config) = ctx.current(state);
        self.patch.desired(image, config);
        self.degrade(NodeState::Degraded, ctx.left_text(left));
    }

    fn take_back(&mut self, ctx: &Context<'_>, state: &MachineState<'_>, slot: &Slot) {
        self.end_slot(slot);
        let (image, config) = ctx.current(state);
        self.patch.desired(image, config);
        self.patch.state(NodeState::Done, "");
        let text = format!("{} is not drained for {} any more", state.name(), slot.target.image);
        self.event = Some((EventReason::NodeDrainCancelled, text));
    }
}

/// Why a machine did not report what it booted, if that is known.
fn no_report(state: &MachineState<'_>) -> Option<String> {
    let failure = MachineFailure::of(state, None).filter(|_| state.report.is_none());
    failure.map(|failure| failure.message)
}
