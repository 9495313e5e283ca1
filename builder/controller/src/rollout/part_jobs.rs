//! Which machines get the machine part of the target alone: they run its image, so that keys and a
//! password need neither a slot nor a reboot. Pure.
//!
//! A machine whose kernel arguments must change answers that it needs a reboot, and changes nothing.
//! It then stages the target and waits for a slot as any other.

use super::context::Context;
use super::job_request::{NodeJobRequest, NodeVerb};
use super::machine_state::MachineState;
use super::slot_phase::SlotPhase;
use super::snapshot::{JobPhase, MachineJob};
use super::staging::{self, Tries};
use mosb_plan::api::rollout::NodeTarget;

/// The most machines of a pool that get the part at once.
pub(super) const MAX_PARTS: usize = 10;

/// Whether a machine should get the machine part of this target now.
pub(super) fn wants_part(state: &MachineState<'_>, target: &NodeTarget) -> bool {
    !state.has_slot()
        && state.runs(target.image.digest())
        && !state.has(target)
        // What is staged in its place is removed first.
        && !state.is_to_unstage(target)
        // Then it reboots.
        && !state.needs_reboot(target)
        && state.staged.as_ref() != Some(target)
        // One Job changes a machine at a time.
        && !state.jobs().any(|job| changes(job) && job.target.as_ref() != Some(target))
        && state.machine.ready
        && !state.is_being_deleted()
}

fn changes(job: &MachineJob) -> bool {
    job.phase == JobPhase::Running && matches!(job.verb, NodeVerb::Part | NodeVerb::Stage)
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
            Tries::Due(number) if wants_part(state, target) => Some(NodeJobRequest::new(
                cx.snapshot,
                state.machine,
                NodeVerb::Part,
                Some(target),
                number,
            )),
            Tries::Due(_) | Tries::UnderWay | Tries::Waiting(_) | Tries::Final => None,
        }
    });
    due.take(MAX_PARTS.saturating_sub(running)).collect()
}
