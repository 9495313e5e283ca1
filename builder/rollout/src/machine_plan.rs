//! What one machine gets: a patch of its Node, the Jobs on it and the evictions of its drain.
//!
//! Input: its state and the target of the pool. Output: one patch of its Node, its events, and Jobs to
//! create or delete. Invariant: the patch that ends a slot uncordons only what the slot cordoned.

use std::time::Duration;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

use super::context::Context;
use super::effect::{Action, RolloutEffect};
use super::job_request::{NodeJobRequest, NodeVerb};
use super::job_state::JobState;
use super::lookup::RolloutLookup;
use super::machine_state::{MachineState, SlotAnnotation};
use super::machine_status::{MachineProgress, MachineStatus};
use super::node_patch::{NodePatch, NodeState};
use super::obsolete_jobs::{deletion, is_obsolete};
use super::policy::{SoakPlan, SoakStep};
use super::slot_phase::SlotPhase;
use super::snapshot::JobPhase;
use super::{part_jobs, staging};
use mosb_api::labels;
use mosb_api::rollout::{ConfirmedTarget, NodeTarget, Slot, SoakPhase, StagedMark};
use mosb_cluster::status::{EventReason, new_event, regarding_node};

/// What one machine gets in this pass.
#[derive(Debug, Default)]
pub(super) struct MachinePlan {
    pub patch: NodePatch,
    pub create: Vec<NodeJobRequest>,
    /// Logins and evictions.
    pub actions: Vec<Action>,
    pub delete: Vec<Action>,
    pub lookups: Vec<RolloutLookup>,
    pub event: Option<(EventReason, String)>,
    /// It gets a slot in this pass.
    pub is_given: bool,
    /// Its drain takes longer than the policy permits.
    pub is_drain_late: bool,
    /// Why the machine fails at the target with this pass, by the checks of the policy.
    pub soak_failure: Option<String>,
    /// Why the machine counts as degraded.
    pub degraded: Option<String>,
    /// What it waits for.
    pub waiting: Option<String>,
    pub requeue_after: Option<Duration>,
}

impl MachinePlan {
    pub fn of(ctx: &Context<'_>, state: &MachineState<'_>, phase: Option<&SlotPhase>) -> Self {
        let mut plan = Self::default();
        if state.is_being_deleted() {
            return plan;
        }
        let is_managed = ctx.is_managed(state);
        if is_managed {
            plan.report_annotations(ctx, state);
        }
        let slot = match (&state.slot, phase) {
            (SlotAnnotation::Valid(slot), Some(phase)) => {
                if MachineState::of(state.machine).clamp_slot(ctx.now) {
                    plan.patch.slot(Some(slot));
                }
                plan.advance(ctx, state, slot, phase)
            }
            (SlotAnnotation::Unreadable, _) => {
                let text = "annotation mosb.dev/slot is not readable; check the machine, uncordon the node if it runs the pool's image, and remove the annotation";
                plan.degraded = Some(text.to_owned());
                None
            }
            _ => {
                if is_managed {
                    plan.annotations_without_slot(ctx, state);
                }
                None
            }
        };
        if is_managed {
            plan.waiting = plan.waiting.take().or_else(|| state.job_waiting(ctx.now));
        }
        for job in &state.machine.jobs {
            if is_obsolete(ctx, state, slot.as_ref(), job) {
                plan.delete.push(deletion(job));
            } else if !job.has_login
                && job.phase == JobPhase::Running
                && !job.deleting
                && let Some(target) = &job.target
            {
                plan.actions.push(Action::Effect(RolloutEffect::CreateLogin(Box::new(
                    ctx.login(job, target),
                ))));
            }
        }
        plan
    }

    /// The machine gets this slot: from this patch on it may be unavailable. `is_etcd_unseen`: a
    /// control-plane machine of a cluster whose etcd is external.
    pub fn give(&mut self, slot: &Slot, state: &MachineState<'_>, is_etcd_unseen: bool) {
        self.is_given = true;
        self.patch.slot(Some(slot));
        self.patch.cordon(true);
        if slot.disables_scale_down {
            self.patch.disable_scale_down(true);
        }
        self.patch.desired_target(&slot.target);
        self.patch.state(NodeState::Working, "");
        let unseen = if is_etcd_unseen { "; etcd is external and was not checked" } else { "" };
        let text = format!("{} is drained for {}{unseen}", state.name(), slot.target.image);
        self.event = Some((EventReason::NodeSlotGiven, text));
    }

    /// What the machine reported, and what is staged on it.
    fn report_annotations(&mut self, ctx: &Context<'_>, state: &MachineState<'_>) {
        if ctx.target().is_some() {
            self.patch.fallback(ctx.fallback(state).as_ref());
        }
        // What was staged in an earlier boot stays until it is known what became of it.
        let Some(report) = &state.report else {
            return;
        };
        self.patch.report(report);
        let (image, config) = ctx.current(state);
        self.patch.current(image, config);
        let has_booted =
            |staged: &NodeTarget| state.runs(staged.image.digest()) && state.has(staged);
        let staged = state.staged.as_ref().filter(|staged| !has_booted(staged));
        let mark = staged.map(|target| StagedMark {
            target: target.clone(),
            boot_id: state.machine.node.boot_id.clone(),
        });
        self.patch.staged(mark.as_ref());
    }

    /// Records how a machine is that has this target, until that is confirmed; nothing if it is.
    pub(super) fn confirm(
        &mut self,
        ctx: &Context<'_>,
        state: &MachineState<'_>,
        target: &NodeTarget,
    ) {
        if !state.has(target) {
            return;
        }
        let is_it = |known: ConfirmedTarget| known.target.is_same_to_machines(target);
        if state.confirmed().is_some_and(is_it) {
            // What is recorded of the pool's target stays on a machine that was brought back from it.
            if ctx.target() == Some(target) {
                self.patch.soak(None);
            }
            return;
        }
        let SoakPlan { step, waiting, again } = ctx.soak(state, target);
        self.waiting = self.waiting.take().or(waiting);
        self.requeue_after = self.requeue_after.into_iter().chain(again).min();
        match step {
            SoakStep::Stay => {}
            SoakStep::Confirm => {
                let (target, at) = (target.clone(), Time(ctx.now));
                self.patch.confirmed(&ConfirmedTarget { target, at });
                self.patch.soak(None);
            }
            SoakStep::Record(record) => {
                if let SoakPhase::Failed { message, .. } = &record.phase {
                    self.soak_failure = Some(message.clone());
                }
                self.patch.soak(Some(&record));
            }
            SoakStep::Forget => self.patch.soak(None),
            SoakStep::LookUp(lookups) => self.lookups.extend(lookups),
        }
    }

    /// A machine without a slot.
    fn annotations_without_slot(&mut self, ctx: &Context<'_>, state: &MachineState<'_>) {
        let part = state.job_state(state.job(NodeVerb::Part, ctx.target()));
        let gets_part = part == JobState::Running;
        if state.report.is_some() {
            match ctx.target().filter(|target| state.has(target) || gets_part) {
                Some(target) => self.patch.desired_target(target),
                // Without a slot, the machine should stay what it is.
                None => {
                    let (image, config) = ctx.current(state);
                    self.patch.desired(image, config);
                }
            }
        }
        if let Some(target) = ctx.target() {
            self.confirm(ctx, state, target);
        }
        match ctx.failure(state) {
            Some(failure) => self.degrade(failure.node_state(), failure.message),
            None if gets_part => self.patch.state(NodeState::Working, ""),
            None if state.report.is_some() && ctx.knows_failures(state) => {
                self.patch.state(NodeState::Done, "");
            }
            None => {}
        }
    }

    pub(super) fn degrade(&mut self, state: NodeState, text: String) {
        self.patch.state(state, &text);
        self.degraded = Some(text);
    }

    /// Where the machine stands, with what it gets in this pass.
    pub fn status(
        &self,
        ctx: &Context<'_>,
        state: &MachineState<'_>,
        phase: Option<&SlotPhase>,
    ) -> MachineStatus {
        let target = ctx.target();
        let has_target = target.is_some_and(|target| state.has(target));
        let runs_target = target.is_some_and(|target| state.runs(target.image.digest()));
        MachineStatus {
            name: state.name().to_owned(),
            progress: self.progress(ctx, state, phase),
            has_slot: state.has_slot() || self.is_given,
            slot_since: match state.valid_slot() {
                Some(slot) => Some(slot.since.0),
                None => self.is_given.then_some(ctx.now),
            },
            is_available: state.is_available(),
            is_updated: !state.has_slot() && has_target && ctx.soak_failure(state).is_none(),
            is_staged: target.is_some() && state.staged.as_ref() == target,
            lacks_part: !state.has_slot() && runs_target && !has_target,
            degraded: self.degraded.clone(),
            waiting: self.waiting.clone(),
            booted: state.booted(),
            hidden_files: state.hidden_files(),
            is_boot_full: state.is_boot_full(),
            soaks_until: ctx.soaks_until(state).filter(|_| !state.has_slot() && has_target),
        }
    }

    fn progress(
        &self,
        ctx: &Context<'_>,
        state: &MachineState<'_>,
        phase: Option<&SlotPhase>,
    ) -> MachineProgress {
        match phase {
            Some(SlotPhase::Draining) => MachineProgress::Draining,
            Some(
                SlotPhase::Applying { .. }
                | SlotPhase::AwaitingReport
                | SlotPhase::NextAttempt
                | SlotPhase::Retry
                // Its slot ends with the write of this pass.
                | SlotPhase::Finished,
            ) => MachineProgress::Rebooting,
            Some(SlotPhase::Failing(_) | SlotPhase::Failed { .. }) => MachineProgress::Degraded,
            Some(SlotPhase::Lost { .. }) => MachineProgress::Lost,
            None if self.is_given => MachineProgress::Draining,
            // Its slot is not readable.
            None if state.has_slot() => MachineProgress::Degraded,
            None => MachineProgress::without_slot(ctx, state),
        }
    }

    /// The events of these changes, on the Node of the machine. `is_changed`: its Node is patched.
    pub fn events(
        &self,
        ctx: &Context<'_>,
        state: &MachineState<'_>,
        is_changed: bool,
    ) -> Vec<Action> {
        let annotation = |key| state.machine.node.metadata.annotation(key);
        let event = |reason, edge: &str, text: String| {
            let on = regarding_node(&state.machine.node.metadata);
            Action::Event(new_event(on, reason, edge, text))
        };
        let mut events = Vec::new();
        let mut jobs = state.jobs();
        if let Some(job) = jobs.find(|job| state.has_staged(job))
            && let Some(target) = &job.target
        {
            let text = format!("{} has staged {}", state.name(), target.image);
            // Whatever else this pass changes, the next one may find the same Job.
            events.push(event(EventReason::NodeStaged, &job.uid, text));
        }
        let slot = annotation(labels::NODE_SLOT).unwrap_or_default();
        let of_slot = |reason, text: String| {
            // Cancelled and given again, the same slot is another one.
            let since = if self.is_given { ctx.now.to_string() } else { String::new() };
            event(reason, &format!("{} {slot} {since} {text}", state.machine.node.boot_id), text)
        };
        events.extend(self.event.clone().map(|(reason, text)| of_slot(reason, text)));
        let was_degraded = NodeState::is_degraded(annotation(labels::NODE_STATE));
        if let Some(text) = self.degraded.as_ref().filter(|_| is_changed && !was_degraded) {
            let text = format!("{}: {text}", state.name());
            events.push(of_slot(EventReason::NodeDegraded, text));
        }
        events
    }
}

/// What is due for a machine that has no slot.
pub(super) fn next_try(
    ctx: &Context<'_>,
    state: &MachineState<'_>,
    phase: Option<&SlotPhase>,
) -> Option<Duration> {
    let wait = |tries| match tries {
        staging::Tries::Waiting(left) => Some(left),
        staging::Tries::Due(_) | staging::Tries::UnderWay | staging::Tries::Final => None,
    };
    if state.report.is_none() {
        return wait(staging::tries(state, NodeVerb::Report, None, ctx.now));
    }
    let part = ctx.rolls_to().filter(|target| part_jobs::wants_part(ctx, state, target));
    let part =
        part.and_then(|target| wait(staging::tries(state, NodeVerb::Part, Some(target), ctx.now)));
    let staged = ctx.stages().filter(|target| staging::wants_stage(ctx, state, phase, target));
    let staged = staged
        .and_then(|target| wait(staging::tries(state, NodeVerb::Stage, Some(target), ctx.now)));
    part.into_iter().chain(staged).min()
}
