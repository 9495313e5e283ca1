//! The state that the driver remembers of each key between reconciles. All of it may be lost.

use std::collections::{BTreeMap, BTreeSet};
use std::hash::{DefaultHasher, Hash, Hasher as _};
use std::sync::{Mutex, MutexGuard};
use std::time::Duration;

use tokio::time::Instant;

use super::Debounce;
use crate::problem::{EarlierProblem, Problem, REPORT_DELAY};

/// A hash of everything that the result of a reconcile depends on. It is compared within one
/// process only.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct InputsHash(u64);

impl InputsHash {
    pub fn of(inputs: &impl Hash) -> Self {
        let mut hasher = DefaultHasher::new();
        inputs.hash(&mut hasher);
        Self(hasher.finish())
    }
}

#[derive(Debug, Default)]
pub(crate) struct KeyStates(Mutex<BTreeMap<String, KeyState>>);

#[derive(Debug, Default)]
struct KeyState {
    /// When it was enqueued since the last reconcile, first and last.
    enqueued: Option<(Instant, Instant)>,
    /// The reason that was last logged.
    reason: String,
    /// The problem that the last reconcile reported.
    problem: Option<ReportedProblem>,
    /// Since when its lookups have had no free slot.
    held_since: Option<Instant>,
    /// The inputs of the last check of objects that no watch shows, and until when it counts.
    checked: Option<(InputsHash, Instant)>,
}

/// A problem, and the inputs that caused it.
#[derive(Debug, Clone)]
struct ReportedProblem {
    inputs: InputsHash,
    cause: String,
    since: Instant,
}

impl KeyStates {
    /// Records that these keys were enqueued, for [`debounce`](Self::debounce).
    pub fn record_enqueued(&self, keys: &BTreeSet<String>) {
        let now = Instant::now();
        let mut states = self.lock();
        for key in keys {
            let enqueued = &mut states.entry(key.clone()).or_default().enqueued;
            let first = enqueued.map_or(now, |(first, _)| first);
            *enqueued = Some((first, now));
        }
    }

    /// How long to wait for further changes of a key; none if it can be reconciled now.
    pub fn debounce(&self, key: &str, debounce: Debounce) -> Option<Duration> {
        let mut states = self.lock();
        let state = states.get_mut(key)?;
        let (first, last) = state.enqueued?;
        let end = (last + debounce.quiet).min(first + debounce.most);
        let wait = end.saturating_duration_since(Instant::now());
        if wait.is_zero() {
            state.enqueued = None;
            return None;
        }
        Some(wait)
    }

    /// Whether the reason differs from the last one.
    pub fn set_reason(&self, key: &str, reason: String) -> bool {
        let mut states = self.lock();
        let state = states.entry(key.to_owned()).or_default();
        let before = std::mem::replace(&mut state.reason, reason);
        before != state.reason
    }

    /// The problem that was reported last, if it was for these inputs.
    pub fn earlier_problem(
        &self,
        key: &str,
        inputs: impl FnOnce() -> InputsHash,
    ) -> Option<EarlierProblem> {
        let problem = self.lock().get(key)?.problem.clone()?;
        let lasted = problem.since.elapsed();
        (problem.inputs == inputs()).then_some(EarlierProblem { cause: problem.cause, lasted })
    }

    /// Replaces the problem of a key by the one that was just found for these inputs. It keeps the
    /// start time of an earlier problem with the same inputs.
    pub fn set_problem(&self, key: &str, found: Option<(InputsHash, &Problem)>) {
        let mut states = self.lock();
        let state = states.entry(key.to_owned()).or_default();
        let before = state.problem.take();
        state.problem = found.map(|(inputs, problem)| {
            let before = before.filter(|before| before.inputs == inputs);
            let since = before.map_or_else(Instant::now, |before| before.since);
            ReportedProblem { inputs, cause: problem.cause(), since }
        });
    }

    /// Records that objects that no watch shows are as they should be with these inputs.
    pub fn set_checked(&self, key: &str, inputs: InputsHash, time: Duration) {
        self.lock().entry(key.to_owned()).or_default().checked =
            Some((inputs, Instant::now() + time));
    }

    /// Whether the last check counts for these inputs. If not, it is forgotten: what follows may
    /// change the objects.
    pub fn is_checked(&self, key: &str, inputs: impl FnOnce() -> InputsHash) -> bool {
        let mut states = self.lock();
        let Some(checked) = states.get_mut(key).map(|state| &mut state.checked) else {
            return false;
        };
        let now = Instant::now();
        *checked = checked.filter(|(_, until)| now < *until).filter(|(of, _)| *of == inputs());
        checked.is_some()
    }

    /// Records that a lookup of this key had no free slot. Returns whether that lasts.
    pub fn hold(&self, key: &str) -> bool {
        let mut states = self.lock();
        let state = states.entry(key.to_owned()).or_default();
        state.held_since.get_or_insert_with(Instant::now).elapsed() >= REPORT_DELAY
    }

    /// Whether the lookups of this key have had no free slot for so long that it is reported.
    pub fn is_held(&self, key: &str) -> bool {
        let since = self.lock().get(key).and_then(|state| state.held_since);
        since.is_some_and(|since| since.elapsed() >= REPORT_DELAY)
    }

    pub fn end_hold(&self, key: &str) {
        if let Some(state) = self.lock().get_mut(key) {
            state.held_since = None;
        }
    }

    pub fn forget(&self, key: &str) {
        self.lock().remove(key);
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<String, KeyState>> {
        self.0.lock().expect("it is not poisoned: maps and clocks don't panic")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn changes_that_come_together_are_one_and_delay_a_key_only_so_long() {
        let debounce =
            Debounce { quiet: Duration::from_millis(20), most: Duration::from_millis(50) };
        let (states, keys) = (KeyStates::default(), BTreeSet::from(["worker".to_owned()]));
        assert_eq!(states.debounce("worker", debounce), None, "nothing changed");
        for (what, wait) in [("first", 20), ("second", 20), ("third", 20), ("at the latest", 5)] {
            states.record_enqueued(&keys);
            let wait = Some(Duration::from_millis(wait));
            assert_eq!(states.debounce("worker", debounce), wait, "{what}");
            tokio::time::advance(Duration::from_millis(15)).await;
        }
        assert_eq!(states.debounce("worker", debounce), None);
        states.record_enqueued(&keys);
        assert_eq!(states.debounce("worker", debounce), Some(debounce.quiet), "again");
    }

    #[tokio::test(start_paused = true)]
    async fn a_check_counts_for_its_inputs_and_time() {
        let (states, minute) = (KeyStates::default(), Duration::from_secs(60));
        let inputs = |of: &str| InputsHash::of(&of);
        let is_checked = |key: &str, of: &str| states.is_checked(key, || inputs(of));
        assert!(!is_checked("worker", "a"));
        states.set_checked("worker", inputs("a"), minute);
        assert!(
            is_checked("worker", "a") && is_checked("worker", "a") && !is_checked("infra", "a")
        );
        assert!(!is_checked("worker", "b"));
        assert!(!is_checked("worker", "a"), "the pass with other inputs may have changed objects");
        states.set_checked("worker", inputs("a"), minute);
        tokio::time::advance(minute).await;
        assert!(!is_checked("worker", "a"));
    }

    #[test]
    fn a_reason_is_new_once() {
        let states = KeyStates::default();
        let is_new = |reason: &str| states.set_reason("worker", reason.to_owned());
        assert_eq!(["a", "a", "b", "a"].map(is_new), [true, false, true, true]);
        states.forget("worker");
        assert!(is_new("a"));
    }
}
