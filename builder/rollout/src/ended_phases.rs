//! The phases of the update of a machine that a write of ours ends, and how long they took. Pure.
//!
//! Input: the snapshot that a decision was made from, and one of its actions, once it is applied.
//! Output: the phases that it ended. All beginnings are in annotations and Jobs, so a controller that was
//! restarted meanwhile measures the same.
//!
//! Invariant: only the write that ends a phase counts it. It has the node's resourceVersion, so it
//! succeeds once, and no other controller counts it again. A controller that is killed between that
//! write and the count, or gets no answer to the write, does not count that phase at all.

use std::time::Duration;

use jiff::Timestamp;

use super::elapsed::elapsed;
use super::job_request::NodeVerb;
use super::machine_state::MachineState;
use super::snapshot::RolloutSnapshot;
use crate::effect::Action;
use mosb_api::labels;
use mosb_cluster::kinds;
use mosb_cluster::words;

words! {
    /// A part of the update of one machine.
    pub enum MachinePhase {
        /// From the creation of the Job that staged the target to the annotation of the Node.
        Stage = "stage",
        /// From the slot to the record of the Job that rebooted the machine into the target. Earlier
        /// attempts count too.
        Drain = "drain",
        /// From that record to the end of the slot: booted, Ready and uncordoned.
        Apply = "apply",
        /// From the slot to its end: `Drain` and `Apply`.
        Slot = "slot",
    }
}

/// A phase of a machine that ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct EndedPhase {
    pub phase: MachinePhase,
    pub took: Duration,
}

/// The phases that an action ended at this time. A slot that was cancelled, or ended with another
/// image than its target, ends none.
pub(super) fn ended_phases(
    snapshot: &RolloutSnapshot,
    action: &Action,
    now: Timestamp,
) -> Vec<EndedPhase> {
    let Action::Patch(target, patch) = action else {
        return Vec::new();
    };
    let mut machines = snapshot.machines.iter();
    let machine = machines.find(|machine| machine.name() == target.name);
    let Some(machine) = machine.filter(|_| target.kind == kinds::NODE) else {
        return Vec::new();
    };
    let sets = |key| patch.annotations.get(key).is_some_and(Option::is_some);
    let removes = |key| patch.annotations.get(key).is_some_and(Option::is_none);
    if !sets(labels::NODE_STAGED) && !removes(labels::NODE_SLOT) {
        return Vec::new();
    }
    let state = MachineState::of(machine);
    let mut ended = Vec::new();
    let mut end = |phase, from: Timestamp, to: Timestamp| {
        ended.push(EndedPhase { phase, took: elapsed(from, to) });
    };
    if sets(labels::NODE_STAGED) {
        let jobs = state.jobs().filter(|job| state.has_staged(job));
        let created = jobs.filter_map(|job| job.created.as_ref()).max();
        created.into_iter().for_each(|created| end(MachinePhase::Stage, created.0, now));
    }
    let slot = state.valid_slot().filter(|_| removes(labels::NODE_SLOT));
    if let Some(slot) = slot.filter(|slot| state.has(&slot.target)) {
        let since = slot.since.0;
        let apply = state.job(NodeVerb::Apply, Some(&slot.target));
        // Without the Job, somebody else rebooted the machine.
        if let Some(applying) = slot.applying.as_ref().filter(|_| apply.is_some()) {
            end(MachinePhase::Drain, since, applying.since.0);
            end(MachinePhase::Apply, applying.since.0, now);
        }
        end(MachinePhase::Slot, since, now);
    }
    ended
}
