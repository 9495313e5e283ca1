//! Which machines of a pool try their target again when a person asks for it. Pure.
//!
//! Output: their slots with the next attempt number. The machine stays cordoned and in its slot, so
//! no other machine becomes unavailable by it.

use crate::rollout::machine_state::MachineState;
use crate::rollout::snapshot::{Machine, RolloutSnapshot};
use mosb_image::Digest;
use mosb_plan::api::rollout::Slot;

/// A machine that tries its target again.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Retry {
    pub node: String,
    /// resourceVersion of the Node that this was decided on.
    pub resource_version: String,
    /// The slot that it gets in place of its own.
    pub slot: Slot,
}

/// The machines that failed to boot this image and hold a slot for it.
pub(super) fn retries(snapshot: &RolloutSnapshot, target: Digest) -> Vec<Retry> {
    snapshot.machines.iter().filter_map(|machine| retry(machine, target)).collect()
}

fn retry(machine: &Machine, target: Digest) -> Option<Retry> {
    let state = MachineState::of(machine);
    let slot = state.valid_slot().filter(|slot| slot.target.image.digest() == target)?;
    // Its last `apply` Job has ended, and no other one was begun.
    let has_failed = slot.failure.is_some()
        && slot.applying.is_none()
        && state.report.is_some()
        && !state.has(&slot.target);
    if !has_failed || state.is_being_deleted() {
        return None;
    }
    let attempt = state.next_attempt(&slot.target).max(slot.attempt.saturating_add(1));
    let boot_id = machine.boot_id.clone();
    let slot = Slot { attempt, first_attempt: attempt, boot_id, failure: None, ..slot.clone() };
    let resource_version = machine.metadata.resource_version().to_owned();
    Some(Retry { node: machine.metadata.name.clone(), resource_version, slot })
}
