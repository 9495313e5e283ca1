//! The driver of every controller: it decides when a key is reconciled, runs the functions of its
//! [`Reconciler`], and maps their result to the next time.
//!
//! Input: triggers of the watches. Output: actions that were applied. Invariant: a key is with one
//! worker at a time, and nothing is decided while a watch is not synced or the cache is older than
//! our own writes.

mod active_reconciles;
mod key_states;
mod reconciler;
mod run_pass;
#[cfg(test)]
mod tests;
mod worker;

use std::collections::hash_map::RandomState;
use std::hash::{BuildHasher as _, Hasher as _};
use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::sync::{Semaphore, watch};
use tokio::task::{JoinError, JoinSet};
use tracing::Instrument as _;

use crate::queue::{Queue, Requeue};
use crate::waits::CACHE_SYNC;
use crate::watch::{OWN_WRITE_TIMEOUT, OwnWrites, WatchHealth};
use key_states::KeyStates;

pub use active_reconciles::ActiveReconciles;
pub use key_states::InputsHash;
pub use reconciler::{Debounce, Decision, DecisionOf, NoDecision, PassOf, Reconciler};
pub use run_pass::MAX_LOOKUP_ROUNDS;
pub use worker::Worker;

#[derive(Debug)]
pub struct Driver<R> {
    reconciler: R,
    watch_health: Arc<WatchHealth>,
    own_writes: Arc<OwnWrites>,
    active: Arc<ActiveReconciles>,
    queue: Queue<String>,
    key_states: KeyStates,
    workers: Arc<Semaphore>,
}

/// A [`Driver`] of any reconciler.
pub trait Controller<T>: Send + Sync {
    /// Enqueues the keys that a change affects.
    fn enqueue(&self, trigger: &T);

    /// Starts to work. After a stop, what is running is finished.
    fn start(self: Arc<Self>, workers: &mut JoinSet<()>, stopped: &watch::Receiver<bool>);
}

impl<R: Reconciler> Controller<R::Trigger> for Driver<R> {
    fn enqueue(&self, trigger: &R::Trigger) {
        let keys = self.reconciler.affected_keys(trigger);
        if R::DEBOUNCE.is_some() {
            self.key_states.record_enqueued(&keys);
        }
        for key in &keys {
            self.queue.enqueue(key);
        }
    }

    fn start(self: Arc<Self>, workers: &mut JoinSet<()>, stopped: &watch::Receiver<bool>) {
        workers.spawn(Arc::clone(&self).work(stopped.clone()));
        workers.spawn(self.enqueue_answered(stopped.clone()));
    }
}

impl<R: Reconciler> Driver<R> {
    pub fn new(
        reconciler: R,
        (watch_health, own_writes, active): (
            &Arc<WatchHealth>,
            &Arc<OwnWrites>,
            &Arc<ActiveReconciles>,
        ),
    ) -> Arc<Self> {
        Arc::new(Self {
            reconciler,
            watch_health: Arc::clone(watch_health),
            own_writes: Arc::clone(own_writes),
            active: Arc::clone(active),
            queue: Queue::default(),
            key_states: KeyStates::default(),
            workers: Arc::new(Semaphore::new(R::WORKERS)),
        })
    }

    /// Runs a pass for each key that is due, as long as there are workers.
    async fn work(self: Arc<Self>, mut stopped: watch::Receiver<bool>) {
        let mut passes = JoinSet::new();
        loop {
            let next = async {
                // A worker that is free is for a pass that gave one back, until a key is due.
                self.queue.wait_until_due().await;
                let worker = Worker::acquire(&self.workers).await;
                (self.queue.next().await, worker)
            };
            tokio::select! {
                // No new key after the stop.
                biased;
                _ = stopped.wait_for(|stopped| *stopped) => break,
                Some(ended) = passes.join_next() => propagate_panic(ended),
                (key, worker) = next => {
                    // Boxed, as it is large, and moved several times.
                    passes.spawn(Box::pin(Arc::clone(&self).work_on(key, worker)));
                }
            }
        }
        while let Some(ended) = passes.join_next().await {
            propagate_panic(ended);
        }
    }

    async fn work_on(self: Arc<Self>, key: String, worker: Worker) {
        let reconcile = Box::pin(self.reconcile(&key, self.queue.is_paused(&key), worker));
        let requeue = self.active.run(&format!("{} {key}", R::KIND), reconcile).await;
        self.queue.set_priority(&key, self.reconciler.is_prioritized(&key));
        self.queue.done(&key, requeue);
    }

    /// Enqueues keys whose lookups ended that no worker waited for.
    async fn enqueue_answered(self: Arc<Self>, mut stopped: watch::Receiver<bool>) {
        loop {
            let key = tokio::select! {
                biased;
                _ = stopped.wait_for(|stopped| *stopped) => return,
                key = self.reconciler.next_answered() => key,
            };
            self.queue.enqueue(&key);
        }
    }

    /// Reconciles a key and returns when to do so again. A paused key is reconciled only if the
    /// inputs of its problem changed.
    async fn reconcile(&self, key: &str, is_paused: bool, worker: Worker) -> Requeue {
        let began = Instant::now();
        if !self.watch_health.not_synced().is_empty() {
            return Requeue::CacheStale(CACHE_SYNC);
        }
        if let Some(debounce) = R::DEBOUNCE
            && let Some(wait) = self.key_states.debounce(key, debounce)
        {
            return Requeue::CacheStale(wait);
        }
        if let Some(wait) = self.reconciler.prepare(key).await
            && !self.key_states.is_held(key)
        {
            return Requeue::CacheStale(wait);
        }
        let Some(mut snapshot) = self.reconciler.observe(key) else {
            self.key_states.forget(key);
            self.reconciler.forget(key);
            return Requeue::Never;
        };
        if self.own_writes.is_stale(R::seen_versions(&snapshot)) {
            // The watch event of the write enqueues the key.
            return Requeue::CacheStale(OWN_WRITE_TIMEOUT);
        }
        if let Some(problem) = self.key_states.earlier_problem(key, || R::inputs(&snapshot)) {
            if is_paused {
                return Requeue::Paused;
            }
            R::set_earlier_problem(&mut snapshot, problem);
        }
        if self.key_states.is_checked(key, || R::inputs(&snapshot)) {
            R::set_checked(&mut snapshot);
        }
        let span = self.reconciler.start_pass(key, &snapshot);
        let result = Box::pin(self.run_pass(key, &mut snapshot, worker)).instrument(span).await;
        self.reconciler.record_pass(began.elapsed(), result.error.as_deref());
        result.requeue
    }
}

fn propagate_panic(ended: Result<(), JoinError>) {
    if let Err(failed) = ended
        && failed.is_panic()
    {
        std::panic::resume_unwind(failed.into_panic());
    }
}

/// A random delay until the next try, so that waiting keys don't retry all at once.
pub fn busy_pause() -> Duration {
    // Randomness from the standard library's hasher seed.
    let random = RandomState::new().build_hasher().finish();
    Duration::from_millis(250 + random % 500)
}
