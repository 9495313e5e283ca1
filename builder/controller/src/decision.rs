//! The result of a decision: lookups to resolve, actions to apply, and the reason.

use std::time::Duration;

use super::action::Action;

/// The decision about a snapshot.
#[derive(Debug, Clone, PartialEq)]
pub struct Decision<L, R> {
    /// Facts that the snapshot lacks. If this is not empty, there are no actions: resolve all
    /// lookups, add the results to the snapshot and decide again.
    pub lookups: Vec<L>,
    /// Changes, in this order. The first error ends the pass; a failed event is only logged.
    pub actions: Vec<Action>,
    pub reason: R,
    /// When to decide again even if nothing changes.
    pub requeue_after: Option<Duration>,
}

impl<L, R> Decision<L, R> {
    pub fn of(reason: R, actions: Vec<Action>) -> Self {
        Self { lookups: Vec::new(), actions, reason, requeue_after: None }
    }

    pub fn unchanged(reason: R) -> Self {
        Self::of(reason, Vec::new())
    }

    pub fn looking_up(lookup: L, reason: R) -> Self {
        Self { lookups: vec![lookup], ..Self::unchanged(reason) }
    }
}
