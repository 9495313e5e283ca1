//! What one machine gets: its marks, the Jobs on it and the evictions of its drain.
//!
//! Input: its state and the target of the pool. Output: one patch of its Node, and Jobs to create
//! or delete. Invariant: the patch that ends a slot uncordons only what the slot cordoned.

use std::time::Duration;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

use super::context::Context;
use super::drain::{self, Drain};
use super::job_request::{NodeJobRequest, NodeLogin, NodeVerb};
use super::lookup::RolloutLookup;
use super::machine_state::{MachineState, SlotMark};
use super::marks::{Marks, NodeState};
use super::slot_phase::SlotPhase;
use super::snapshot::{JobPhase, MachineJob};
use super::staging::{self, Trouble};
use crate::action::Action;
use crate::kinds::Kind;
use crate::status::EventReason;
use crate::target::Target;
use mosb_plan::api::rollout::{NodeTarget, Slot, StagedMark};

/// How often a drain is tried again.
const DRAIN_INTERVAL: Duration = Duration::from_secs(5);

/// What one machine gets in this pass.
#[derive(Debug, Default)]
pub(super) struct MachinePlan {
    pub marks: Marks,
    pub create: Vec<NodeJobRequest>,
    /// Logins and evictions.
    pub actions: Vec<Action>,
    pub delete: Vec<Action>,
    pub lookup: Option<RolloutLookup>,
    pub event: Option<(EventReason, String)>,
    /// It gets a slot in this pass.
    pub is_given: bool,
    /// Why the machine counts as degraded.
    pub degraded: Option<String>,
    /// What it waits for.
    pub waiting: Option<String>,
    pub requeue_after: Option<Duration>,
}

impl MachinePlan {
    pub fn of(cx: &Context<'_>, state: &MachineState<'_>, phase: Option<&SlotPhase>) -> Self {
        let mut plan = Self::default();
        if state.is_being_deleted() {
            return plan;
        }
        let is_part = cx.is_part(state);
        if is_part {
            plan.common_marks(cx, state);
        }
        let slot = match (&state.slot, phase) {
            (SlotMark::Valid(slot), Some(phase)) => plan.advance(cx, state, slot, phase),
            (SlotMark::Unreadable, _) => {
                let text = "annotation mosb.dev/slot is not readable; check the machine, uncordon the node if it runs the pool's image, and remove the annotation";
                plan.degraded = Some(text.to_owned());
                None
            }
            _ => {
                if is_part {
                    plan.free_marks(cx, state);
                }
                None
            }
        };
        for job in &state.machine.jobs {
            if is_obsolete(cx, state, slot.as_ref(), job) {
                plan.delete.push(Action::Delete(target_of(job).any_version()));
            } else if !job.has_login
                && job.phase == JobPhase::Running
                && !job.deleting
                && let Some(target) = &job.target
            {
                plan.actions.push(Action::CreateNodeLogin(Box::new(NodeLogin {
                    job: job.name.clone(),
                    job_uid: job.uid.clone(),
                    target: target.clone(),
                    pull_secret: cx.pull_secret(),
                })));
            }
        }
        plan
    }

    /// The machine gets this slot: from this patch on it may be unavailable. `is_etcd_unseen`: a
    /// control-plane machine of a cluster whose etcd is external.
    pub fn give(&mut self, slot: &Slot, state: &MachineState<'_>, is_etcd_unseen: bool) {
        self.is_given = true;
        self.marks.slot(Some(slot));
        self.marks.cordon(true);
        self.marks.desired_target(&slot.target);
        self.marks.state(NodeState::Working, "");
        let unseen = if is_etcd_unseen { "; etcd is external and was not checked" } else { "" };
        let text = format!("{} is drained for {}{unseen}", state.name(), slot.target.image);
        self.event = Some((EventReason::NodeSlotGiven, text));
    }

    /// What the machine reported, and what is staged on it.
    fn common_marks(&mut self, cx: &Context<'_>, state: &MachineState<'_>) {
        if let Some(report) = &state.report {
            self.marks.report(report);
            let (image, config) = cx.current(report);
            self.marks.current(image, config);
        }
        let staged = state.staged.as_ref().filter(|staged| !state.runs(staged.image.digest()));
        let mark = staged.map(|target| StagedMark {
            target: target.clone(),
            boot_id: state.machine.boot_id.clone(),
        });
        self.marks.staged(mark.as_ref());
    }

    /// A machine without a slot.
    fn free_marks(&mut self, cx: &Context<'_>, state: &MachineState<'_>) {
        let target = cx.target();
        if let Some(report) = &state.report {
            match target.filter(|target| state.runs(target.image.digest())) {
                Some(target) => self.marks.desired_target(target),
                // Without a slot, the machine should stay what it is.
                None => {
                    let (image, config) = cx.current(report);
                    self.marks.desired(image, config);
                }
            }
        }
        match cx.trouble(state) {
            Some(Trouble::Unreconcilable(text)) => {
                self.marks.state(NodeState::Unreconcilable, &text);
                self.degraded = Some(text);
            }
            Some(Trouble::Failing(text)) => {
                self.marks.state(NodeState::Degraded, &text);
                self.degraded = Some(text);
            }
            None if state.report.is_some() && cx.knows_trouble(state) => {
                self.marks.state(NodeState::Done, "");
            }
            None => {}
        }
    }

    /// A machine with a slot. Returns the slot that it has afterwards.
    fn advance(
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
        let apply = || {
            let (verb, target) = (NodeVerb::Apply, Some(&slot.target));
            NodeJobRequest::new(cx.snapshot, machine, verb, target, slot.attempt)
        };
        // The Jobs of a machine that is not Ready would wait, and its pods don't end.
        if !machine.ready {
            self.waiting = Some("it is not Ready".to_owned());
        } else if drain::is_skipped(state, &cx.snapshot.cluster) {
            self.create.push(apply());
        } else {
            match cx.snapshot.lookup_results.pods.get(state.name()) {
                None => {
                    self.lookup = Some(RolloutLookup::Pods { node: state.name().to_owned() });
                }
                Some(Err(problem)) => {
                    self.waiting = Some(problem.message.clone());
                    self.requeue_after = Some(DRAIN_INTERVAL);
                }
                Some(Ok(pods)) => {
                    let drain = Drain::of(pods);
                    if drain.is_done() {
                        self.create.push(apply());
                    } else {
                        self.requeue_after = Some(DRAIN_INTERVAL);
                    }
                    if let Some(refusal) =
                        machine.refusals.first().filter(|_| !drain.evict.is_empty())
                    {
                        reason = format!(
                            "draining: pod {}/{}: {}",
                            refusal.namespace, refusal.pod, refusal.message
                        );
                        self.waiting = Some(reason.clone());
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
                let next = Slot {
                    target: target.clone(),
                    since: Time(cx.now),
                    attempt: 1,
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

/// Whether the result of a Job is on the node, or nothing waits for it. `slot` is the slot that the
/// machine has after this pass.
fn is_obsolete(
    cx: &Context<'_>,
    state: &MachineState<'_>,
    slot: Option<&Slot>,
    job: &MachineJob,
) -> bool {
    if job.deleting {
        return false;
    }
    if job.node_uid != state.machine.metadata.uid() {
        return true;
    }
    let is_older =
        state.job(job.verb, job.target.as_ref()).is_some_and(|newest| newest.number > job.number);
    match job.verb {
        NodeVerb::Report => {
            is_older || state.report.is_some() && job.phase != JobPhase::Running || cx.is_off()
        }
        NodeVerb::Stage => {
            let is_other = match cx.target() {
                Some(target) => job.target.as_ref() != Some(target),
                None => cx.is_off(),
            };
            let digest = job.target.as_ref().map(|target| target.image.digest());
            let is_booted = digest.is_some() && state.booted() == digest;
            is_older || is_other || is_booted || state.has_staged(job)
        }
        NodeVerb::Apply => {
            state.slot != SlotMark::Unreadable
                && slot.is_none_or(|slot| {
                    job.target.as_ref() != Some(&slot.target) || job.number != slot.attempt
                })
        }
    }
}

fn target_of(job: &MachineJob) -> Target {
    Target {
        kind: Kind::NodeJob,
        name: job.name.clone(),
        uid: job.uid.clone(),
        version: Some(job.resource_version.clone()),
    }
}

/// What is due for a machine that has no slot.
pub(super) fn next_try(
    cx: &Context<'_>,
    state: &MachineState<'_>,
    phase: Option<&SlotPhase>,
) -> Option<Duration> {
    let wait = |tries| match tries {
        staging::Tries::Waiting(left) => Some(left),
        staging::Tries::Due(_) | staging::Tries::UnderWay | staging::Tries::Final => None,
    };
    if state.report.is_none() {
        return wait(staging::tries(state, NodeVerb::Report, None, cx.now));
    }
    let target = cx.stages().filter(|target| staging::wants_stage(state, phase, target))?;
    wait(staging::tries(state, NodeVerb::Stage, Some(target), cx.now))
}
