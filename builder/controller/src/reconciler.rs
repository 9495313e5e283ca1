//! Reconciles one MachineOSConfig: observe, decide, look up, decide again, apply.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, Instant};

use k8s_openapi::jiff::Timestamp;
use tracing::Instrument as _;

use super::action::{Action, Decision};
use super::apply::{ApplyError, Executor, ReconcilePass};
use super::cluster_cache::OWN_WRITE_TIMEOUT;
use super::decide::{decide, report_refusal};
use super::inputs::inputs_digest;
use super::lookup::{ImageStatus, Problem};
use super::lookups::{CachedPlan, Resolver, busy_pause};
use super::metrics::Metrics;
use super::observe::{Facts, observe};
use super::pending_problem::PendingProblem;
use super::pool_reason::PoolReason;
use super::probe;
use super::queue::Requeue;
use super::snapshot::Snapshot;
use mosb_image::ImageRef;
use mosb_plan::api::labels;
use mosb_types::ErrorClass;

/// More rounds of lookups than any decision needs.
pub const MAX_LOOKUP_ROUNDS: u32 = 8;
/// How long to wait while a watch is not synced.
const CACHE_SYNC_REQUEUE: Duration = Duration::from_secs(1);
/// How often the inputs are compared while a lookup runs.
const INPUT_CHECK_INTERVAL: Duration = Duration::from_secs(1);
/// Plans that are cached at once, each with what its pod is given. There are never as many builds
/// in preparation, because those have priority.
const MAX_CACHED_PLANS: usize = 64;

#[derive(Debug)]
pub struct Reconciler {
    pub resolver: Resolver,
    pub executor: Executor,
    pub metrics: Arc<Metrics>,
    /// What was found out about the cluster beside the watches.
    pub facts: Mutex<Facts>,
    /// Whether the CRDs reject digests in nested repositories, once that is known.
    nested_digests: Mutex<Option<bool>>,
    key_states: Mutex<KeyStates>,
}

/// State of all keys between reconciles.
#[derive(Debug, Default)]
struct KeyStates {
    by_key: BTreeMap<String, KeyState>,
    /// Keys with a cached plan, the oldest first.
    with_plan: VecDeque<String>,
}

/// State of a key between reconciles. All of it may be lost.
#[derive(Debug, Default)]
struct KeyState {
    /// The reason that was last logged.
    reason: String,
    /// Kept while the workload is created, so that the plan is not made again.
    cached_plan: Option<Arc<CachedPlan>>,
    /// The problem that the last reconcile reported.
    problem: Option<PendingProblem>,
    /// Hosts that had no free slot for the last lookup.
    busy: Option<BusyHosts>,
}

/// Registry hosts that had no free slot for a lookup, and what was looked up.
#[derive(Debug)]
struct BusyHosts {
    hosts: BTreeSet<String>,
    /// The generation of the MachineOSConfig and the rendered config: others may need other hosts.
    of: (Option<i64>, String),
}

impl Reconciler {
    pub fn new(resolver: Resolver, executor: Executor, metrics: Arc<Metrics>) -> Self {
        Self {
            resolver,
            executor,
            metrics,
            facts: Mutex::default(),
            nested_digests: Mutex::default(),
            key_states: Mutex::default(),
        }
    }

    /// Reconciles a key and returns when to do so again. A paused key is reconciled only if the
    /// inputs of its problem changed.
    pub async fn reconcile(&self, key: &str, is_paused: bool) -> Requeue {
        let began = Instant::now();
        if !self.executor.cache.watch_health.not_synced().is_empty() {
            return Requeue::CacheStale(CACHE_SYNC_REQUEUE);
        }
        if self.resolver.limits.are_busy(&self.busy(key)) {
            return Requeue::CacheStale(busy_pause());
        }
        let facts = self.facts(key).await;
        let mut snapshot = observe(&self.executor.cache, key, facts);
        let rendered = snapshot.pool.as_ref().map(|pool| pool.spec.configuration.name.clone());
        let build = snapshot
            .config
            .as_ref()
            .and_then(|config| config.metadata.annotation(labels::CURRENT_MACHINE_OS_BUILD));
        let span = tracing::info_span!(
            "reconcile",
            pool = key,
            rendered = rendered.unwrap_or_default(),
            build = build.unwrap_or_default()
        );
        if self.executor.cache.own_writes.is_stale(snapshot.seen_versions()) {
            // The watch event of the write enqueues the key.
            return Requeue::CacheStale(OWN_WRITE_TIMEOUT);
        }
        let problem = self.problem(key);
        if let Some(problem) = problem.filter(|problem| problem.is_of(&inputs_digest(&snapshot))) {
            if is_paused {
                return Requeue::Paused;
            }
            snapshot.earlier_problem = Some(problem.earlier());
        }
        self.metrics.observe(&snapshot);
        self.metrics.configs(self.executor.cache.configs.len());
        let (requeue, error) =
            self.reconcile_once(key, &mut snapshot, facts).instrument(span).await;
        self.metrics.reconciled(began.elapsed(), error.as_deref());
        requeue
    }

    async fn reconcile_once(
        &self,
        key: &str,
        snapshot: &mut Snapshot,
        facts: Facts,
    ) -> (Requeue, Option<String>) {
        let mut cached_plan = self.cached_plan(key);
        let mut asked = false;
        let mut decision = decide(snapshot, Timestamp::now());
        for _ in 0..MAX_LOOKUP_ROUNDS {
            if decision.lookups.is_empty() {
                break;
            }
            asked = true;
            let (before, expected) = (snapshot.clone(), self.busy(key));
            let answered = tokio::select! {
                answered = self.resolver.resolve(&decision.lookups, snapshot, &mut cached_plan, &expected) => answered,
                () = self.until_inputs_change(key, before, facts) => {
                    tracing::debug!("{key}: its inputs changed during a lookup");
                    return (Requeue::CacheStale(Duration::ZERO), None);
                }
            };
            let busy = answered.err();
            let is_busy = busy.is_some();
            self.set_busy(key, busy);
            if is_busy {
                return (Requeue::CacheStale(busy_pause()), None);
            }
            decision = decide(snapshot, Timestamp::now());
        }
        self.log_transition(key, &decision);
        let problem = reported_problem(snapshot, &decision);
        let makes_workloads = |action: &Action| {
            matches!(
                action,
                Action::CreateBuild { .. }
                    | Action::CreateWorkload { .. }
                    | Action::CreateInputs { .. }
            )
        };
        // Credentials are cached only while workloads are created.
        let keep = asked && decision.actions.iter().any(makes_workloads);
        let facts = *self.facts.lock().expect("nobody panics while holding it");
        let mut pass = ReconcilePass::new(key, cached_plan.clone(), facts);
        let done = self.executor.apply_all(&decision.actions, &mut pass).await;
        if snapshot.config.is_none() && snapshot.pool.is_none() {
            self.key_states().forget(key)
        } else {
            let cached_plan = cached_plan.filter(|_| keep);
            self.key_states().record(key, cached_plan);
        }
        match done {
            Ok(()) => {
                self.metrics.record_actions(snapshot, &decision.actions);
                self.record_problem(key, snapshot, problem.as_ref());
                match (problem, decision.requeue_after) {
                    (Some(problem), _) => {
                        let passes = problem.class == ErrorClass::Transient;
                        let error = passes.then_some(problem.reason);
                        (Requeue::Error(problem.class), error)
                    }
                    (None, Some(again)) => (Requeue::After(again), None),
                    (None, None) => (Requeue::Never, None),
                }
            }
            Err(apply_error) => {
                let requeue = match apply_error.class() {
                    None => Requeue::Conflict,
                    Some(class) => Requeue::Error(class),
                };
                let config = snapshot.config.as_ref();
                let wrote = config
                    .is_some_and(|config| pass.written_version(config.metadata.uid()).is_some());
                // The cache doesn't show the last write yet, and reporting now would overwrite it.
                // The next pass reports it.
                let reported = to_problem(&apply_error).filter(|_| !wrote);
                if requeue != Requeue::Conflict {
                    self.record_problem(key, snapshot, reported.as_ref());
                }
                if let Some(problem) = reported {
                    let actions = report_refusal(snapshot, problem, Timestamp::now());
                    if let Err(error) = self.executor.apply_all(&actions, &mut pass).await {
                        tracing::warn!(reason = error.reason(), "{key}: {error}");
                    }
                }
                match &apply_error {
                    ApplyError::Conflict(_) => tracing::debug!("{key}: {apply_error}"),
                    _ => tracing::warn!(reason = apply_error.reason(), "{key}: {apply_error}"),
                }
                (requeue, Some(apply_error.reason().to_owned()))
            }
        }
    }

    /// Waits until an input differs. A lookup may take a minute, and its result is useless then.
    async fn until_inputs_change(&self, key: &str, before: Snapshot, facts: Facts) {
        let cache = &self.executor.cache;
        tokio::time::sleep(INPUT_CHECK_INTERVAL).await;
        let inputs = inputs_digest(&before);
        loop {
            if inputs_digest(&observe(cache, key, facts)) != inputs {
                return;
            }
            tokio::time::sleep(INPUT_CHECK_INTERVAL).await;
        }
    }

    /// The hosts that had no free slot last time, if the lookup still needs them.
    fn busy(&self, key: &str) -> BTreeSet<String> {
        let of = self.lookup_scope(key);
        let key_states = self.key_states();
        let busy = key_states.by_key.get(key).and_then(|state| state.busy.as_ref());
        let busy = busy.filter(|busy| busy.of == of);
        busy.map(|busy| busy.hosts.clone()).unwrap_or_default()
    }

    fn set_busy(&self, key: &str, hosts: Option<BTreeSet<String>>) {
        let of = self.lookup_scope(key);
        let busy = hosts.map(|hosts| BusyHosts { hosts, of });
        self.key_states().by_key.entry(key.to_owned()).or_default().busy = busy;
    }

    fn lookup_scope(&self, key: &str) -> (Option<i64>, String) {
        let cache = &self.executor.cache;
        let config = cache.configs.get(key);
        let pool = config
            .as_ref()
            .and_then(|config| cache.pools.get(&config.spec.machine_config_pool.name));
        let rendered = pool.map(|pool| pool.spec.configuration.name.clone());
        let generation = config.and_then(|config| config.metadata.generation);
        (generation, rendered.unwrap_or_default())
    }

    fn problem(&self, key: &str) -> Option<PendingProblem> {
        self.key_states().by_key.get(key)?.problem.clone()
    }

    /// Records the problem that was reported for this snapshot, if there was one.
    fn record_problem(&self, key: &str, snapshot: &Snapshot, problem: Option<&Problem>) {
        let new = problem.map(|problem| {
            let inputs = inputs_digest(snapshot);
            PendingProblem::new(self.problem(key).as_ref(), inputs, problem)
        });
        if let Some(state) = self.key_states().by_key.get_mut(key) {
            state.problem = new;
        }
    }

    /// Logs a change of the reason, once.
    fn log_transition(&self, key: &str, decision: &Decision) {
        let reason = decision.reason.to_string();
        let mut key_states = self.key_states();
        let state = key_states.by_key.entry(key.to_owned()).or_default();
        if state.reason != reason {
            // Pools without a MachineOSConfig have no state here, so this is logged on every
            // reconcile.
            match decision.reason {
                PoolReason::NotOptedIn => tracing::debug!("{key}: {reason}"),
                _ => tracing::info!(reason = decision.reason.code(), "{key}: {reason}"),
            }
            state.reason = reason;
        }
    }

    fn cached_plan(&self, key: &str) -> Option<Arc<CachedPlan>> {
        self.key_states().by_key.get(key)?.cached_plan.clone()
    }

    /// Whether a workload is being created for this key: such keys have priority.
    pub fn is_creating_workload(&self, key: &str) -> bool {
        self.cached_plan(key).is_some()
    }

    async fn facts(&self, key: &str) -> Facts {
        let mut facts = *self.facts.lock().expect("nobody panics while holding it");
        let config = self.executor.cache.configs.get(key);
        let nested_digests = config.is_some_and(|config| {
            let pre_built = config.metadata.annotation(labels::PRE_BUILT_IMAGE);
            let images = [Some(&*config.spec.rendered_image_push_spec), pre_built];
            let mut images = images.into_iter().flatten().map(str::parse::<ImageRef>);
            images.any(|image| image.is_ok_and(|image| probe::is_nested(image.repo())))
        });
        if nested_digests {
            facts.nested_digests_refused = self.nested_digests_refused(key).await;
        }
        facts
    }

    /// Asked once, for the first MachineOSConfig that needs to know.
    async fn nested_digests_refused(&self, config: &str) -> bool {
        let known = *self.nested_digests.lock().expect("nobody panics while holding it");
        if let Some(known) = known {
            return known;
        }
        match probe::nested_digests_refused(&self.executor.client, config).await {
            Ok(refused) => {
                *self.nested_digests.lock().expect("nobody panics while holding it") =
                    Some(refused);
                refused
            }
            Err(error) => {
                // The write of the status will then fail and report it.
                tracing::warn!("{error}");
                false
            }
        }
    }

    fn key_states(&self) -> MutexGuard<'_, KeyStates> {
        self.key_states.lock().expect("nobody panics while holding it")
    }
}

impl KeyStates {
    fn forget(&mut self, key: &str) {
        self.with_plan.retain(|with_plan| with_plan != key);
        self.by_key.remove(key);
    }

    fn record(&mut self, key: &str, cached_plan: Option<Arc<CachedPlan>>) {
        self.with_plan.retain(|with_plan| with_plan != key);
        if cached_plan.is_some() {
            self.with_plan.push_back(key.to_owned());
        }
        let state = self.by_key.entry(key.to_owned()).or_default();
        state.cached_plan = cached_plan;
        if self.with_plan.len() > MAX_CACHED_PLANS
            && let Some(oldest) = self.with_plan.pop_front()
            && let Some(state) = self.by_key.get_mut(&oldest)
        {
            state.cached_plan = None;
        }
    }
}

/// The problem to report if an action failed and retrying does not help.
fn to_problem(apply_error: &ApplyError) -> Option<Problem> {
    let class = apply_error.class().filter(|class| *class != ErrorClass::Transient)?;
    Some(Problem {
        class,
        reason: apply_error.reason().to_owned(),
        message: apply_error.to_string(),
    })
}

/// The problem that a pass reports; one that may pass by itself goes first.
fn reported_problem(snapshot: &Snapshot, decision: &Decision) -> Option<Problem> {
    let lookup_results = &snapshot.lookup_results;
    let plan = lookup_results.plan.as_ref().and_then(|plan| plan.as_ref().err());
    let exists = lookup_results.exists.values().filter_map(ImageStatus::problem);
    let os_image = lookup_results.os_image.values();
    let os_image = os_image.filter_map(|named| named.as_ref().err());
    let results = lookup_results.results.values();
    let results = results.filter_map(|found| found.as_ref().err());
    let decided = match &decision.reason {
        PoolReason::Problem(problem) => Some(problem),
        _ => None,
    };
    let found: Vec<&Problem> =
        plan.into_iter().chain(exists).chain(os_image).chain(results).chain(decided).collect();
    let mut passing = found.iter().filter(|problem| problem.class == ErrorClass::Transient);
    passing.next().or(found.first()).copied().cloned()
}
