//! The work queue: which key is reconciled next, and when. Each key is in it at most once.
//!
//! Prioritized keys go first, so that a build that was started is finished before another is
//! started, and few plans are cached. Keys whose last reconcile failed go last, so that an
//! unreachable registry delays only its own pools.
//!
//! One worker at a time has a key; different keys run in parallel. If a key is enqueued while it
//! runs, it runs again afterwards. A key that failed pauses for as long as the class of its error
//! says. If it is enqueued during the pause, a worker gets it and learns that it [is
//! paused](Queue::is_paused): if nothing changed that the failure depends on, for example after
//! mosb's own write, the worker returns [`Requeue::Paused`]. Before that the key waits a little,
//! longer after each failure.

mod state;

use std::collections::{BTreeMap, BTreeSet};
use std::hash::Hash;
use std::sync::{Mutex, MutexGuard};
use std::time::Duration;

use tokio::sync::Notify;
use tokio::time::{Instant, sleep_until};

use crate::waits::{CONFLICT, after_error};
use mosb_types::ErrorClass;
use state::State;

#[derive(Debug)]
pub struct Queue<K> {
    state: Mutex<State<K>>,
    changed: Notify,
}

/// The result of a reconcile: when the key runs again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Requeue {
    /// Not until something changes.
    Never,
    /// After this time; the reconcile succeeded.
    After(Duration),
    /// After this time; the reconcile could not start, so this is neither success nor failure.
    CacheStale(Duration),
    /// When its pause is over: it failed before, and nothing changed that the failure depends on.
    Paused,
    /// Soon: somebody else changed an object meanwhile.
    Conflict,
    /// After a pause that depends on the class of the error.
    Error(ErrorClass),
}

impl<K: Ord + Clone + Hash> Default for Queue<K> {
    fn default() -> Self {
        Self {
            state: Mutex::new(State {
                due: Default::default(),
                entries: BTreeMap::new(),
                prioritized: BTreeSet::new(),
            }),
            changed: Notify::new(),
        }
    }
}

impl<K: Ord + Clone + Hash> Queue<K> {
    /// Makes a key due now.
    pub fn enqueue(&self, key: &K) {
        let mut state = self.lock();
        let entry = state.entries.entry(key.clone()).or_default();
        if entry.running {
            entry.again = true
        } else {
            let at = Instant::now().max(entry.not_before.unwrap_or_else(Instant::now));
            state.schedule(key, at);
        }
        drop(state);
        self.changed.notify_one();
    }

    /// Waits until a key is due, without taking it.
    pub async fn wait_until_due(&self) {
        loop {
            let changed = self.changed.notified();
            let due = self.lock().is_due(Instant::now());
            match due {
                Ok(()) => return,
                Err(Some(at)) => tokio::select! {
                    () = changed => {}
                    () = sleep_until(at) => {}
                },
                Err(None) => changed.await,
            }
        }
    }

    /// Waits for the next key that is due. The caller has it until it calls [`done`](Self::done).
    pub async fn next(&self) -> K {
        loop {
            self.wait_until_due().await;
            let mut state = self.lock();
            let Some(key) = state.take_due(Instant::now()) else { continue };
            let more = state.due.iter().any(|due| !due.is_empty());
            let entry = state.entries.entry(key.clone()).or_default();
            entry.due = None;
            entry.running = true;
            drop(state);
            if more {
                // One notification may cover several keys.
                self.changed.notify_one();
            }
            return key;
        }
    }

    /// Sets whether a key has priority over others from the next time on.
    pub fn set_priority(&self, key: &K, is_prioritized: bool) {
        let mut state = self.lock();
        if is_prioritized {
            state.prioritized.insert(key.clone());
        } else {
            state.prioritized.remove(key);
        }
    }

    /// Whether a key failed and its pause is not over.
    pub fn is_paused(&self, key: &K) -> bool {
        let state = self.lock();
        let entry = state.entries.get(key);
        let until = entry.and_then(|entry| entry.paused_until);
        until.is_some_and(|until| until > Instant::now())
    }

    /// Returns a key to the queue.
    pub fn done(&self, key: &K, requeue: Requeue) {
        let now = Instant::now();
        let mut state = self.lock();
        let entry = state.entries.entry(key.clone()).or_default();
        entry.running = false;
        entry.failures = match requeue {
            Requeue::Never | Requeue::After(_) => 0,
            Requeue::CacheStale(_) | Requeue::Paused => entry.failures,
            Requeue::Conflict | Requeue::Error(_) => entry.failures.saturating_add(1),
        };
        entry.is_failed = match requeue {
            Requeue::Never | Requeue::After(_) => false,
            Requeue::CacheStale(_) | Requeue::Paused | Requeue::Conflict => entry.is_failed,
            Requeue::Error(_) => true,
        };
        let not_before = match requeue {
            Requeue::Error(_) => now + CONFLICT.wait(entry.failures),
            _ => now,
        };
        entry.not_before = Some(not_before);
        entry.paused_until = match requeue {
            Requeue::Never | Requeue::After(_) | Requeue::Conflict => None,
            Requeue::CacheStale(_) | Requeue::Paused => entry.paused_until,
            Requeue::Error(class) => {
                Some(now + after_error(class).wait_for(entry.failures, &(key, entry.failures)))
            }
        };
        let enqueued = std::mem::take(&mut entry.again);
        let at = match requeue {
            Requeue::Never => None,
            Requeue::After(wait) | Requeue::CacheStale(wait) => Some(now + wait),
            Requeue::Conflict => Some(now + CONFLICT.wait(entry.failures)),
            Requeue::Error(_) | Requeue::Paused => Some(entry.paused_until.unwrap_or(now)),
        };
        match (enqueued, at) {
            (true, _) => state.schedule(key, not_before),
            (false, Some(at)) => state.schedule(key, at),
            (false, None) => {
                state.entries.remove(key);
            }
        }
        drop(state);
        self.changed.notify_one();
    }

    /// Whether no key waits or runs.
    #[cfg(test)]
    fn is_empty(&self) -> bool {
        self.lock().entries.is_empty()
    }

    fn lock(&self) -> MutexGuard<'_, State<K>> {
        self.state.lock().expect("it is not poisoned: no caller's code runs while it is locked")
    }
}

#[cfg(test)]
mod tests {
    use tokio::time::timeout;

    use super::*;

    const SOON: Duration = Duration::from_millis(1);

    #[tokio::test(start_paused = true)]
    async fn keys_with_priority_run_first_and_delay_no_others() {
        let queue = Queue::default();
        queue.set_priority(&"later", true);
        queue.set_priority(&"begun", true);
        for key in ["later", "new", "begun"] {
            queue.enqueue(&key);
            tokio::time::advance(SOON).await;
        }
        assert_eq!(queue.next().await, "later");
        queue.done(&"later", Requeue::After(Duration::from_secs(60)));
        assert_eq!(queue.next().await, "begun");
        queue.set_priority(&"begun", false);
        queue.enqueue(&"begun");
        tokio::time::advance(SOON).await;
        queue.done(&"begun", Requeue::Never);
        assert_eq!(queue.next().await, "new", "its time was before");
        assert_eq!(queue.next().await, "begun");
        assert_eq!(queue.next().await, "later", "not before its time");
    }

    #[tokio::test(start_paused = true)]
    async fn a_key_is_merged_and_with_one_worker_at_a_time() {
        let queue = Queue::default();
        for key in ["a", "a", "b", "a"] {
            queue.enqueue(&key);
        }
        assert_eq!(queue.next().await, "a");
        assert_eq!(queue.next().await, "b");
        queue.enqueue(&"a");
        assert!(timeout(SOON, queue.next()).await.is_err(), "a is being worked on");
        queue.done(&"a", Requeue::Never);
        assert_eq!(queue.next().await, "a", "what came meanwhile brings it back");
        queue.done(&"a", Requeue::Never);
        queue.done(&"b", Requeue::Never);
        assert!(queue.is_empty());
    }

    /// Whether it is this time, or up to a quarter less.
    fn is_about(waited: Duration, millis: u64) -> bool {
        let most = Duration::from_millis(millis);
        waited <= most && waited >= most * 3 / 4
    }

    #[tokio::test(start_paused = true)]
    async fn a_failure_waits_by_its_class() {
        let failed = Requeue::Error;
        for (what, requeues, want) in [
            ("once", &[failed(ErrorClass::Transient)][..], 500),
            ("twice", &[failed(ErrorClass::Transient); 2], 1000),
            ("by a user", &[failed(ErrorClass::InvalidInput)], 5000),
            ("well", &[Requeue::After(Duration::from_millis(7))], 7),
            ("behind", &[Requeue::Conflict], 20),
            ("behind again", &[Requeue::Conflict; 2], 40),
            (
                "well in between",
                &[
                    failed(ErrorClass::Internal),
                    Requeue::After(SOON),
                    failed(ErrorClass::Transient),
                ],
                500,
            ),
        ] {
            let queue = Queue::default();
            queue.enqueue(&"a");
            let mut since = Instant::now();
            for requeue in requeues {
                queue.next().await;
                queue.done(&"a", *requeue);
                since = Instant::now();
            }
            queue.next().await;
            assert!(is_about(since.elapsed(), want), "{what}: {since:?}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn other_triggers_do_not_shorten_the_pause_of_a_failed_key() {
        let queue = Queue::default();
        queue.enqueue(&"a");
        queue.next().await;
        queue.done(&"a", Requeue::Error(ErrorClass::Internal));
        let failed = Instant::now();
        for _ in 0..5 {
            queue.enqueue(&"a");
            assert!(timeout(SOON * 20, queue.next()).await.is_ok(), "to compare");
            assert!(queue.is_paused(&"a"));
            queue.done(&"a", Requeue::Paused);
        }
        queue.next().await;
        assert!(is_about(failed.elapsed(), 5000), "{:?}", failed.elapsed());
        assert!(!queue.is_paused(&"a"), "it is tried again");
        queue.done(&"a", Requeue::Error(ErrorClass::Internal));
        let failed = Instant::now();
        queue.enqueue(&"a");
        queue.next().await;
        assert!(failed.elapsed() < SOON * 50, "there may be news");
        queue.done(&"a", Requeue::Never);
        assert!(!queue.is_paused(&"a") && queue.is_empty());
    }

    #[tokio::test(start_paused = true)]
    async fn keys_that_failed_go_after_all_others_and_not_together() {
        let queue = Queue::default();
        let failing: Vec<String> = (0..8).map(|number| format!("failing-{number}")).collect();
        for key in &failing {
            queue.set_priority(key, true);
            queue.enqueue(key);
        }
        for _ in &failing {
            let key = queue.next().await;
            queue.done(&key, Requeue::Error(ErrorClass::Transient));
        }
        let failed = Instant::now();
        let mut times = BTreeSet::new();
        for _ in &failing {
            queue.next().await;
            times.insert(failed.elapsed());
        }
        assert!(times.len() > 4, "{times:?}");
        for key in &failing {
            queue.done(key, Requeue::Error(ErrorClass::Transient));
        }
        tokio::time::advance(Duration::from_secs(60)).await;
        queue.enqueue(&"new".to_owned());
        assert_eq!(queue.next().await, "new", "its time was last");
        let next = queue.next().await;
        assert!(failing.contains(&next));
    }

    #[tokio::test(start_paused = true)]
    async fn a_failing_key_that_enqueues_itself_pauses_longer_each_time() {
        let queue = Queue::default();
        queue.enqueue(&"a");
        let mut not_before = Vec::new();
        for _ in 0..12 {
            queue.next().await;
            queue.enqueue(&"a");
            let ended = Instant::now();
            queue.done(&"a", Requeue::Error(ErrorClass::Rejected));
            queue.enqueue(&"a");
            queue.next().await;
            not_before.push(ended.elapsed().as_millis());
            // The cache doesn't show its own write yet.
            queue.done(&"a", Requeue::CacheStale(SOON));
        }
        assert_eq!(not_before[..4], [20, 40, 80, 160]);
        assert_eq!(not_before[9..], [10_000; 3]);
        queue.next().await;
        queue.done(&"a", Requeue::Never);
        queue.enqueue(&"a");
        assert!(timeout(SOON, queue.next()).await.is_ok(), "all is well");
    }

    #[tokio::test(start_paused = true)]
    async fn every_waiting_worker_gets_a_key() {
        let queue = Queue::default();
        let workers = async { tokio::join!(queue.next(), queue.next(), queue.next()) };
        let enqueuing = async {
            tokio::task::yield_now().await;
            for key in ["a", "b", "c"] {
                queue.enqueue(&key);
            }
        };
        let ((a, b, c), ()) =
            timeout(SOON, async { tokio::join!(workers, enqueuing) }).await.unwrap();
        assert_eq!(BTreeSet::from([a, b, c]), BTreeSet::from(["a", "b", "c"]));
    }
}
