//! How far a machine is on its way to the target, as metrics count it. Pure.
//!
//! Input: what a decision found of the machine. Output: one of a fixed set of words. Invariant: each
//! machine is in exactly one.

use super::context::Context;
use super::job_request::NodeVerb;
use super::job_state::JobState;
use super::machine_plan::MachinePlan;
use super::machine_state::MachineState;
use super::slot_phase::SlotPhase;
use super::trouble::Trouble;

/// How far a machine is on its way to the target.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum MachineProgress {
    /// It runs the target.
    Updated,
    /// It has no slot, and is not Ready or is cordoned by somebody else.
    Unavailable,
    /// It has not reported since it booted.
    Unreported,
    /// It does not run the target, and nothing is done about it now.
    Waiting,
    /// Its image, or its keys and password, are brought to it.
    Staging,
    /// It has staged the target, and has no slot.
    Staged,
    /// It has a slot, and its pods are evicted.
    Draining,
    /// It is drained, and on its way into its target.
    Rebooting,
    /// It did not boot its target, or can't stage it.
    Degraded,
    /// It is not back within the limit.
    Lost,
    /// Nothing changes its image.
    Unreconcilable,
}

impl MachineProgress {
    pub const ALL: [Self; 11] = [
        Self::Updated,
        Self::Unavailable,
        Self::Unreported,
        Self::Waiting,
        Self::Staging,
        Self::Staged,
        Self::Draining,
        Self::Rebooting,
        Self::Degraded,
        Self::Lost,
        Self::Unreconcilable,
    ];

    /// The value of the label `state`.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Updated => "updated",
            Self::Unavailable => "unavailable",
            Self::Unreported => "unreported",
            Self::Waiting => "waiting",
            Self::Staging => "staging",
            Self::Staged => "staged",
            Self::Draining => "draining",
            Self::Rebooting => "rebooting",
            Self::Degraded => "degraded",
            Self::Lost => "lost",
            Self::Unreconcilable => "unreconcilable",
        }
    }

    pub(super) fn of(
        ctx: &Context<'_>,
        state: &MachineState<'_>,
        phase: Option<&SlotPhase>,
        plan: &MachinePlan,
    ) -> Self {
        match phase {
            Some(SlotPhase::Draining) => Self::Draining,
            Some(
                SlotPhase::Applying { .. }
                | SlotPhase::AwaitingReport
                | SlotPhase::NextAttempt
                | SlotPhase::Retry
                // Its slot ends with the write of this pass.
                | SlotPhase::Finished,
            ) => Self::Rebooting,
            Some(SlotPhase::Failing(_) | SlotPhase::Failed { .. }) => Self::Degraded,
            Some(SlotPhase::Lost { .. }) => Self::Lost,
            None if plan.is_given => Self::Draining,
            // Its slot is not readable.
            None if state.has_slot() => Self::Degraded,
            None => Self::without_slot(ctx, state),
        }
    }

    fn without_slot(ctx: &Context<'_>, state: &MachineState<'_>) -> Self {
        let target = ctx.target();
        if target.is_some_and(|target| state.has(target)) {
            return Self::Updated;
        }
        match ctx.trouble(state) {
            Some(Trouble::Unreconcilable(_)) => return Self::Unreconcilable,
            Some(Trouble::Failing(_)) => return Self::Degraded,
            None => {}
        }
        let runs = |verb| state.job_state(state.job(verb, target)) == JobState::Running;
        let gets_part = || runs(NodeVerb::Part);
        if !state.is_available() {
            Self::Unavailable
        } else if state.report.is_none() {
            Self::Unreported
        } else if target.is_some() && gets_part() {
            Self::Staging
        } else if target.is_some() && state.staged.as_ref() == target {
            Self::Staged
        } else if target.is_some() && runs(NodeVerb::Stage) {
            Self::Staging
        } else {
            Self::Waiting
        }
    }
}
