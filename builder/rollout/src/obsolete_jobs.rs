//! Which Jobs on a machine are deleted.

use super::context::Context;
use super::job_request::NodeVerb;
use super::machine_state::{MachineState, SlotAnnotation};
use super::snapshot::{JobPhase, MachineJob, RolloutSnapshot};
use crate::effect::Action;
use mosb_api::rollout::{NodeTarget, Slot};
use mosb_cluster::kinds;
use mosb_reconcile::write::Target;

/// Whether the result of a Job is on the node, or nothing waits for it. `slot` is the slot that the
/// machine has after this pass.
pub(super) fn is_obsolete(
    ctx: &Context<'_>,
    state: &MachineState<'_>,
    slot: Option<&Slot>,
    job: &MachineJob,
) -> bool {
    if job.deleting {
        return false;
    }
    if job.node_uid != state.machine.node.metadata.uid() {
        return true;
    }
    let is_older =
        state.job(job.verb, job.target.as_ref()).is_some_and(|newest| newest.number > job.number);
    match job.verb {
        NodeVerb::Report => {
            is_older
                || state.report.is_some() && job.phase != JobPhase::Running
                || !ctx.is_observed()
        }
        NodeVerb::Stage => {
            // Also if its target is what another pool of the machine has in service and does not
            // bring to machines.
            let is_back =
                || ctx.brings_back(state).is_some_and(|it| job.target.as_ref() == Some(&it));
            let is_other = ctx.is_off()
                || ctx.target().is_some_and(|target| job.target.as_ref() != Some(target))
                    && !is_back();
            // What it stages on a machine that runs the target is removed afterwards, and only its
            // report shows that. Without its login, it has not begun.
            let runs = |target: &NodeTarget| state.runs(target.image.digest());
            let is_awaited =
                job.phase == JobPhase::Running && job.has_login && ctx.stages().is_some_and(runs);
            let is_booted =
                job.target.as_ref().is_some_and(|it| runs(it) && !state.is_to_unstage(it));
            is_older
                || is_other && !is_awaited
                || (is_booted || state.has_staged(job)) && !is_remembered(ctx, state, job)
        }
        NodeVerb::Part => {
            // What it brings to the machine is known by its report alone.
            let is_awaited = job.phase == JobPhase::Running && job.has_login;
            // What it reports without a reboot holds until the target changes, whatever is paused.
            let is_same = |(target, of): (&NodeTarget, &NodeTarget)| of.is_same_to_machines(target);
            let is_other =
                ctx.is_off() || !ctx.target().zip(job.target.as_ref()).is_some_and(is_same);
            let has = job.target.as_ref().is_some_and(|target| state.has(target));
            // It may have left some of its files, which the next Job replaces.
            let is_unfinished = !ctx.is_off() && state.has_unfinished_live_job();
            !is_awaited && (is_older || !is_unfinished && (is_other || has))
        }
        NodeVerb::Apply => {
            state.slot != SlotAnnotation::Unreadable
                && slot.is_none_or(|slot| {
                    job.target.as_ref() != Some(&slot.target) || job.number != slot.attempt
                })
        }
    }
}

/// Whether a Job that staged its target shows that the machine lacks its machine part, so that it is
/// not created again.
fn is_remembered(ctx: &Context<'_>, state: &MachineState<'_>, job: &MachineJob) -> bool {
    let is_current = match &job.phase {
        JobPhase::Succeeded(report) => state.is_current(report),
        JobPhase::Running | JobPhase::Failed { .. } => true,
    };
    let lacks_part = job.target.as_ref().is_some_and(|target| {
        let is_only_staged = || ctx.only_stages() && state.runs(target.image.digest());
        // The `part` Job that found that out stays as long, and its report is an older one.
        !state.has(target) && (state.needs_reboot(target) || is_only_staged())
    });
    is_current && lacks_part
}

/// The deletion of all Jobs on the machines of a pool that brings nothing to machines: those of their
/// earlier pools.
pub(super) fn left_behind(snapshot: &RolloutSnapshot) -> Vec<Action> {
    let jobs = snapshot.machines.iter().flat_map(|machine| &machine.jobs);
    jobs.filter(|job| !job.deleting).map(deletion).collect()
}

pub(super) fn deletion(job: &MachineJob) -> Action {
    Action::Delete(Target {
        kind: kinds::NODE_JOB,
        name: job.name.clone(),
        uid: job.uid.clone(),
        // Its UID identifies it; the controller of Jobs changes its version all the time.
        version: None,
    })
}
