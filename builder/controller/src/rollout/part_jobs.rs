//! Which machines get the target without a slot and without a reboot. Either they run its image, and
//! keys and a password are missing; or they have staged it, and it differs from the image that they
//! run only in files that are written at once. Pure.
//!
//! A machine that can't take it on so answers that it needs a reboot, and changes nothing. It then
//! stages the target, if it has not, and waits for a slot as any other.

use super::context::Context;
use super::job_request::{NodeJobRequest, NodeVerb};
use super::machine_state::MachineState;
use super::slot_phase::SlotPhase;
use super::snapshot::{JobPhase, MachineJob};
use super::staging::{self, Tries};
use mosb_plan::api::rollout::NodeTarget;

/// The most machines of a pool that are changed so at once.
pub(super) const MAX_PARTS: usize = 10;

/// Whether a machine should get this target without a reboot now.
pub(super) fn wants_part(cx: &Context<'_>, state: &MachineState<'_>, target: &NodeTarget) -> bool {
    let is_staged = state.staged.as_ref() == Some(target);
    let may = if state.runs(target.image.digest()) {
        // What is staged in its place is removed first; kernel arguments that are staged need a
        // reboot.
        !state.is_to_unstage(target) && !is_staged && !state.needs_reboot(target)
    } else {
        // The next boot has the same files.
        is_staged && cx.may_go_live(state)
    };
    may && !state.has_slot()
        && !state.has(target)
        // One Job changes a machine at a time.
        && !state.jobs().any(|job| changes_otherwise(job, target))
        && state.machine.ready
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

/// The Jobs that bring it, if machines are changed now.
pub(super) fn part_jobs(
    cx: &Context<'_>,
    machines: &[(MachineState<'_>, Option<SlotPhase>)],
) -> Vec<NodeJobRequest> {
    let Some(target) = cx.rolls_to() else {
        return Vec::new();
    };
    // A Job on a machine that is away may never end.
    let ready = machines.iter().filter(|(state, _)| state.machine.ready);
    let jobs = ready.flat_map(|(state, _)| state.jobs());
    let running =
        jobs.filter(|job| job.verb == NodeVerb::Part && job.phase == JobPhase::Running).count();
    let due = machines.iter().filter_map(|(state, _)| {
        match staging::tries(state, NodeVerb::Part, Some(target), cx.now) {
            Tries::Due(number) if wants_part(cx, state, target) => Some(NodeJobRequest::new(
                cx.snapshot,
                state.machine,
                NodeVerb::Part,
                Some(&from_booted(state, target)),
                number,
            )),
            Tries::Due(_) | Tries::UnderWay | Tries::Waiting(_) | Tries::Final => None,
        }
    });
    due.take(MAX_PARTS.saturating_sub(running)).collect()
}
