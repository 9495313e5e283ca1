//! What a machine with a slot gets next: evictions, the Job that reboots it, another attempt, or the
//! end of its slot.
//!
//! Invariant: the patch that ends a slot uncordons only what the slot cordoned.

use std::time::Duration;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

use super::context::Context;
use super::drain::{self, Drain};
use super::job_request::{NodeJobRequest, NodeVerb};
use super::lookup::RolloutLookup;
use super::machine_plan::MachinePlan;
use super::machine_state::MachineState;
use super::marks::NodeState;
use super::slot_phase::SlotPhase;
use crate::action::Action;
use crate::status::EventReason;
use mosb_plan::api::rollout::{NodeTarget, Slot};

/// How often a drain is tried again.
const DRAIN_INTERVAL: Duration = Duration::from_secs(5);

impl MachinePlan {
    /// A machine with a slot. Returns the slot that it has afterwards.
    pub fn advance(
        &mut self,
        cx: &Context<'_>,
        state: &MachineState<'_>,
        slot: &Slot,
        phase: &SlotPhase,
    ) -> Option<Slot> {
        match phase {
            SlotPhase::Finished => {
                self.release(slot, &slot.target);
                let text = format!("{} runs {}", state.name(), slot.target.image);
                self.event = Some((EventReason::NodeUpdated, text));
                return None;
            }
            SlotPhase::Draining if cx.takes_back(slot) => {
                self.take_back(cx, state, slot);
                return None;
            }
            SlotPhase::Draining => self.drain(cx, state, slot),
            SlotPhase::Applying { is_rebooting: false } => {
                self.marks.state(NodeState::Working, "");
            }
            SlotPhase::Applying { is_rebooting: true } | SlotPhase::AwaitingReport => {
                self.marks.state(NodeState::Rebooting, "");
            }
            SlotPhase::NextAttempt => {
                let next = Slot {
                    attempt: slot.attempt + 1,
                    boot_id: state.machine.boot_id.clone(),
                    ..slot.clone()
                };
                self.marks.slot(Some(&next));
                self.marks.state(NodeState::Working, "");
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
                self.marks.state(NodeState::Working, "");
                // Its Job is deleted, and a new one follows.
                return Some(Slot { attempt: 0, ..slot.clone() });
            }
            SlotPhase::Failed { message, retry_in } => {
                self.requeue_after = *retry_in;
                return self.failed(cx, state, slot, message);
            }
            SlotPhase::Lost { since } => {
                let text = format!("not back with {} since {since}", slot.target.image);
                self.marks.state(NodeState::Degraded, &text);
                self.degraded = Some(text);
            }
        }
        Some(slot.clone())
    }

    fn drain(&mut self, cx: &Context<'_>, state: &MachineState<'_>, slot: &Slot) {
        if slot.cordoned {
            self.marks.cordon(true);
        }
        let mut reason = String::new();
        let machine = state.machine;
        let held = machine.refusals.first().map(|refusal| {
            format!("draining: pod {}/{}: {}", refusal.namespace, refusal.pod, refusal.message)
        });
        let apply = || {
            let (verb, target) = (NodeVerb::Apply, Some(&slot.target));
            NodeJobRequest::new(cx.snapshot, machine, verb, target, slot.attempt)
        };
        // The Jobs of a machine that is not Ready would wait, and its pods don't end.
        if !machine.ready {
            self.waiting = Some("it is not Ready".to_owned());
        } else if !cx.may_create_jobs() {
            // Nothing would follow the drain; the condition of the pool has the reason.
            self.waiting = Some("no Job may be created".to_owned());
        } else if drain::is_skipped(state, &cx.snapshot.cluster) {
            self.create.push(apply());
        } else {
            match cx.snapshot.lookup_results.pods.get(state.name()) {
                None => {
                    self.lookup = Some(RolloutLookup::Pods { node: state.name().to_owned() });
                }
                Some(Err(problem)) => {
                    self.waiting = Some(problem.message.clone());
                    // What held the drain before still does, as far as is known.
                    reason = held.unwrap_or_default();
                    self.requeue_after = Some(DRAIN_INTERVAL);
                }
                Some(Ok(pods)) => {
                    let drain = Drain::of(pods);
                    if drain.is_done() {
                        self.create.push(apply());
                    } else {
                        self.requeue_after = Some(DRAIN_INTERVAL);
                    }
                    if let Some(held) = held.filter(|_| !drain.evict.is_empty()) {
                        self.waiting = Some(held.clone());
                        reason = held;
                    }
                    self.actions.extend(drain.evict.iter().map(|pod| Action::Evict {
                        namespace: pod.namespace.clone(),
                        pod: pod.name.clone(),
                        uid: pod.uid.clone(),
                        node: state.name().to_owned(),
                    }));
                }
            }
        }
        if let Some(request) = self.create.first() {
            let text = format!(
                "{} is drained and reboots into {}, attempt {}",
                state.name(),
                slot.target.image,
                request.number
            );
            self.event = Some((EventReason::NodeRebooting, text));
        }
        self.marks.state(NodeState::Working, &reason);
    }

    /// A machine that did not boot its target gets the newer one within its slot.
    fn failed(
        &mut self,
        cx: &Context<'_>,
        state: &MachineState<'_>,
        slot: &Slot,
        message: &str,
    ) -> Option<Slot> {
        let newer = cx.rolls_to().filter(|target| **target != slot.target);
        if let Some(target) = newer.filter(|_| state.machine.ready) {
            if state.runs(target.image.digest()) {
                self.release(slot, target);
                let text = format!("{} runs {}", state.name(), target.image);
                self.event = Some((EventReason::NodeUpdated, text));
                return None;
            }
            if state.staged.as_ref() == Some(target) {
                let attempt = state.next_attempt(target);
                let next = Slot {
                    target: target.clone(),
                    since: Time(cx.now),
                    attempt,
                    first_attempt: attempt,
                    boot_id: state.machine.boot_id.clone(),
                    cordoned: slot.cordoned,
                };
                self.marks.slot(Some(&next));
                self.marks.desired_target(target);
                self.marks.state(NodeState::Working, "");
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
        if cx.snapshot.config.is_none() && state.machine.ready && state.report.is_some() {
            self.take_back(cx, state, slot);
            return None;
        }
        self.marks.state(NodeState::Degraded, message);
        self.degraded = Some(message.to_owned());
        Some(slot.clone())
    }

    fn release(&mut self, slot: &Slot, target: &NodeTarget) {
        self.marks.slot(None);
        self.marks.staged(None);
        if slot.cordoned {
            self.marks.cordon(false);
        }
        self.marks.desired_target(target);
        self.marks.state(NodeState::Done, "");
    }

    fn take_back(&mut self, cx: &Context<'_>, state: &MachineState<'_>, slot: &Slot) {
        self.marks.slot(None);
        if slot.cordoned {
            self.marks.cordon(false);
        }
        let (image, config) =
            state.report.as_ref().map_or((None, None), |report| cx.current(report));
        self.marks.desired(image, config);
        self.marks.state(NodeState::Done, "");
        let text = format!("{} is not drained for {} any more", state.name(), slot.target.image);
        self.event = Some((EventReason::NodeDrainCancelled, text));
    }
}
