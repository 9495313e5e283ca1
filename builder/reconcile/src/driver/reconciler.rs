//! What a controller is: observe, decide, look up and apply, and what the
//! [`Driver`](super::Driver) must know to run them for each key.

use std::collections::BTreeSet;
use std::fmt::Display;
use std::future::Future;
use std::time::Duration;

use k8s_openapi::jiff::Timestamp;
use tracing::Span;

use super::InputsHash;
use crate::problem::{EarlierProblem, Problem};
use crate::write::{Action, ApplyError, ReconcilePass};

/// The result of a decision about a snapshot: lookups to resolve, actions to apply, and the reason.
#[derive(Debug, Clone, PartialEq)]
pub struct Decision<L, R, E> {
    /// Facts that the snapshot lacks. If this is not empty, there are no actions: resolve all
    /// lookups, add the results to the snapshot and decide again.
    pub lookups: Vec<L>,
    /// Changes, in this order. The first error ends the pass; a failed event is only logged.
    pub actions: Vec<Action<E>>,
    pub reason: R,
    /// When to decide again even if nothing changes.
    pub requeue_after: Option<Duration>,
    /// The lookups found, or the actions make, objects as they should be that no watch shows. For
    /// this time, an event without a change of the inputs needs no lookup.
    pub checked_for: Option<Duration>,
}

impl<L, R, E> Decision<L, R, E> {
    pub fn of(reason: R, actions: Vec<Action<E>>) -> Self {
        Self { lookups: Vec::new(), actions, reason, requeue_after: None, checked_for: None }
    }

    pub fn unchanged(reason: R) -> Self {
        Self::of(reason, Vec::new())
    }

    pub fn looking_up(lookup: L, reason: R) -> Self {
        Self { lookups: vec![lookup], ..Self::unchanged(reason) }
    }
}

/// The decisions of a controller.
pub type DecisionOf<R> =
    Decision<<R as Reconciler>::Lookup, <R as Reconciler>::Reason, <R as Reconciler>::Effect>;
/// The passes of a controller.
pub type PassOf<R> = ReconcilePass<<R as Reconciler>::State>;

/// One controller. A key is the name of an object, which may not exist any more.
pub trait Reconciler: Sized + Send + Sync + 'static {
    /// Everything observed for a key.
    type Snapshot: Send + Sync;
    type Lookup: Send + Sync;
    type Reason: Display + Send + Sync;
    /// What it does beside writes to one object.
    type Effect: Send + Sync;
    /// What the effects of one decision share.
    type State: Default + Send + Sync;
    /// What changes are about.
    type Trigger;

    /// The kind of the keys, in lower case.
    const KIND: &'static str;
    /// Precedes a key in the log.
    const LOG_PREFIX: &'static str = "";
    /// Keys that are reconciled at once, without those whose pass gave its
    /// [`Worker`](super::Worker) back.
    const WORKERS: usize;
    /// Whether changes that come together are handled as one.
    const DEBOUNCE: Option<Debounce> = None;

    /// What a key is in the log.
    fn log_name(key: &str) -> String {
        format!("{}{key}", Self::LOG_PREFIX)
    }

    /// The keys that a change affects.
    fn affected_keys(&self, trigger: &Self::Trigger) -> BTreeSet<String>;

    /// Takes the snapshot of a key from the cache; none if there is nothing to do for it any more.
    fn observe(&self, key: &str) -> Option<Self::Snapshot>;

    /// The same snapshot and time give the same decision. It writes nothing; metrics may follow it.
    fn decide(&self, snapshot: &Self::Snapshot, now: Timestamp) -> DecisionOf<Self>;

    /// Adds the results of all lookups to the snapshot.
    fn look_up(
        &self,
        lookups: &[Self::Lookup],
        snapshot: &mut Self::Snapshot,
        pass: &mut PassOf<Self>,
    ) -> impl Future<Output = Result<(), NoDecision>> + Send;

    /// Makes this problem the result of lookups that had no free slot for long.
    fn fail_lookups(_: &[Self::Lookup], _: &mut Self::Snapshot, _: &Problem) {}

    /// Applies the actions in order; the first error ends it.
    fn apply(
        &self,
        actions: &[Action<Self::Effect>],
        snapshot: &Self::Snapshot,
        pass: &mut PassOf<Self>,
    ) -> impl Future<Output = Result<(), ApplyError>> + Send;

    /// UIDs and resourceVersions of the objects in the snapshot that mosb writes or creates.
    fn seen_versions(snapshot: &Self::Snapshot) -> impl Iterator<Item = (&str, &str)>;

    /// Everything that the result of a reconcile depends on, without what mosb itself
    /// writes and without lookup results. It is not read from the cache, which may be newer.
    fn inputs(snapshot: &Self::Snapshot) -> InputsHash;

    /// Sets the problem that was reported before with the same inputs. Without it, a problem is
    /// decided again from the start.
    fn set_earlier_problem(_snapshot: &mut Self::Snapshot, _problem: EarlierProblem) {}

    /// Records that [`checked_for`](Decision::checked_for) has not ended, with the same inputs.
    fn set_checked(_snapshot: &mut Self::Snapshot) {}

    /// The problem that a decision reports, if the driver chooses when it is decided again. Without
    /// it, the decision has that time.
    fn problem(_snapshot: &Self::Snapshot, _decision: &DecisionOf<Self>) -> Option<Problem> {
        None
    }

    /// Logs a reason that differs from the last one.
    fn log_transition(&self, key: &str, reason: &Self::Reason);

    /// Runs before the key is observed. Returns how long to wait if it can't be reconciled now.
    fn prepare(&self, _key: &str) -> impl Future<Output = Option<Duration>> + Send {
        async { None }
    }

    /// Called with each snapshot that is decided on. Returns the span of the pass.
    fn start_pass(&self, _key: &str, _snapshot: &Self::Snapshot) -> Span {
        Span::none()
    }

    /// Reports an error that ended a pass in a status. Returns the problem if it pauses the key.
    fn report_error(
        &self,
        _error: &ApplyError,
        _snapshot: &Self::Snapshot,
        _pass: &mut PassOf<Self>,
    ) -> impl Future<Output = Option<Problem>> + Send {
        async { None }
    }

    /// Called after each pass with its duration and the code of its error.
    fn record_pass(&self, _took: Duration, _error: Option<&str>) {}

    /// Whether a key has priority over others.
    fn is_prioritized(&self, _key: &str) -> bool {
        false
    }

    /// Waits for a key with an answer to a lookup that no pass waited for; the driver enqueues it.
    fn next_answered(&self) -> impl Future<Output = String> + Send {
        std::future::pending()
    }

    /// Removes the state of a key that can't be observed any more.
    fn forget(&self, _key: &str) {}
}

/// A key is reconciled after `quiet` without a change, at the latest after `most`.
#[derive(Debug, Clone, Copy)]
pub struct Debounce {
    pub quiet: Duration,
    pub most: Duration,
}

/// Why a pass ends before there is a decision to apply.
#[derive(Debug)]
pub enum NoDecision {
    /// A lookup has no free slot now for these hosts, or for plans if the set is empty.
    Busy(BTreeSet<String>),
    /// The inputs changed during a lookup.
    InputsChanged,
    Failed(ApplyError),
}

impl<E: Into<ApplyError>> From<E> for NoDecision {
    fn from(error: E) -> Self {
        Self::Failed(error.into())
    }
}
