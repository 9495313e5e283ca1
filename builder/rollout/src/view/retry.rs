//! Which machines of a pool try their target again when a person asks for it. Pure.
//!
//! Output: their slots with the next attempt number. The machine stays cordoned and in its slot, so
//! no other machine becomes unavailable by it. One that fell back from the target gets a slot in its
//! turn.

use crate::machine_state::{MachineState, SlotAnnotation};
use crate::snapshot::{Machine, RolloutSnapshot};
use mosb_api::rollout::{Slot, Soak, SoakPhase};
use mosb_image::Digest;

/// A machine that tries its target again.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Retry {
    pub node: String,
    /// resourceVersion of the Node that this was decided on.
    pub resource_version: String,
    /// The slot that it gets in place of its own; none if it has none, because it fell back from the
    /// target later, or was not healthy. In all cases it gets the target as if it had never failed.
    pub slot: Option<Slot>,
}

/// The machines that failed to boot this image and hold a slot for it, or fell back from it.
pub(super) fn retries(snapshot: &RolloutSnapshot, target: Digest) -> Vec<Retry> {
    snapshot.machines.iter().filter_map(|machine| retry(machine, target)).collect()
}

fn retry(machine: &Machine, target: Digest) -> Option<Retry> {
    let state = MachineState::of(machine);
    if state.is_being_deleted() || state.report.is_none() {
        return None;
    }
    let slot = match &state.slot {
        SlotAnnotation::Valid(slot) => Some(next_slot(&state, slot, target)?),
        SlotAnnotation::None if has_fallen_back(&state, target) || has_failed(&state, target) => {
            None
        }
        SlotAnnotation::None | SlotAnnotation::Unreadable => return None,
    };
    let resource_version = machine.node.metadata.resource_version().to_owned();
    Some(Retry { node: machine.node.metadata.name.clone(), resource_version, slot })
}

/// None unless its last `apply` Job has ended without this image, and no other one was begun.
fn next_slot(state: &MachineState<'_>, slot: &Slot, target: Digest) -> Option<Slot> {
    let has_failed = slot.target.image.digest() == target
        && slot.failure.is_some()
        && slot.applying.is_none()
        && !state.has(&slot.target);
    let attempt = state.next_attempt(&slot.target).max(slot.attempt.saturating_add(1));
    let boot_id = state.machine.node.boot_id.clone();
    has_failed.then(|| Slot {
        attempt,
        first_attempt: attempt,
        boot_id,
        failure: None,
        ..slot.clone()
    })
}

fn has_fallen_back(state: &MachineState<'_>, target: Digest) -> bool {
    let known = state.fallback_record();
    known.is_some_and(|known| known.target.image.digest() == target) && !state.runs(target)
}

/// Whether its health checks failed with this image.
fn has_failed(state: &MachineState<'_>, target: Digest) -> bool {
    let known = Soak::of(&state.machine.node.metadata);
    known.is_some_and(|known| {
        known.target.image.digest() == target && matches!(known.phase, SoakPhase::Failed { .. })
    })
}
