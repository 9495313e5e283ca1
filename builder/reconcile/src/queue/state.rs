//! The keys of a queue, and the order in which they are due.

use std::collections::{BTreeMap, BTreeSet};

use tokio::time::Instant;

#[derive(Debug)]
pub(super) struct State<K> {
    /// By time, one set for each [`Priority`]; each key is in one of them at most.
    pub(super) due: [BTreeSet<(Instant, K)>; 3],
    pub(super) entries: BTreeMap<K, Entry>,
    pub(super) prioritized: BTreeSet<K>,
}

#[derive(Debug, Default)]
pub(super) struct Entry {
    pub(super) due: Option<(Instant, Priority)>,
    pub(super) running: bool,
    /// Enqueued while it ran.
    pub(super) again: bool,
    pub(super) failures: u32,
    /// Whether the last reconcile failed.
    pub(super) is_failed: bool,
    /// It does not run before, even if it is enqueued.
    pub(super) not_before: Option<Instant>,
    /// The pause after a failure; only a change of the failure's inputs ends it early.
    pub(super) paused_until: Option<Instant>,
}

/// The order of keys that are due.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Priority {
    High,
    Normal,
    Failed,
}

impl<K: Ord + Clone> State<K> {
    /// The next key that is due, if one is.
    pub(super) fn take_due(&mut self, now: Instant) -> Option<K> {
        let is_due =
            |due: &&mut BTreeSet<(Instant, K)>| due.first().is_some_and(|(at, _)| *at <= now);
        let (_, key) = self.due.iter_mut().find(is_due).and_then(BTreeSet::pop_first)?;
        Some(key)
    }

    /// Whether a key is due; without one, the time at which the next one will be.
    pub(super) fn is_due(&self, now: Instant) -> Result<(), Option<Instant>> {
        let first = self.due.iter().filter_map(BTreeSet::first).map(|(at, _)| *at).min();
        if first.is_some_and(|at| at <= now) { Ok(()) } else { Err(first) }
    }

    /// If the key is scheduled already, the earlier time counts.
    pub(super) fn schedule(&mut self, key: &K, at: Instant) {
        let is_prioritized = self.prioritized.contains(key);
        let entry = self.entries.entry(key.clone()).or_default();
        let priority = match (entry.is_failed, is_prioritized) {
            (true, _) => Priority::Failed,
            (false, true) => Priority::High,
            (false, false) => Priority::Normal,
        };
        if let Some((before, priority)) = entry.due {
            if before <= at {
                return;
            }
            self.due[priority as usize].remove(&(before, key.clone()));
        }
        entry.due = Some((at, priority));
        self.due[priority as usize].insert((at, key.clone()));
    }
}
