//! Pools that wait to be looked at, and what a look is.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use k8s_openapi::jiff::Timestamp;
use serde_json::Value;
use tokio::sync::watch;
use tokio::time::Instant;

use super::super::active_reconciles::ActiveReconciles;
use super::super::apply::ApplyError;
use super::super::cluster_cache::Trigger;
use super::super::lease::Lease;
use super::super::lookups::{LookupError, Resolver, busy_pause};
use super::super::pending_problem::PendingProblem;
use super::super::queue::{Queue, Requeue};
use super::apply::RenderExecutor;
use super::contents::Contents;
use super::decide::{RenderAction, RenderDecision, RenderLookup, RenderReason, decide};
use super::lookups;
use super::observe::{affected_pools, inputs_digest, observe};
use super::snapshot::RenderSnapshot;
use mosb_image::Digest;

/// Changes that come in one breath, as of `kubectl apply` of several files, are one: a pool is looked at when none came for so
/// long, or at last after the second time.
const DEBOUNCE: (Duration, Duration) = (Duration::from_millis(25), Duration::from_millis(250));
/// While a watch is away that nothing may be decided without.
const CACHE_SYNC_REQUEUE: Duration = Duration::from_secs(1);
/// A watch that has not told of our own write after so long does not hold anything up.
const OWN_WRITE_TIMEOUT: Duration = Duration::from_secs(2);
/// How often the inputs are compared while a pool is rendered.
const INPUT_CHECK_INTERVAL: Duration = Duration::from_secs(1);
/// More questions in a row than any decision has.
const MAX_LOOKUP_ROUNDS: usize = 3;

/// Renders pools.
#[derive(Debug)]
pub struct Renderer {
    resolver: Resolver,
    /// Without which nothing is written.
    lease: Lease,
    /// Who we are, for events.
    instance: String,
    queue: Queue<String>,
    active: Arc<ActiveReconciles>,
    contents: Contents,
    pool_states: Mutex<BTreeMap<String, PoolState>>,
    /// Before that, all pools are still to be looked at.
    works: AtomicBool,
}

/// What is kept of a pool from one look to the next; nothing of it is needed.
#[derive(Debug, Default)]
struct PoolState {
    /// When it was woken since the last look, first and last.
    enqueued: Option<(Instant, Instant)>,
    /// What was last logged.
    reason: String,
    /// The MachineConfigs that it had, and the rendered one.
    used: BTreeSet<String>,
    /// What the last look reported.
    problem: Option<PendingProblem>,
    /// The version of the pool that we wrote over.
    overwritten: Option<(Instant, String)>,
}

impl Renderer {
    /// Nothing was looked at yet.
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

    /// Looks at all pools, and from then on at those that are woken.
    pub fn begin(&self) {
        self.works.store(true, Ordering::SeqCst);
        self.enqueue(&Trigger::All);
    }

    /// Wakes the pools that a change concerns.
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

    /// Looks at pools until it is stopped; what is under way is done first.
    pub async fn work(&self, mut apply_error: watch::Receiver<bool>) {
        loop {
            let pool = tokio::select! {
            // A pool that is due must not be taken any more.
            biased;
            _ = apply_error.wait_for(|apply_error| *apply_error) => return,
            pool = self.queue.next() => pool,
            };
            let reconcile = self.reconcile(&pool, self.queue.is_paused(&pool));
            let requeue = self.active.run(&format!("pool {pool}"), reconcile).await;
            self.queue.done(&pool, requeue);
        }
    }

    /// While a pool is paused nothing is done unless the inputs of its problem changed.
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
        if self.is_cache_stale(pool, &snapshot) {
            // The watch tells what we wrote, and wakes us.
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

    /// What was decided and done; none if it can't be rendered just now, or is another one by now.
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
        let writes = |action: &RenderAction| {
            matches!(
                action,
                RenderAction::SetConfiguration { .. } | RenderAction::ReplaceConditions { .. }
            )
        };
        if decision.actions.iter().any(writes) {
            let version = snapshot.pool.metadata.resource_version().to_owned();
            self.state(pool, |state| state.overwritten = Some((Instant::now(), version)));
        }
        Ok(Some(decision))
    }

    /// Until something is otherwise than these inputs. What is fetched may take minutes, and is of no use then.
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

    /// Puts the answer into the snapshot; the object to create, if it is one.
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

    /// How long changes are still awaited; none if it is time to look.
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

    /// Whether the stores still show what was before our last write.
    fn is_cache_stale(&self, pool: &str, snapshot: &RenderSnapshot) -> bool {
        let seen = snapshot.pool.metadata.resource_version();
        self.state(pool, |state| {
            let written = state.overwritten.as_ref();
            written.is_some_and(|(at, version)| at.elapsed() < OWN_WRITE_TIMEOUT && seen == version)
        })
    }

    /// One line a state; and what the pool has, for whom a change of that concerns.
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
