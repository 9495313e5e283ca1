//! The controller of images. Its key is the name of a MachineOSConfig, or of a pool that has none.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use k8s_openapi::jiff::Timestamp;
use tracing::Span;

use super::action::{Action, BuildEffect, makes_workloads};
use super::apply::{BuildExecutor, BuildPass, BuildState};
use super::cached_plans::CachedPlans;
use super::cluster_facts::ClusterFacts;
use super::decide::{Decision, decide, report_refusal};
use super::inputs::inputs;
use super::lookup::{ImageStatus, Lookup};
use super::lookups::{Signer, resolve};
use super::metrics::BuildMetrics;
use super::observe::{affected_keys, observe};
use super::pool_reason::PoolReason;
use super::snapshot::Snapshot;
use mosb_api::labels;
use mosb_cluster::cluster_cache::Trigger;
use mosb_cluster::resolver::Resolver;
use mosb_reconcile::driver::{InputsHash, NoDecision, Reconciler, busy_pause};
use mosb_reconcile::write::{ApplyError, Effects as _};
use mosb_reconcile::{EarlierProblem, Problem};
use mosb_types::ErrorClass;

#[derive(Debug)]
pub struct ConfigReconciler {
    resolver: Resolver,
    executor: BuildExecutor,
    metrics: Arc<BuildMetrics>,
    facts: Arc<ClusterFacts>,
    plans: CachedPlans,
    signer: Signer,
    /// Registry hosts that had no free slot for the last lookup of a key.
    busy: Mutex<BTreeMap<String, BusyHosts>>,
}

#[derive(Debug)]
struct BusyHosts {
    hosts: BTreeSet<String>,
    scope: LookupScope,
}

/// The inputs that decide which hosts a lookup needs.
#[derive(Debug, PartialEq, Eq)]
struct LookupScope {
    config_generation: Option<i64>,
    rendered_config: String,
}

impl ConfigReconciler {
    pub fn new(
        resolver: Resolver,
        executor: BuildExecutor,
        metrics: Arc<BuildMetrics>,
        facts: Arc<ClusterFacts>,
    ) -> Self {
        let (plans, busy) = (CachedPlans::default(), Mutex::default());
        let signer = Signer::new(executor.writes.lease.clone());
        Self { resolver, executor, metrics, facts, plans, signer, busy }
    }

    /// The hosts that had no free slot last time, if the lookup still needs them.
    fn busy_hosts(&self, key: &str) -> BTreeSet<String> {
        let scope = self.lookup_scope(key);
        let busy = self.busy();
        let busy = busy.get(key).filter(|busy| busy.scope == scope);
        busy.map(|busy| busy.hosts.clone()).unwrap_or_default()
    }

    fn lookup_scope(&self, key: &str) -> LookupScope {
        let cache = &self.executor.cache;
        let config = cache.configs.get(key);
        let pool = config
            .as_ref()
            .and_then(|config| cache.pools.get(&config.spec.machine_config_pool.name));
        let rendered = pool.map(|pool| pool.spec.configuration.name.clone());
        LookupScope {
            config_generation: config.and_then(|config| config.metadata.generation),
            rendered_config: rendered.unwrap_or_default(),
        }
    }

    fn busy(&self) -> MutexGuard<'_, BTreeMap<String, BusyHosts>> {
        self.busy.lock().expect("it is not poisoned: maps don't panic")
    }
}

impl Reconciler for ConfigReconciler {
    type Snapshot = Snapshot;
    type Lookup = Lookup;
    type Reason = PoolReason;
    type Effect = BuildEffect;
    type State = BuildState;
    type Trigger = Trigger;

    const KIND: &'static str = "machineosconfig";
    /// Most of the time they wait for the API or a registry.
    const WORKERS: usize = 16;

    fn affected_keys(&self, trigger: &Trigger) -> BTreeSet<String> {
        affected_keys(&self.executor.cache, trigger)
    }

    async fn prepare(&self, key: &str) -> Option<Duration> {
        if self.resolver.limits.are_busy(&self.busy_hosts(key)) {
            return Some(busy_pause());
        }
        if let Some(config) = self.executor.cache.configs.get(key) {
            self.facts.probe_for(&config, &self.executor.writes.client).await;
        }
        None
    }

    fn observe(&self, key: &str) -> Option<Snapshot> {
        let cache = &self.executor.cache;
        let facts = self.facts.of(cache.configs.get(key).as_deref());
        let snapshot = observe(cache, key, facts);
        (!snapshot.is_empty()).then_some(snapshot)
    }

    fn decide(&self, snapshot: &Snapshot, now: Timestamp) -> Decision {
        decide(snapshot, now)
    }

    async fn look_up(
        &self,
        lookups: &[Lookup],
        snapshot: &mut Snapshot,
        pass: &mut BuildPass,
    ) -> Result<(), NoDecision> {
        let key = snapshot.name.clone();
        let mut plan = pass.state.plan.take().or_else(|| self.plans.get(&key));
        let expected = self.busy_hosts(&key);
        let (resolver, signer) = (&self.resolver, &self.signer);
        let resolving =
            Box::pin(resolve(resolver, signer, lookups, snapshot, &mut plan, &expected));
        let resolved = if lookups.iter().any(Lookup::leaves_cluster) {
            pass.worker.release_during(resolving).await
        } else {
            resolving.await
        };
        pass.state.plan = plan;
        match resolved {
            Ok(()) => {
                self.busy().remove(&key);
                Ok(())
            }
            Err(hosts) => {
                let scope = self.lookup_scope(&key);
                self.busy().insert(key, BusyHosts { hosts: hosts.clone(), scope });
                Err(NoDecision::Busy(hosts))
            }
        }
    }

    fn fail_lookups(lookups: &[Lookup], snapshot: &mut Snapshot, problem: &Problem) {
        for lookup in lookups {
            snapshot.lookup_results.fail(lookup, problem);
        }
    }

    async fn apply(
        &self,
        actions: &[Action],
        snapshot: &Snapshot,
        pass: &mut BuildPass,
    ) -> Result<(), ApplyError> {
        // Credentials are cached only while workloads are created.
        let keep = pass.state.plan.clone().filter(|_| actions.iter().any(makes_workloads));
        let cached = self.plans.replace(&snapshot.name, keep);
        pass.state.plan = pass.state.plan.take().or(cached);
        pass.state.config.clone_from(&snapshot.name);
        pass.state.facts = self.facts.of(None);
        self.executor.apply_all(actions, pass).await?;
        self.metrics.record_actions(snapshot, actions);
        Ok(())
    }

    fn seen_versions(snapshot: &Snapshot) -> impl Iterator<Item = (&str, &str)> {
        snapshot.seen_versions()
    }

    fn inputs(snapshot: &Snapshot) -> InputsHash {
        inputs(snapshot)
    }

    fn set_earlier_problem(snapshot: &mut Snapshot, problem: EarlierProblem) {
        snapshot.earlier_problem = Some(problem);
    }

    /// A transient problem is returned first.
    fn problem(snapshot: &Snapshot, decision: &Decision) -> Option<Problem> {
        let lookup_results = &snapshot.lookup_results;
        let plan = lookup_results.plan.as_ref().and_then(|plan| plan.as_ref().err());
        let exists = lookup_results.exists.values().filter_map(ImageStatus::problem);
        let os_image = lookup_results.os_image.values();
        let os_image = os_image.filter_map(|named| named.as_ref().err());
        let checks = lookup_results.checks.values();
        let checks = checks.filter_map(|found| found.as_ref().err());
        let results = lookup_results.results.values();
        let results = results.filter_map(|found| found.as_ref().err());
        let decided = match &decision.reason {
            PoolReason::Problem(problem) => Some(problem),
            _ => None,
        };
        let found: Vec<&Problem> = plan
            .into_iter()
            .chain(exists)
            .chain(os_image)
            .chain(checks)
            .chain(results)
            .chain(decided)
            .collect();
        let mut passing = found.iter().filter(|problem| problem.class == ErrorClass::Transient);
        passing.next().or(found.first()).copied().cloned()
    }

    fn log_transition(&self, key: &str, reason: &PoolReason) {
        match reason {
            PoolReason::NotOptedIn => tracing::debug!("{key}: {reason}"),
            _ => tracing::info!(reason = reason.code(), "{key}: {reason}"),
        }
    }

    fn start_pass(&self, key: &str, snapshot: &Snapshot) -> Span {
        self.metrics.observe(snapshot);
        self.metrics.configs(self.executor.cache.configs.len());
        let pool = snapshot.pool.as_ref();
        let rendered = pool.map(|pool| pool.spec.configuration.name.as_str());
        let config = snapshot.config.as_ref();
        let build =
            config.and_then(|config| config.metadata.annotation(labels::CURRENT_MACHINE_OS_BUILD));
        tracing::info_span!(
            "reconcile",
            pool = key,
            rendered = rendered.unwrap_or_default(),
            build = build.unwrap_or_default()
        )
    }

    async fn report_error(
        &self,
        error: &ApplyError,
        snapshot: &Snapshot,
        pass: &mut BuildPass,
    ) -> Option<Problem> {
        let config = snapshot.config.as_ref();
        if config.is_some_and(|config| pass.written_version(config.metadata.uid()).is_some()) {
            // The cache doesn't show the last write yet, and reporting now would overwrite it. The
            // next pass reports it.
            return None;
        }
        let class = error.class().filter(|class| *class != ErrorClass::Transient)?;
        let (reason, message) = (error.code().to_owned(), error.to_string());
        let problem = Problem { class, reason, message };
        let actions = report_refusal(snapshot, problem.clone(), Timestamp::now());
        if let Err(error) = self.executor.apply_all(&actions, pass).await {
            tracing::warn!(reason = error.code(), "{}: {error}", snapshot.name);
        }
        Some(problem)
    }

    fn record_pass(&self, took: Duration, error: Option<&str>) {
        self.metrics.reconciled(took, error);
    }

    /// Keys for which a workload is being created.
    fn is_prioritized(&self, key: &str) -> bool {
        self.plans.get(key).is_some()
    }

    fn forget(&self, key: &str) {
        self.metrics.forget(key);
        self.metrics.configs(self.executor.cache.configs.len());
        self.plans.replace(key, None);
        self.busy().remove(key);
    }
}
