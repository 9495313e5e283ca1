//! The decision.

use jiff::Timestamp;

use super::because::Because;
use super::snapshot::Snapshot;
use super::step::Decision;

/// Everything that should change, in order. Pure: same world, same steps.
pub fn decide(world: &Snapshot, now: Timestamp) -> Decision {
    let _ = (world, now);
    Decision {
        ask: Vec::new(),
        steps: Vec::new(),
        because: Because::NotOptedIn,
        again: None,
    }
}
