//! What is to be looked at, and when: one entry a key, however often it was woken.
//!
//! Keys that are preferred go first, so that what was begun is ended before something else is begun, and little is ever kept
//! of what is under way.
//!
//! A key is with one worker at a time; what wakes it meanwhile brings it back right after. Different keys go in parallel. A
//! key that failed waits as its error's class says, and whatever wakes it ends that wait: news may be what it waited for. As
//! its own last write may be that news too, it rests a little first, the longer the more often it failed.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Mutex, MutexGuard};
use std::time::Duration;

use tokio::sync::Notify;
use tokio::time::{Instant, sleep_until};

use crate::report::Class;

/// Keys that wait for a worker.
#[derive(Debug)]
pub struct Queue<K> {
    state: Mutex<State<K>>,
    changed: Notify,
}

#[derive(Debug)]
struct State<K> {
    /// In order of their time, those first that are preferred; each key once at most.
    due: [BTreeSet<(Instant, K)>; 2],
    entries: BTreeMap<K, Entry>,
    preferred: BTreeSet<K>,
}

#[derive(Debug, Default)]
struct Entry {
    /// And among which.
    due: Option<(Instant, usize)>,
    running: bool,
    /// Woken while it ran.
    again: bool,
    failures: u32,
    /// Nothing wakes it before.
    rests: Option<Instant>,
}

/// How a look at a key ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    /// Nothing to do until something changes.
    Idle,
    /// All is well; look again after this time.
    After(Duration),
    /// What was written last is not seen yet, which says nothing of how that went: look again after this time.
    Behind(Duration),
    /// Somebody else wrote meanwhile: look again at once.
    Stale,
    /// It went wrong.
    Failed(Class),
}

impl<K: Ord + Clone> Default for Queue<K> {
    fn default() -> Self {
        Self {
            state: Mutex::new(State {
                due: [BTreeSet::new(), BTreeSet::new()],
                entries: BTreeMap::new(),
                preferred: BTreeSet::new(),
            }),
            changed: Notify::new(),
        }
    }
}

impl<K: Ord + Clone> Queue<K> {
    /// Something about this key changed: it is due now.
    pub fn wake(&self, key: &K) {
        let mut state = self.lock();
        let entry = state.entries.entry(key.clone()).or_default();
        match entry.running {
            true => entry.again = true,
            false => {
                let at = Instant::now().max(entry.rests.unwrap_or_else(Instant::now));
                state.schedule(key, at);
            }
        }
        drop(state);
        self.changed.notify_one();
    }

    /// The next key that is due, as soon as there is one. It is the caller's until [`done`](Self::done).
    pub async fn next(&self) -> K {
        loop {
            let changed = self.changed.notified();
            let wait_until = {
                let mut state = self.lock();
                match state.take_due(Instant::now()) {
                    Ok(key) => {
                        let more = state.due.iter().any(|due| !due.is_empty());
                        let entry = state.entries.entry(key.clone()).or_default();
                        entry.due = None;
                        entry.running = true;
                        drop(state);
                        if more {
                            // One notice may stand for several keys.
                            self.changed.notify_one();
                        }
                        return key;
                    }
                    Err(first) => first,
                }
            };
            match wait_until {
                Some(at) => tokio::select! {
                    () = changed => {}
                    () = sleep_until(at) => {}
                },
                None => changed.await,
            }
        }
    }

    /// Says whether a key goes before others from its next time on.
    pub fn prefer(&self, key: &K, is_preferred: bool) {
        let mut state = self.lock();
        match is_preferred {
            true => drop(state.preferred.insert(key.clone())),
            false => drop(state.preferred.remove(key)),
        }
    }

    /// Gives a key back.
    pub fn done(&self, key: &K, outcome: Outcome) {
        let now = Instant::now();
        let mut state = self.lock();
        let entry = state.entries.entry(key.clone()).or_default();
        entry.running = false;
        entry.failures = match outcome {
            Outcome::Idle | Outcome::After(_) => 0,
            Outcome::Behind(_) => entry.failures,
            Outcome::Stale | Outcome::Failed(_) => entry.failures.saturating_add(1),
        };
        let rests = match outcome {
            Outcome::Failed(_) => now + stale_wait(entry.failures),
            _ => now,
        };
        entry.rests = Some(rests);
        let woken = std::mem::take(&mut entry.again);
        let wait = match outcome {
            Outcome::Idle => None,
            Outcome::After(wait) | Outcome::Behind(wait) => Some(wait),
            Outcome::Stale => Some(stale_wait(entry.failures)),
            Outcome::Failed(class) => Some(back_off(class, entry.failures)),
        };
        match (woken, wait) {
            (true, _) => state.schedule(key, rests),
            (false, Some(wait)) => state.schedule(key, now + wait),
            (false, None) => {
                state.entries.remove(key);
            }
        }
        drop(state);
        self.changed.notify_one();
    }

    /// How many keys wait or are worked on.
    pub fn len(&self) -> usize {
        self.lock().entries.len()
    }

    /// Whether nothing waits and nothing is worked on.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    fn lock(&self) -> MutexGuard<'_, State<K>> {
        self.state
            .lock()
            .expect("nobody panics while holding it: no caller's code runs inside")
    }
}

impl<K: Ord + Clone> State<K> {
    /// The next key whose time has come, else the time that is next.
    fn take_due(&mut self, now: Instant) -> Result<K, Option<Instant>> {
        let is_due =
            |due: &&mut BTreeSet<(Instant, K)>| due.first().is_some_and(|(at, _)| *at <= now);
        if let Some((_, key)) = self
            .due
            .iter_mut()
            .find(is_due)
            .and_then(BTreeSet::pop_first)
        {
            return Ok(key);
        }
        let first = self.due.iter().filter_map(BTreeSet::first);
        Err(first.map(|(at, _)| *at).min())
    }

    /// The earlier of the two times counts.
    fn schedule(&mut self, key: &K, at: Instant) {
        let among = usize::from(!self.preferred.contains(key));
        let entry = self.entries.entry(key.clone()).or_default();
        if let Some((before, among)) = entry.due {
            if before <= at {
                return;
            }
            self.due[among].remove(&(before, key.clone()));
        }
        entry.due = Some((at, among));
        self.due[among].insert((at, key.clone()));
    }
}

/// A view that is behind catches up with the next watch event, which wakes the key anyhow: the wait only keeps a view that
/// never catches up from being asked without end.
fn stale_wait(failures: u32) -> Duration {
    doubled(Duration::from_millis(20), failures, Duration::from_secs(10))
}

/// How long a key waits after this many failures in a row, if nothing wakes it before.
fn back_off(class: Class, failures: u32) -> Duration {
    let (first, most) = match class {
        Class::Retry => (Duration::from_millis(500), Duration::from_secs(60)),
        // A right that is granted later sends no event.
        Class::Refused => (Duration::from_secs(5), Duration::from_secs(120)),
        // Neither goes away by itself, but what we see of it may be old.
        Class::UserInput | Class::Bug => (Duration::from_secs(5), Duration::from_secs(300)),
    };
    doubled(first, failures, most)
}

fn doubled(first: Duration, failures: u32, most: Duration) -> Duration {
    let doublings = failures.saturating_sub(1).min(16);
    first.saturating_mul(1 << doublings).min(most)
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::time::timeout;

    const SOON: Duration = Duration::from_millis(1);

    #[tokio::test(start_paused = true)]
    async fn what_is_preferred_goes_first_and_holds_up_nobody() {
        let queue = Queue::default();
        queue.prefer(&"later", true);
        queue.prefer(&"begun", true);
        for key in ["later", "new", "begun"] {
            queue.wake(&key);
            tokio::time::advance(SOON).await;
        }
        assert_eq!(queue.next().await, "later");
        queue.done(&"later", Outcome::After(Duration::from_secs(60)));
        assert_eq!(queue.next().await, "begun");
        queue.prefer(&"begun", false);
        queue.wake(&"begun");
        tokio::time::advance(SOON).await;
        queue.done(&"begun", Outcome::Idle);
        assert_eq!(queue.next().await, "new", "its time was before");
        assert_eq!(queue.next().await, "begun");
        assert_eq!(queue.next().await, "later", "no sooner than it said");
    }

    #[tokio::test(start_paused = true)]
    async fn a_key_is_merged_and_with_one_worker_at_a_time() {
        let queue = Queue::default();
        for key in ["a", "a", "b", "a"] {
            queue.wake(&key);
        }
        assert_eq!(queue.next().await, "a");
        assert_eq!(queue.next().await, "b");
        queue.wake(&"a");
        assert!(
            timeout(SOON, queue.next()).await.is_err(),
            "a is being worked on"
        );
        queue.done(&"a", Outcome::Idle);
        assert_eq!(
            queue.next().await,
            "a",
            "what came meanwhile brings it back"
        );
        queue.done(&"a", Outcome::Idle);
        queue.done(&"b", Outcome::Idle);
        assert!(queue.is_empty());
    }

    #[tokio::test(start_paused = true)]
    async fn a_failure_waits_by_its_class_and_news_end_the_wait() {
        let failed = Outcome::Failed;
        for (what, outcomes, want) in [
            ("once", &[failed(Class::Retry)][..], 500),
            ("twice", &[failed(Class::Retry); 2], 1000),
            ("by a user", &[failed(Class::UserInput)], 5000),
            ("well", &[Outcome::After(Duration::from_millis(7))], 7),
            ("behind", &[Outcome::Stale], 20),
            ("behind again", &[Outcome::Stale; 2], 40),
            (
                "well in between",
                &[
                    failed(Class::Bug),
                    Outcome::After(SOON),
                    failed(Class::Retry),
                ],
                500,
            ),
        ] {
            let queue = Queue::default();
            queue.wake(&"a");
            let mut since = Instant::now();
            for outcome in outcomes {
                queue.next().await;
                queue.done(&"a", *outcome);
                since = Instant::now();
            }
            queue.next().await;
            assert_eq!(since.elapsed().as_millis(), want, "{what}");
        }
        let queue = Queue::default();
        queue.wake(&"a");
        queue.next().await;
        queue.done(&"a", failed(Class::Bug));
        queue.wake(&"a");
        assert!(timeout(SOON * 20, queue.next()).await.is_ok());
    }

    #[tokio::test(start_paused = true)]
    async fn what_fails_and_wakes_itself_by_what_it_writes_rests_longer_each_time() {
        let queue = Queue::default();
        queue.wake(&"a");
        let mut rests = Vec::new();
        for _ in 0..12 {
            queue.next().await;
            queue.wake(&"a");
            let ended = Instant::now();
            queue.done(&"a", Outcome::Failed(Class::Refused));
            queue.wake(&"a");
            queue.next().await;
            rests.push(ended.elapsed().as_millis());
            // Its own write is not seen yet.
            queue.done(&"a", Outcome::Behind(SOON));
        }
        assert_eq!(rests[..4], [20, 40, 80, 160]);
        assert_eq!(rests[9..], [10_000; 3]);
        queue.next().await;
        queue.done(&"a", Outcome::Idle);
        queue.wake(&"a");
        assert!(timeout(SOON, queue.next()).await.is_ok(), "all is well");
    }

    #[tokio::test(start_paused = true)]
    async fn every_waiting_worker_gets_a_key() {
        let queue = Queue::default();
        let workers = async { tokio::join!(queue.next(), queue.next(), queue.next()) };
        let waking = async {
            tokio::task::yield_now().await;
            for key in ["a", "b", "c"] {
                queue.wake(&key);
            }
        };
        let ((a, b, c), ()) = timeout(SOON, async { tokio::join!(workers, waking) })
            .await
            .unwrap();
        assert_eq!(BTreeSet::from([a, b, c]), BTreeSet::from(["a", "b", "c"]));
    }

    #[test]
    fn the_waits_have_an_end() {
        for (class, most) in [
            (Class::Retry, 60),
            (Class::Refused, 120),
            (Class::UserInput, 300),
            (Class::Bug, 300),
        ] {
            assert_eq!(back_off(class, u32::MAX), Duration::from_secs(most));
        }
        assert_eq!(stale_wait(u32::MAX), Duration::from_secs(10));
    }
}
