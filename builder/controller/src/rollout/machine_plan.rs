//! What one machine gets: its marks, the Jobs on it and the evictions of its drain.
//!
//! Input: its state and the target of the pool. Output: one patch of its Node, and Jobs to create
//! or delete. Invariant: the patch that ends a slot uncordons only what the slot cordoned.

use std::time::Duration;

use super::context::Context;
use super::effect::{Action, RolloutEffect};
use super::fallback::FallbackWait;
use super::job_request::{NodeJobRequest, NodeVerb};
use super::job_state::JobState;
use super::lookup::RolloutLookup;
use super::machine_state::{MachineState, SlotMark};
use super::marks::{Marks, NodeState};
use super::obsolete_jobs::{deletion, is_obsolete};
use super::part_jobs;
use super::slot_phase::SlotPhase;
use super::snapshot::JobPhase;
use super::staging;
use super::trouble::Trouble;
use crate::status::EventReason;
use mosb_plan::api::rollout::{NodeTarget, Slot, StagedMark};

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
    pub fn of(ctx: &Context<'_>, state: &MachineState<'_>, phase: Option<&SlotPhase>) -> Self {
        let mut plan = Self::default();
        if state.is_being_deleted() {
            return plan;
        }
        let is_part = ctx.is_part(state);
        if is_part {
            plan.common_marks(ctx, state);
        }
        let slot = match (&state.slot, phase) {
            (SlotMark::Valid(slot), Some(phase)) => {
                if MachineState::of(state.machine).clamp_slot(ctx.now) {
                    plan.marks.slot(Some(slot));
                }
                plan.advance(ctx, state, slot, phase)
            }
            (SlotMark::Unreadable, _) => {
                let text = "annotation mosb.dev/slot is not readable; check the machine, uncordon the node if it runs the pool's image, and remove the annotation";
                plan.degraded = Some(text.to_owned());
                None
            }
            _ => {
                if is_part {
                    plan.free_marks(ctx, state);
                }
                None
            }
        };
        if is_part {
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
        self.marks.slot(Some(slot));
        self.marks.cordon(true);
        if slot.disables_scale_down {
            self.marks.disable_scale_down(true);
        }
        self.marks.desired_target(&slot.target);
        self.marks.state(NodeState::Working, "");
        let unseen = if is_etcd_unseen { "; etcd is external and was not checked" } else { "" };
        let text = format!("{} is drained for {}{unseen}", state.name(), slot.target.image);
        self.event = Some((EventReason::NodeSlotGiven, text));
    }

    /// What the machine reported, and what is staged on it.
    fn common_marks(&mut self, ctx: &Context<'_>, state: &MachineState<'_>) {
        if ctx.target().is_some() {
            self.marks.fallback(ctx.fallback(state).as_ref());
        }
        // What was staged in an earlier boot stays until it is known what became of it.
        let Some(report) = &state.report else {
            return;
        };
        self.marks.report(report);
        let (image, config) = ctx.current(state);
        self.marks.current(image, config);
        let has_booted =
            |staged: &NodeTarget| state.runs(staged.image.digest()) && state.has(staged);
        let staged = state.staged.as_ref().filter(|staged| !has_booted(staged));
        let mark = staged.map(|target| StagedMark {
            target: target.clone(),
            boot_id: state.machine.boot_id.clone(),
        });
        self.marks.staged(mark.as_ref());
    }

    /// A machine without a slot.
    fn free_marks(&mut self, ctx: &Context<'_>, state: &MachineState<'_>) {
        let part = state.job_state(state.job(NodeVerb::Part, ctx.target()));
        let gets_part = part == JobState::Running;
        if state.report.is_some() {
            match ctx.target().filter(|target| state.has(target) || gets_part) {
                Some(target) => self.marks.desired_target(target),
                // Without a slot, the machine should stay what it is.
                None => {
                    let (image, config) = ctx.current(state);
                    self.marks.desired(image, config);
                }
            }
        }
        match ctx.trouble(state) {
            Some(Trouble::Unreconcilable(text)) => {
                self.marks.state(NodeState::Unreconcilable, &text);
                self.degraded = Some(text);
            }
            Some(Trouble::Failing(text)) => {
                self.marks.state(NodeState::Degraded, &text);
                self.degraded = Some(text);
            }
            None if gets_part => self.marks.state(NodeState::Working, ""),
            None if state.report.is_some() && ctx.knows_trouble(state) => {
                self.marks.state(NodeState::Done, "");
            }
            None => {}
        }
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
    let held = match ctx.fallback_wait(state) {
        Some(FallbackWait::For(left)) => Some(left),
        Some(FallbackWait::Over | FallbackWait::Final) | None => None,
    };
    part.into_iter().chain(staged).chain(held).min()
}
