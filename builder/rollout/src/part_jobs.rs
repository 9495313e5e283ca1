//! Which machines get the target without a slot and without a reboot. Either they run its image, and
//! keys and a password are missing; or they have staged it, and it differs from the image that they
//! run only in files that are written at once. Pure.
//!
//! A machine that can't take it on so answers that it needs a reboot, and changes nothing. It then
//! stages the target, if it has not, and waits for a slot as any other.

use jiff::Timestamp;

use super::context::Context;
use super::job_request::{NodeJobRequest, NodeVerb};
use super::job_state::JobState;
use super::machine_state::MachineState;
use super::policy::Gates;
use super::slot_phase::SlotPhase;
use super::snapshot::{JobPhase, MachineJob};
use super::staging::{self, LimitedJobs, Tries};
use mosb_api::rollout::{ExitCode, NodeTarget};
use mosb_cluster::name_list::name_list;

/// The most machines of a pool that are changed so at once.
const MAX_PARTS: usize = 10;
/// The most machines that a reason names: each has the text of its failure.
const MAX_NAMES: usize = 3;

/// Whether a machine should get this target without a reboot now.
pub(super) fn wants_part(ctx: &Context<'_>, state: &MachineState<'_>, target: &NodeTarget) -> bool {
    let is_staged = state.staged.as_ref() == Some(target);
    let may = if state.runs(target.image.digest()) {
        // What is staged in its place is removed first; kernel arguments that are staged need a
        // reboot.
        !state.is_to_unstage(target) && !is_staged && !state.needs_reboot(target)
    } else {
        // The next boot has the same files.
        is_staged && ctx.may_go_live(state) && !ctx.is_kept_from_target(state)
    };
    may && !state.has_slot()
        && !state.has(target)
        // One Job changes a machine at a time.
        && !state.jobs().any(|job| changes_otherwise(job, target))
        && state.machine.node.ready
        && !state.is_being_deleted()
}

/// Whether a Job changes the machine for another target.
fn changes_otherwise(job: &MachineJob, target: &NodeTarget) -> bool {
    let is_same = |of: &NodeTarget| of.is_same_to_machines(target);
    job.phase == JobPhase::Running
        && matches!(job.verb, NodeVerb::Part | NodeVerb::Stage)
        && !job.target.as_ref().is_some_and(is_same)
}

/// The target as a machine gets it without a reboot: from the image that it runs.
fn from_booted(state: &MachineState<'_>, target: &NodeTarget) -> NodeTarget {
    let booted = state.booted().filter(|booted| *booted != target.image.digest());
    NodeTarget { live_from: booted.or(target.live_from), ..target.clone() }
}

/// The Jobs that bring it, and why no other machine gets it.
#[derive(Debug, Default)]
pub(super) struct PartJobs {
    pub found: LimitedJobs,
    pub stopped: Option<String>,
}

/// The Jobs that bring it, if machines are changed now: to one machine alone, then to as many at once
/// as have it. Two machines that failed stop it for all others.
pub(super) fn part_jobs(
    ctx: &Context<'_>,
    machines: &[(MachineState<'_>, Option<SlotPhase>)],
    gates: Option<&Gates>,
) -> PartJobs {
    let Some(target) = ctx.rolls_to() else {
        return PartJobs::default();
    };
    let states = || machines.iter().map(|(state, _)| state);
    let mut due: Vec<(u32, &MachineState<'_>)> = states()
        .filter(|state| wants_part(ctx, state, target))
        .filter(|state| gates.is_none_or(|gates| gates.hold(ctx.ring_of(state)).is_none()))
        .filter_map(|state| match staging::tries(state, NodeVerb::Part, Some(target), ctx.now) {
            Tries::Due(number) => Some((number, state)),
            Tries::UnderWay | Tries::Waiting(_) | Tries::Final => None,
        })
        .collect();
    let failures: Vec<(&str, String)> = states()
        .filter_map(|state| Some((state.name(), part_failure(state, target, ctx.now)?)))
        .collect();
    let all = due.len();
    if failures.len() > ctx.max_failed() {
        due.retain(|(_, state)| failures.iter().any(|(name, _)| *name == state.name()));
    }
    let stopped = (due.len() < all).then(|| stopped(&failures));
    due.sort_by_key(|(number, _)| *number);
    let running = states().flat_map(|state| state.jobs_in_place(ctx.now));
    let running = running.filter(|job| job.verb == NodeVerb::Part).count();
    let is_booted = |state: &MachineState<'_>| state.runs(target.image.digest());
    // Machines of one kind say nothing about the others.
    let places = |state: &MachineState<'_>| {
        let is_alike = |other: &&MachineState<'_>| is_booted(other) == is_booted(state);
        let has_it = states().filter(is_alike).filter(|it| it.machine.node.ready && it.has(target));
        has_it.count().clamp(1, MAX_PARTS)
    };
    let mut found = LimitedJobs::default();
    for (number, state) in due {
        if running + found.jobs.len() >= places(state) {
            found.is_full = true;
            continue;
        }
        found.jobs.push(NodeJobRequest::new(
            ctx.snapshot,
            state.machine,
            NodeVerb::Part,
            Some(&from_booted(state, target)),
            number,
        ));
    }
    PartJobs { found, stopped }
}

/// Why a machine that was to get the target without a reboot does not have it; none if it has it, or
/// only answered that it needs a reboot. One that went away may have done so because of it, and one that
/// failed counts until it has it, also while it is tried again.
pub(super) fn part_failure(
    state: &MachineState<'_>,
    target: &NodeTarget,
    now: Timestamp,
) -> Option<String> {
    let job = state.job(NodeVerb::Part, Some(target))?;
    if state.has(target) {
        return None;
    }
    match (&job.phase, state.job_state(Some(job))) {
        (JobPhase::Running, _) if job.number > 1 => Some("it is tried again".to_owned()),
        // Without its login, it has not begun.
        (JobPhase::Running, _) if !job.has_login => None,
        (JobPhase::Running, _) if !state.machine.node.ready => Some("it is not Ready".to_owned()),
        // It ended, and the watch does not show how.
        (JobPhase::Running, _) if job.awaits_pod.is_some() => None,
        (JobPhase::Running, _) if job.is_overdue(now) => Some("its Job does not end".to_owned()),
        // It rebooted meanwhile, for whatever reason.
        (JobPhase::Succeeded(report), _) if !state.is_current(report) => None,
        (_, JobState::Failed(failure)) => match failure.exit {
            Some(ExitCode::NeedsReboot | ExitCode::Unreconcilable) => None,
            Some(ExitCode::WrongImage | ExitCode::NotFinalized) | None => Some(failure.message),
        },
        (_, JobState::Missing | JobState::Running | JobState::Succeeded) => None,
    }
}

fn stopped(failures: &[(&str, String)]) -> String {
    let failures: Vec<String> =
        failures.iter().map(|(name, cause)| format!("{name}: {cause}")).collect();
    format!(
        "no other machine is changed without a reboot: it failed on {}; they try again; repair them, or bring a corrected image into service",
        name_list(&failures, MAX_NAMES)
    )
}
