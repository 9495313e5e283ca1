//! The result of a decision: lookups to resolve, actions to apply, and the reason.

use std::time::Duration;

/// What to do about a snapshot.
#[derive(Debug, Clone, PartialEq)]
pub struct Decision<L, A, R> {
    /// Facts that the snapshot lacks. If this is not empty, there are no actions: resolve all
    /// lookups, add the results to the snapshot and decide again.
    pub lookups: Vec<L>,
    /// Changes, in this order. The first error ends the pass; a failed event is only logged.
    pub actions: Vec<A>,
    pub reason: R,
    /// When to decide again even if nothing changes.
    pub requeue_after: Option<Duration>,
}
