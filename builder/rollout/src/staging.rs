//! Which machines report, and which ones stage the target. Neither disturbs a machine, so neither
//! needs a slot; both are limited. Pure.
//!
//! Output: the Jobs to create, and how each machine's staging is going.

use std::time::Duration;

use jiff::Timestamp;

use super::context::Context;
use super::job_request::{NodeJobRequest, NodeVerb};
use super::job_state::JobState;
use super::machine_state::MachineState;
use super::new_job::may_confirm;
use super::slot_phase::SlotPhase;
use super::snapshot::{JobPhase, MachineJob, RolloutSnapshot};
use mosb_api::rollout::{ExitCode, NodeTarget};

/// The most machines of a cluster that report at once.
const MAX_REPORTING: usize = 10;

/// The Jobs that begin now.
#[derive(Debug, Default)]
pub(super) struct LimitedJobs {
    pub jobs: Vec<NodeJobRequest>,
    /// Whether others wait for one of a limited number of places.
    pub is_full: bool,
}

impl LimitedJobs {
    /// As many of these, in their order, as there are free places.
    pub fn of(mut jobs: Vec<NodeJobRequest>, free: usize) -> Self {
        let is_full = jobs.len() > free;
        jobs.truncate(free);
        Self { jobs, is_full }
    }
}

/// How a Job without a slot is going.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Tries {
    /// This try is due.
    Due(u32),
    /// The Job runs, or its result is being written.
    UnderWay,
    /// The next try is later.
    Waiting(Duration),
    /// Another try ends the same in this boot.
    Final,
}

/// What the newest Job of a verb means for the next one.
pub(super) fn tries(
    state: &MachineState<'_>,
    verb: NodeVerb,
    target: Option<&NodeTarget>,
    now: Timestamp,
) -> Tries {
    match state.job_state(state.job(verb, target)) {
        JobState::Missing => Tries::Due(1),
        JobState::Running | JobState::Succeeded => Tries::UnderWay,
        JobState::Failed(failure) => match (failure.exit, failure.wait(now)) {
            (Some(ExitCode::Unreconcilable | ExitCode::NeedsReboot), _) => Tries::Final,
            (_, Some(left)) => Tries::Waiting(left),
            (_, None) => Tries::Due(failure.number.saturating_add(1)),
        },
    }
}

/// The Jobs of the cluster that take places of a limit for this verb.
fn jobs_in_place<'a>(
    snapshot: &'a RolloutSnapshot,
    machines: &'a [(MachineState<'a>, Option<SlotPhase>)],
    verb: NodeVerb,
    now: Timestamp,
) -> impl Iterator<Item = &'a MachineJob> {
    let own = machines.iter().flat_map(move |(state, _)| state.jobs_in_place(now));
    let elsewhere = snapshot.cluster.jobs_elsewhere.iter();
    // Only those of machines that are Ready are there.
    let elsewhere = elsewhere.filter(move |job| job.takes_place(true, now));
    own.chain(elsewhere).filter(move |job| job.verb == verb)
}

/// The Jobs that report what a machine runs, as many as the limit of the cluster allows. Machines
/// whose last one failed come last.
pub(super) fn report_jobs(
    snapshot: &RolloutSnapshot,
    machines: &[(MachineState<'_>, Option<SlotPhase>)],
    now: Timestamp,
) -> LimitedJobs {
    let running = jobs_in_place(snapshot, machines, NodeVerb::Report, now).count();
    let wants = |(state, _): &&(MachineState<'_>, Option<SlotPhase>)| {
        (state.report.is_none() || is_to_confirm(snapshot, state))
            && state.machine.node.ready
            && !state.machine.node.boot_id.is_empty()
            && !state.is_being_deleted()
            && !will_report_soon(state)
    };
    let due = machines.iter().filter(wants).filter_map(|(state, _)| {
        let last = state.job(NodeVerb::Report, None);
        let number = match tries(state, NodeVerb::Report, None, now) {
            Tries::Due(number) => number,
            Tries::UnderWay if is_to_confirm(snapshot, state) => last?.number.saturating_add(1),
            Tries::UnderWay | Tries::Waiting(_) | Tries::Final => return None,
        };
        Some(NodeJobRequest::new(snapshot, state.machine, NodeVerb::Report, None, number))
    });
    let mut due: Vec<NodeJobRequest> = due.collect();
    due.sort_by_key(|job| job.number);
    LimitedJobs::of(due, MAX_REPORTING.saturating_sub(running))
}

/// Whether the machine may leave by itself what it runs, and should not: the Job that saw it run did not
/// confirm that. In a slot, the `apply` Job does.
fn is_to_confirm(snapshot: &RolloutSnapshot, state: &MachineState<'_>) -> bool {
    let is_unconfirmed = state.report.as_ref().is_some_and(|report| report.unconfirmed);
    is_unconfirmed && !state.has_slot() && may_confirm(snapshot, state, None)
}

/// Whether a Job runs whose result is awaited. The `apply` Job of a machine that rebooted is not
/// enough: the controller of Jobs waits 10 seconds or more before it replaces the pod that the
/// reboot ended, and the machine is out of service meanwhile. That Job stays until the slot is
/// free, because only `apply` finds out why a machine did not boot its target.
fn will_report_soon(state: &MachineState<'_>) -> bool {
    let has_rebooted =
        state.valid_slot().is_some_and(|slot| slot.boot_id != state.machine.node.boot_id);
    let is_awaited = |job: &MachineJob| !(has_rebooted && job.verb == NodeVerb::Apply);
    state.jobs().any(|job| job.phase == JobPhase::Running && is_awaited(job))
}

/// Whether a machine should stage this target, or remove another one that is staged.
pub(super) fn wants_stage(
    ctx: &Context<'_>,
    state: &MachineState<'_>,
    phase: Option<&SlotPhase>,
    target: &NodeTarget,
) -> bool {
    let may = match (state.valid_slot(), phase) {
        (None, _) => !state.has_slot(),
        // A machine that failed gets the newer target within its slot.
        (Some(slot), Some(SlotPhase::Failed { .. })) => slot.target != *target,
        (Some(_), _) => false,
    };
    // On a machine that runs it, the Job removes what is staged in its place, stages kernel
    // arguments, or finds out that the machine has all of the target already.
    let lacks_part = !state.has(target) && (ctx.only_stages() || state.needs_reboot(target));
    let runs = state.runs(target.image.digest());
    may && state.report.is_some()
        && (!runs && !state.has(target) || state.is_to_unstage(target) || lacks_part)
        && state.staged.as_ref() != Some(target)
        && !state.has_no_tool()
        && !state.is_part_changing()
        && !ctx.is_kept_from_target(state)
        && state.machine.node.ready
        && !state.is_being_deleted()
}

/// How many more machines may stage from this registry host.
pub(super) fn free_places(
    ctx: &Context<'_>,
    machines: &[(MachineState<'_>, Option<SlotPhase>)],
    host: &str,
) -> usize {
    let is_of_host = |job: &&MachineJob| {
        job.target.as_ref().is_some_and(|target| target.image.repo().host() == host)
    };
    let running = jobs_in_place(ctx.snapshot, machines, NodeVerb::Stage, ctx.now);
    let places = ctx.snapshot.settings.staging_per_registry.max(1);
    places.saturating_sub(running.filter(is_of_host).count())
}

/// The Jobs that bring this target to machines or remove another one, as many as the limit of its
/// registry allows. Machines whose last one failed come last; of the others, machines with a slot come
/// first, because they are unavailable already.
pub(super) fn stage_jobs(
    ctx: &Context<'_>,
    machines: &[(MachineState<'_>, Option<SlotPhase>)],
    target: &NodeTarget,
) -> LimitedJobs {
    let (snapshot, now) = (ctx.snapshot, ctx.now);
    let free = free_places(ctx, machines, target.image.repo().host());
    let mut due: Vec<(&MachineState<'_>, u32)> = Vec::new();
    for (state, phase) in machines {
        if wants_stage(ctx, state, phase.as_ref(), target)
            && ctx.is_for(state)
            && let Tries::Due(number) = tries(state, NodeVerb::Stage, Some(target), now)
        {
            due.push((state, number));
        }
    }
    due.sort_by_key(|(state, number)| (*number, !state.has_slot()));
    let due = due.into_iter().map(|(state, number)| {
        NodeJobRequest::new(snapshot, state.machine, NodeVerb::Stage, Some(target), number)
    });
    LimitedJobs::of(due.collect(), free)
}
