//! One look at one MachineOSConfig: observe, decide, find out what is asked, decide again, act.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, Instant};

use k8s_openapi::jiff::Timestamp;
use tracing::Instrument as _;

use super::action::{Action, Decision};
use super::apply::{ApplyError, Executor, ReconcilePass};
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

/// More questions in a row than any decision has.
pub const MAX_LOOKUP_ROUNDS: u32 = 8;
/// While a watch is away that nothing may be decided without.
const CACHE_SYNC_REQUEUE: Duration = Duration::from_secs(1);
/// A watch that has not told of our own write after so long does not hold anything up.
const OWN_WRITE_TIMEOUT: Duration = Duration::from_secs(2);
/// How often the inputs are compared while something is looked up.
const INPUT_CHECK_INTERVAL: Duration = Duration::from_secs(1);
/// Plans that are kept at once, each with what its pod is given: more than are ever under way, as what was begun goes first.
const MAX_CACHED_PLANS: usize = 64;

/// What looks at keys.
#[derive(Debug)]
pub struct Reconciler {
    /// Finds out.
    pub resolver: Resolver,
    /// Acts.
    pub executor: Executor,
    /// Counts.
    pub metrics: Arc<Metrics>,
    /// What is known beside the watches.
    pub facts: Mutex<Facts>,
    /// Whether digests in nested repositories are refused, once it was asked.
    nested_digests: Mutex<Option<bool>>,
    key_states: Mutex<KeyStates>,
}

/// What is kept of all keys.
#[derive(Debug, Default)]
struct KeyStates {
    by_key: BTreeMap<String, KeyState>,
    /// The keys of which a plan is kept, the oldest first.
    with_plan: VecDeque<String>,
}

/// What is kept of a key from one look to the next; nothing of it is needed.
#[derive(Debug, Default)]
struct KeyState {
    /// What was last logged.
    reason: String,
    /// So that an unchanged plan is not asked for again while its Job is being made.
    cached_plan: Option<Arc<CachedPlan>>,
    /// Objects that we wrote, with the version that we saw before: as long as that is what we see, our view is old.
    written: Vec<(String, String)>,
    /// UIDs of objects that we created: as long as one is not seen, our view is old.
    created: Vec<String>,
    written_at: Option<Instant>,
    /// What the last look reported.
    problem: Option<PendingProblem>,
    /// What had no room last time.
    busy: Option<BusyHosts>,
}

/// Hosts that had no room for a lookup, and of what it was.
#[derive(Debug)]
struct BusyHosts {
    hosts: BTreeSet<String>,
    /// The spec of the MachineOSConfig and the rendered config: others may need other hosts.
    of: (Option<i64>, String),
}

impl Reconciler {
    /// Nothing was looked at yet.
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

    /// Looks at a key, and says when to look again. While it is paused nothing is done unless the inputs of its problem changed.
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
            "look",
            pool = key,
            rendered = rendered.unwrap_or_default(),
            build = build.unwrap_or_default()
        );
        if self.is_cache_stale(key, &snapshot) {
            // The watch tells what we wrote, and wakes us.
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
            tracing::debug!("{key}: it changed while it was looked at");
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
        // Credentials are kept no longer than workloads are being made.
        let keep = asked && decision.actions.iter().any(makes_workloads);
        let facts = *self.facts.lock().expect("nobody panics while holding it");
        let mut pass = ReconcilePass::new(key, cached_plan.clone(), facts);
        let done = self.executor.apply_all(&decision.actions, &mut pass).await;
        let written = decision.actions.iter().filter_map(written);
        let is_overwritten = |(uid, seen): &(String, String)| {
            pass.written_version(uid).is_some_and(|left| left != seen)
        };
        let mut written: Vec<_> = written.filter(is_overwritten).collect();
        written.extend_from_slice(pass.superseded());
        match snapshot.config.is_none() && snapshot.pool.is_none() {
            true => self.key_states().forget(key),
            false => {
                let cached_plan = cached_plan.filter(|_| keep);
                self.key_states().record(key, cached_plan, written, pass.created().to_vec());
            }
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
                // What was just written is not seen yet, and would be written over. The next round says it.
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

    /// Until something is otherwise than it was. A lookup may take a minute, and is of no use then.
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

    /// The hosts that had no room last time, if they are still what is needed.
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

    /// Keeps what was reported of this world, if anything was.
    fn record_problem(&self, key: &str, snapshot: &Snapshot, problem: Option<&Problem>) {
        let new = problem.map(|problem| {
            let inputs = inputs_digest(snapshot);
            PendingProblem::new(self.problem(key).as_ref(), inputs, problem)
        });
        if let Some(state) = self.key_states().by_key.get_mut(key) {
            state.problem = new;
        }
    }

    /// One line a state.
    fn log_transition(&self, key: &str, decision: &Decision) {
        let reason = decision.reason.to_string();
        let mut key_states = self.key_states();
        let state = key_states.by_key.entry(key.to_owned()).or_default();
        if state.reason != reason {
            // Of a pool that nobody asks images for nothing is kept, so it is told at each look.
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

    /// Whether a Job is being made for a key: it goes before keys of which nothing is kept.
    pub fn is_creating_workload(&self, key: &str) -> bool {
        self.cached_plan(key).is_some()
    }

    /// Whether the stores still show what was before our last writes.
    fn is_cache_stale(&self, key: &str, snapshot: &Snapshot) -> bool {
        let key_states = self.key_states();
        let Some(state) = key_states.by_key.get(key) else {
            return false;
        };
        if state.written_at.is_none_or(|at| at.elapsed() > OWN_WRITE_TIMEOUT) {
            return false;
        }
        let seen = |uid: &str, version: &str| {
            let metas = snapshot
                .builds
                .iter()
                .map(|build| &build.metadata)
                .chain(snapshot.config.iter().map(|config| &config.metadata))
                .chain(snapshot.pool.iter().map(|pool| &pool.metadata));
            let mut same = metas.filter(|meta| meta.uid() == uid);
            let workloads = snapshot.workloads.iter().map(|seen| &seen.workload);
            let mut workloads = workloads.filter(|workload| workload.uid() == uid);
            let mut components = snapshot.components.iter().filter(|one| one.uid == uid);
            same.any(|meta| meta.resource_version() == version)
                || workloads.any(|one| one.metadata().resource_version.as_deref() == Some(version))
                || components.any(|one| one.resource_version == version)
        };
        let is_there = |uid: &String| {
            let mut builds = snapshot.builds.iter();
            let mut workloads = snapshot.workloads.iter();
            let mut inputs = snapshot.inputs.iter();
            inputs.any(|input| input.uid == *uid)
                || workloads.any(|seen| seen.workload.uid() == uid)
                || builds.any(|build| build.metadata.uid() == uid)
        };
        let mut written = state.written.iter();
        written.any(|(uid, version)| seen(uid, version)) || !state.created.iter().all(is_there)
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

    /// Asked once, of the first that needs to know.
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
                // Then the status is refused, and says so.
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

    fn record(
        &mut self,
        key: &str,
        cached_plan: Option<Arc<CachedPlan>>,
        written: Vec<(String, String)>,
        created: Vec<String>,
    ) {
        self.with_plan.retain(|with_plan| with_plan != key);
        if cached_plan.is_some() {
            self.with_plan.push_back(key.to_owned());
        }
        let state = self.by_key.entry(key.to_owned()).or_default();
        state.cached_plan = cached_plan;
        state.written = written;
        state.created = created;
        state.written_at = Some(Instant::now());
        if self.with_plan.len() > MAX_CACHED_PLANS
            && let Some(oldest) = self.with_plan.pop_front()
            && let Some(state) = self.by_key.get_mut(&oldest)
        {
            state.cached_plan = None;
        }
    }
}

/// What a step changes, and the version that it was changed from.
fn written(action: &Action) -> Option<(String, String)> {
    match action {
        Action::WriteBuildStatus { uid, resource_version, .. }
        | Action::WriteConfigStatus { uid, resource_version, .. }
        | Action::UpdateConfig { uid, resource_version, .. }
        | Action::UpdateComponent { uid, resource_version, .. }
        | Action::Unsuspend { uid, resource_version, .. }
        | Action::WritePoolCondition { uid, resource_version, .. } => {
            Some((uid.clone(), resource_version.clone()))
        }
        Action::AnnotateBuild(change)
        | Action::AnnotateConfig(change)
        | Action::AnnotatePool(change) => {
            Some((change.uid.clone(), change.resource_version.clone()))
        }
        _ => None,
    }
}

/// What somebody must mend before a step can be carried out.
fn to_problem(apply_error: &ApplyError) -> Option<Problem> {
    let class = apply_error.class().filter(|class| *class != ErrorClass::Transient)?;
    Some(Problem {
        class,
        reason: apply_error.reason().to_owned(),
        message: apply_error.to_string(),
    })
}

/// What a round reports: a lookup that may go another way next time before anything else.
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
