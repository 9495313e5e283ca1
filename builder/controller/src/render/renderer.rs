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
use super::act::Acting;
use super::answer;
use super::contents::Contents;
use super::decide::{Decision, Question, RenderReason, Step, decide};
use super::observe::{affected_pools, inputs_digest, observe};
use super::snapshot::Snapshot;
use mosb_image::Digest;

/// Changes that come in one breath, as of `kubectl apply` of several files, are one: a pool is looked at when none came for so
/// long, or at last after the second time.
const BREATH: (Duration, Duration) = (Duration::from_millis(25), Duration::from_millis(250));
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
    notes: Mutex<BTreeMap<String, Note>>,
    /// Before that, all pools are still to be looked at.
    works: AtomicBool,
}

/// What is kept of a pool from one look to the next; nothing of it is needed.
#[derive(Debug, Default)]
struct Note {
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
            notes: Mutex::default(),
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
            let mut notes = self.notes();
            if let Trigger::MachineConfig(name) = trigger {
                let used = notes.iter().filter(|(_, note)| note.used.contains(name));
                pools.extend(used.map(|(pool, _)| pool.clone()));
            }
            for pool in &pools {
                let enqueued = &mut notes.entry(pool.clone()).or_default().enqueued;
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
        let Some(mut world) = observe(&self.resolver.cache, pool) else {
            self.notes().remove(pool);
            return Requeue::Never;
        };
        if self.is_behind(pool, &world) {
            // The watch tells what we wrote, and wakes us.
            return Requeue::CacheStale(OWN_WRITE_TIMEOUT);
        }
        let inputs = inputs_digest(&self.resolver.cache, &world);
        let problem = self.note(pool, |note| note.problem.clone());
        if let Some(problem) = problem.filter(|problem| problem.is_of(&inputs)) {
            if is_paused {
                return Requeue::Paused;
            }
            world.earlier_problem = Some(problem.earlier());
        }
        let decided = match self.reconcile_once(pool, &mut world, inputs).await {
            Ok(None) => return Requeue::CacheStale(busy_pause()),
            Ok(Some(decision)) => Ok(decision),
            Err(apply_error) => Err(apply_error),
        };
        self.note(pool, |note| {
            let problem = decided.as_ref().ok().and_then(Decision::problem);
            let new = |problem| PendingProblem::new(note.problem.as_ref(), inputs, problem);
            note.problem = problem.map(new);
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
        world: &mut Snapshot,
        inputs: Digest,
    ) -> Result<Option<Decision>, ApplyError> {
        let mut object = None;
        let mut decision = decide(world, Timestamp::now());
        for _ in 0..MAX_LOOKUP_ROUNDS {
            match decision.ask {
                None => break,
                Some(Question::Render) => {
                    object = tokio::select! {
                    rendered = self.render(pool, world) => rendered?,
                    () = self.changed(pool, inputs) => return Ok(None),
                    };
                    if world.answers.made.is_none() {
                        return Ok(None);
                    }
                }
                Some(Question::Nodes) => {
                    let named = answer::on_nodes(&self.resolver).await?;
                    world.answers.on_nodes = Some(named);
                }
            }
            decision = decide(world, Timestamp::now());
        }
        self.log_transition(pool, world, &decision.reason);
        let acting = Acting {
            resolver: &self.resolver,
            lease: &self.lease,
            instance: &self.instance,
            metadata: &world.pool.metadata,
            object,
        };
        acting.all(&decision.steps).await?;
        let writes = |step: &Step| matches!(step, Step::Move { .. } | Step::Say { .. });
        if decision.steps.iter().any(writes) {
            let version = world.pool.metadata.resource_version().to_owned();
            self.note(pool, |note| note.overwritten = Some((Instant::now(), version)));
        }
        Ok(Some(decision))
    }

    /// Until something is otherwise than these inputs. What is fetched may take minutes, and is of no use then.
    async fn changed(&self, pool: &str, inputs: Digest) {
        let cache = &self.resolver.cache;
        loop {
            tokio::time::sleep(INPUT_CHECK_INTERVAL).await;
            let now = observe(cache, pool).map(|world| inputs_digest(cache, &world));
            if now != Some(inputs) {
                return;
            }
        }
    }

    /// Puts the answer into the snapshot; the object to create, if it is one.
    async fn render(&self, pool: &str, world: &mut Snapshot) -> Result<Option<Value>, ApplyError> {
        let inputs = match &world.inputs {
            Ok(inputs) => inputs.clone(),
            Err(_) => return Ok(None),
        };
        let began = Instant::now();
        let answer = answer::render(&self.resolver, &self.contents, world, &inputs).await?;
        let (made, object) = match answer {
            Ok(draft) => (Ok(draft.made), Some(draft.object)),
            Err(LookupError::Problem(problem)) => (Err(problem), None),
            Err(LookupError::Busy(_)) => return Ok(None),
        };
        tracing::debug!("pool {pool}: rendered in {} ms", began.elapsed().as_millis());
        world.answers.made = Some(made);
        Ok(object)
    }

    /// How long changes are still awaited; none if it is time to look.
    fn debounce(&self, pool: &str) -> Option<Duration> {
        self.note(pool, |note| {
            let (first, last) = note.enqueued?;
            let end = (last + BREATH.0).min(first + BREATH.1);
            let wait = end.saturating_duration_since(Instant::now());
            if wait.is_zero() {
                note.enqueued = None;
                return None;
            }
            Some(wait)
        })
    }

    /// Whether the stores still show what was before our last write.
    fn is_behind(&self, pool: &str, world: &Snapshot) -> bool {
        let seen = world.pool.metadata.resource_version();
        self.note(pool, |note| {
            let written = note.overwritten.as_ref();
            written.is_some_and(|(at, version)| at.elapsed() < OWN_WRITE_TIMEOUT && seen == version)
        })
    }

    /// One line a state; and what the pool has, for whom a change of that concerns.
    fn log_transition(&self, pool: &str, world: &Snapshot, reason: &RenderReason) {
        let mut used = BTreeSet::new();
        if let Ok(inputs) = &world.inputs {
            used.extend(inputs.sources().map(str::to_owned));
        }
        if let Some(Ok(made)) = &world.answers.made {
            used.insert(made.name.clone());
        }
        let told = reason.to_string();
        let before = self.note(pool, |note| {
            note.used = used;
            std::mem::replace(&mut note.reason, told.clone())
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

    fn note<T>(&self, pool: &str, take: impl FnOnce(&mut Note) -> T) -> T {
        take(self.notes().entry(pool.to_owned()).or_default())
    }

    fn notes(&self) -> MutexGuard<'_, BTreeMap<String, Note>> {
        self.notes.lock().expect("nobody panics while holding it")
    }
}
