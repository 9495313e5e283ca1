//! The driver of every controller: it decides when a key is reconciled, runs the functions of its
//! [`Reconciler`], and maps their result to the next time.
//!
//! Input: triggers of the watches. Output: actions that were applied. Invariant: a key is with one
//! worker at a time, and nothing is decided while a watch is not synced or the cache is older than
//! our own writes.
//!
//! It is not `kube::runtime::Controller`. That one runs a key only while the object of this name is
//! in the store of one kind, and waits for the first list of that store alone; here a key outlives
//! its object, and a snapshot needs all stores. Its queue has no priorities, and any event ends a
//! back-off; here a failed key pauses until an input of its problem changes. It does not end a
//! running reconcile when the inputs change. Each of its `owns` and `watches` is one more watch
//! (shared streams are an unstable feature); here all controllers share the stores.

mod run_pass;
#[cfg(test)]
mod tests;

use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::sync::{Semaphore, watch};
use tokio::task::{JoinError, JoinSet};
use tracing::Instrument as _;

use super::active_reconciles::ActiveReconciles;
use super::cluster_cache::{ClusterCache, Trigger};
use super::key_states::KeyStates;
use super::queue::{Queue, Requeue};
use super::reconciler::Reconciler;
use super::worker::Worker;
use mosb_reconcile::watch::OWN_WRITE_TIMEOUT;
pub(crate) use run_pass::MAX_LOOKUP_ROUNDS;

/// How long to wait while a watch is not synced.
const CACHE_SYNC_REQUEUE: Duration = Duration::from_secs(1);

#[derive(Debug)]
pub(crate) struct Driver<R> {
    reconciler: R,
    cache: Arc<ClusterCache>,
    active: Arc<ActiveReconciles>,
    queue: Queue<String>,
    key_states: KeyStates,
    workers: Arc<Semaphore>,
}

/// A [`Driver`] of any reconciler.
pub(crate) trait Controller: Send + Sync {
    /// Enqueues the keys that a change affects.
    fn enqueue(&self, trigger: &Trigger);

    /// Starts to work. After a stop, what is running is finished.
    fn start(self: Arc<Self>, workers: &mut JoinSet<()>, stopped: &watch::Receiver<bool>);
}

impl<R: Reconciler> Controller for Driver<R> {
    fn enqueue(&self, trigger: &Trigger) {
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
        cache: &Arc<ClusterCache>,
        active: &Arc<ActiveReconciles>,
    ) -> Arc<Self> {
        Arc::new(Self {
            reconciler,
            cache: Arc::clone(cache),
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
        if !self.cache.watch_health.not_synced().is_empty() {
            return Requeue::CacheStale(CACHE_SYNC_REQUEUE);
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
        if self.cache.own_writes.is_stale(R::seen_versions(&snapshot)) {
            // The watch event of the write enqueues the key.
            return Requeue::CacheStale(OWN_WRITE_TIMEOUT);
        }
        let inputs = || R::inputs_digest(&snapshot);
        if let Some(problem) = self.key_states.earlier_problem(key, inputs) {
            if is_paused {
                return Requeue::Paused;
            }
            R::set_earlier_problem(&mut snapshot, problem);
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
