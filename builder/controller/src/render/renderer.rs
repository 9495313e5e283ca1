//! The queue of pools to render, and what one pass does.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use k8s_openapi::jiff::Timestamp;
use serde_json::Value;
use tokio::sync::watch;
use tokio::time::Instant;

use super::apply::RenderExecutor;
use super::contents::Contents;
use super::decide::{RenderDecision, RenderLookup, RenderReason, decide};
use super::lookups;
use super::observe::{affected_pools, inputs_digest, observe};
use super::snapshot::RenderSnapshot;
use crate::active_reconciles::ActiveReconciles;
use crate::apply::ApplyError;
use crate::cluster_cache::{OWN_WRITE_TIMEOUT, Trigger};
use crate::lease::Lease;
use crate::lookups::{LookupError, Resolver, busy_pause};
use crate::pending_problem::PendingProblem;
use crate::queue::{Queue, Requeue};
use mosb_image::Digest;

/// Changes that come together, for example from `kubectl apply` of several files, are handled as
/// one: a pool is reconciled after the first time without a change, at the latest after the second.
const DEBOUNCE: (Duration, Duration) = (Duration::from_millis(25), Duration::from_millis(250));
/// How long to wait while a watch is not synced.
const CACHE_SYNC_REQUEUE: Duration = Duration::from_secs(1);
/// How often the inputs are compared while a pool is rendered.
const INPUT_CHECK_INTERVAL: Duration = Duration::from_secs(1);
/// More lookups than any decision needs.
const MAX_LOOKUP_ROUNDS: usize = 3;

#[derive(Debug)]
pub struct Renderer {
    resolver: Resolver,
    /// Nothing is written without it.
    lease: Lease,
    /// Reporting instance of events.
    instance: String,
    queue: Queue<String>,
    active: Arc<ActiveReconciles>,
    contents: Contents,
    pool_states: Mutex<BTreeMap<String, PoolState>>,
    /// Set by [`Renderer::begin`], which enqueues all pools.
    works: AtomicBool,
}

/// State of a pool between passes. All of it may be lost.
#[derive(Debug, Default)]
struct PoolState {
    /// When it was enqueued since the last pass, first and last.
    enqueued: Option<(Instant, Instant)>,
    /// The reason that was last logged.
    reason: String,
    /// The MachineConfigs and the rendered config that it used.
    used: BTreeSet<String>,
    /// The problem that the last pass reported.
    problem: Option<PendingProblem>,
}

impl Renderer {
    pub fn new(
        resolver: Resolver,
        lease: Lease,
        instance: String,
        active: Arc<ActiveReconciles>,
    ) -> Self {
        Self {
            resolver,
            lease,
            instance,
            queue: Queue::default(),
            active,
            contents: Contents::default(),
            pool_states: Mutex::default(),
            works: AtomicBool::new(false),
        }
    }

    /// Enqueues all pools, and accepts triggers from now on.
    pub fn begin(&self) {
        self.works.store(true, Ordering::SeqCst);
        self.enqueue(&Trigger::All);
    }

    /// Enqueues the pools that a change affects.
    pub fn enqueue(&self, trigger: &Trigger) {
        if !self.works.load(Ordering::SeqCst) {
            return;
        }
        let mut pools = affected_pools(&self.resolver.cache, trigger);
        let now = Instant::now();
        {
            let mut pool_states = self.pool_states();
            if let Trigger::MachineConfig(name) = trigger {
                let used = pool_states.iter().filter(|(_, state)| state.used.contains(name));
                pools.extend(used.map(|(pool, _)| pool.clone()));
            }
            for pool in &pools {
                let enqueued = &mut pool_states.entry(pool.clone()).or_default().enqueued;
                let first = enqueued.map_or(now, |(first, _)| first);
                *enqueued = Some((first, now));
            }
        }
        for pool in &pools {
            self.queue.enqueue(pool);
        }
    }

    /// Reconciles pools until it is stopped; a running pass is finished first.
    pub async fn work(&self, mut stopped: watch::Receiver<bool>) {
        loop {
            let pool = tokio::select! {
            // No new pool after the stop.
            biased;
            _ = stopped.wait_for(|stopped| *stopped) => return,
            pool = self.queue.next() => pool,
            };
            let reconcile = self.reconcile(&pool, self.queue.is_paused(&pool));
            let requeue = self.active.run(&format!("pool {pool}"), reconcile).await;
            self.queue.done(&pool, requeue);
        }
    }

    /// A paused pool is reconciled only if the inputs of its problem changed.
    async fn reconcile(&self, pool: &str, is_paused: bool) -> Requeue {
        if !self.resolver.cache.watch_health.not_synced().is_empty() {
            return Requeue::CacheStale(CACHE_SYNC_REQUEUE);
        }
        if let Some(wait) = self.debounce(pool) {
            return Requeue::CacheStale(wait);
        }
        let Some(mut snapshot) = observe(&self.resolver.cache, pool) else {
            self.pool_states().remove(pool);
            return Requeue::Never;
        };
        let metadata = &snapshot.pool.metadata;
        let seen = [(metadata.uid(), metadata.resource_version())];
        if self.resolver.cache.own_writes.is_stale(seen) {
            // The watch event of the write enqueues the pool.
            return Requeue::CacheStale(OWN_WRITE_TIMEOUT);
        }
        let inputs = inputs_digest(&self.resolver.cache, &snapshot);
        let problem = self.state(pool, |state| state.problem.clone());
        if let Some(problem) = problem.filter(|problem| problem.is_of(&inputs)) {
            if is_paused {
                return Requeue::Paused;
            }
            snapshot.earlier_problem = Some(problem.earlier());
        }
        let decided = match self.reconcile_once(pool, &mut snapshot, inputs).await {
            Ok(None) => return Requeue::CacheStale(busy_pause()),
            Ok(Some(decision)) => Ok(decision),
            Err(apply_error) => Err(apply_error),
        };
        self.state(pool, |state| {
            let problem = decided.as_ref().ok().and_then(RenderDecision::problem);
            let new = |problem| PendingProblem::new(state.problem.as_ref(), inputs, problem);
            state.problem = problem.map(new);
        });
        match decided {
            Ok(decision) => match decision.problem() {
                Some(problem) => Requeue::Error(problem.class),
                None => Requeue::Never,
            },
            Err(apply_error) => match apply_error.class() {
                None => {
                    tracing::debug!("pool {pool}: {apply_error}");
                    Requeue::Conflict
                }
                Some(class) => {
                    tracing::warn!(reason = apply_error.reason(), "pool {pool}: {apply_error}");
                    Requeue::Error(class)
                }
            },
        }
    }

    /// The decision that was applied; none if the pool can't be rendered now, or changed meanwhile.
    async fn reconcile_once(
        &self,
        pool: &str,
        snapshot: &mut RenderSnapshot,
        inputs: Digest,
    ) -> Result<Option<RenderDecision>, ApplyError> {
        let mut object = None;
        let mut decision = decide(snapshot, Timestamp::now());
        for _ in 0..MAX_LOOKUP_ROUNDS {
            match decision.lookup {
                None => break,
                Some(RenderLookup::Render) => {
                    object = tokio::select! {
                    rendered = self.render(pool, snapshot) => rendered?,
                    () = self.until_inputs_change(pool, inputs) => return Ok(None),
                    };
                    if snapshot.answers.made.is_none() {
                        return Ok(None);
                    }
                }
                Some(RenderLookup::Nodes) => {
                    let named = lookups::configs_on_nodes(&self.resolver).await?;
                    snapshot.answers.configs_on_nodes = Some(named);
                }
            }
            decision = decide(snapshot, Timestamp::now());
        }
        self.log_transition(pool, snapshot, &decision.reason);
        let executor = RenderExecutor {
            resolver: &self.resolver,
            lease: &self.lease,
            instance: &self.instance,
            metadata: &snapshot.pool.metadata,
            object,
        };
        executor.apply_all(&decision.actions).await?;
        Ok(Some(decision))
    }

    /// Waits until the inputs differ. Fetching may take minutes, and its result is useless then.
    async fn until_inputs_change(&self, pool: &str, inputs: Digest) {
        let cache = &self.resolver.cache;
        loop {
            tokio::time::sleep(INPUT_CHECK_INTERVAL).await;
            let now = observe(cache, pool).map(|snapshot| inputs_digest(cache, &snapshot));
            if now != Some(inputs) {
                return;
            }
        }
    }

    /// Adds the result to the snapshot, and returns the object to create.
    async fn render(
        &self,
        pool: &str,
        snapshot: &mut RenderSnapshot,
    ) -> Result<Option<Value>, ApplyError> {
        let inputs = match &snapshot.inputs {
            Ok(inputs) => inputs.clone(),
            Err(_) => return Ok(None),
        };
        let began = Instant::now();
        let answer = lookups::render(&self.resolver, &self.contents, snapshot, &inputs).await?;
        let (made, object) = match answer {
            Ok(draft) => (Ok(draft.made), Some(draft.object)),
            Err(LookupError::Problem(problem)) => (Err(problem), None),
            Err(LookupError::Busy(_)) => return Ok(None),
        };
        tracing::debug!("pool {pool}: rendered in {} ms", began.elapsed().as_millis());
        snapshot.answers.made = Some(made);
        Ok(object)
    }

    /// How long to wait for further changes; none if the pool can be reconciled now.
    fn debounce(&self, pool: &str) -> Option<Duration> {
        self.state(pool, |state| {
            let (first, last) = state.enqueued?;
            let end = (last + DEBOUNCE.0).min(first + DEBOUNCE.1);
            let wait = end.saturating_duration_since(Instant::now());
            if wait.is_zero() {
                state.enqueued = None;
                return None;
            }
            Some(wait)
        })
    }

    /// Logs a change of the reason, once, and records which MachineConfigs the pool uses.
    fn log_transition(&self, pool: &str, snapshot: &RenderSnapshot, reason: &RenderReason) {
        let mut used = BTreeSet::new();
        if let Ok(inputs) = &snapshot.inputs {
            used.extend(inputs.sources().map(str::to_owned));
        }
        if let Some(Ok(made)) = &snapshot.answers.made {
            used.insert(made.name.clone());
        }
        let told = reason.to_string();
        let before = self.state(pool, |state| {
            state.used = used;
            std::mem::replace(&mut state.reason, told.clone())
        });
        if before != told {
            match reason {
                RenderReason::Degraded(problem) => {
                    tracing::warn!(pool, reason = problem.reason, "pool {pool}: {told}");
                }
                RenderReason::OtherRenderer(_) => {
                    tracing::warn!(pool, reason = "other-renderer", "pool {pool}: {told}");
                }
                RenderReason::ByHand
                | RenderReason::Deleting
                | RenderReason::Rendering
                | RenderReason::Rendered(_) => {
                    tracing::info!(pool, "pool {pool}: {told}");
                }
            }
        }
    }

    fn state<T>(&self, pool: &str, take: impl FnOnce(&mut PoolState) -> T) -> T {
        take(self.pool_states().entry(pool.to_owned()).or_default())
    }

    fn pool_states(&self) -> MutexGuard<'_, BTreeMap<String, PoolState>> {
        self.pool_states.lock().expect("nobody panics while holding it")
    }
}
