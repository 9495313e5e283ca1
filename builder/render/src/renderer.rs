//! The controller that renders. Its key is the name of a pool.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Mutex, MutexGuard};
use std::time::{Duration, Instant};

use k8s_openapi::jiff::Timestamp;
use tracing::Span;

use super::contents::Contents;
use super::decide::{Action, RenderDecision, RenderLookup, RenderReason, decide};
use super::lookups::{self, RenderError};
use super::observe::{affected_pools, observe};
use super::snapshot::RenderSnapshot;
use mosb_cluster::cluster_cache::Trigger;
use mosb_cluster::resolver::Resolver;
use mosb_reconcile::driver::{Debounce, InputsHash, NoDecision, Reconciler, Worker};
use mosb_reconcile::write::{ApplyError, Effects as _, Executor, NoEffect, ReconcilePass};
use mosb_reconcile::{EarlierProblem, Problem};

#[derive(Debug)]
pub struct Renderer {
    resolver: Resolver,
    executor: Executor,
    contents: Contents,
    /// The MachineConfigs and the rendered config that a pool used in its last pass.
    used: Mutex<BTreeMap<String, BTreeSet<String>>>,
}

impl Renderer {
    pub fn new(resolver: Resolver, executor: Executor) -> Self {
        let (contents, used) = (Contents::default(), Mutex::default());
        Self { resolver, executor, contents, used }
    }

    /// Adds the rendered config to the snapshot.
    async fn render(
        &self,
        snapshot: &mut RenderSnapshot,
        worker: &mut Worker,
    ) -> Result<(), NoDecision> {
        let pool = snapshot.pool.metadata.name.clone();
        let began = Instant::now();
        let rendering = lookups::render(&self.resolver, &self.contents, snapshot, worker);
        let output = match rendering.await {
            Ok(output) => Ok(output),
            Err(RenderError::Problem(problem)) => Err(problem),
            Err(RenderError::Busy(hosts)) => return Err(NoDecision::Busy(hosts)),
            Err(RenderError::Failed(error)) => return Err(NoDecision::Failed(error)),
        };
        tracing::debug!("pool {pool}: rendered in {} ms", began.elapsed().as_millis());
        if let Ok(output) = &output {
            self.used().entry(pool).or_default().insert(output.name.clone());
        }
        snapshot.lookup_results.output = Some(output);
        Ok(())
    }

    fn used(&self) -> MutexGuard<'_, BTreeMap<String, BTreeSet<String>>> {
        self.used.lock().expect("it is not poisoned: maps don't panic")
    }
}

impl Reconciler for Renderer {
    type Snapshot = RenderSnapshot;
    type Lookup = RenderLookup;
    type Reason = RenderReason;
    type Effect = NoEffect;
    type State = ();
    type Trigger = Trigger;

    const KIND: &'static str = "pool";
    const LOG_PREFIX: &'static str = "pool ";
    const WORKERS: usize = 8;
    /// For example `kubectl apply` of several files.
    const DEBOUNCE: Option<Debounce> =
        Some(Debounce { quiet: Duration::from_millis(25), most: Duration::from_millis(250) });

    fn affected_keys(&self, trigger: &Trigger) -> BTreeSet<String> {
        let mut pools = affected_pools(&self.resolver.cache, trigger);
        if let Trigger::MachineConfig(name, _) = trigger {
            let used = self.used();
            let used = used.iter().filter(|(_, used)| used.contains(name));
            pools.extend(used.map(|(pool, _)| pool.clone()));
        }
        pools
    }

    fn observe(&self, key: &str) -> Option<RenderSnapshot> {
        observe(&self.resolver.cache, key)
    }

    fn decide(&self, snapshot: &RenderSnapshot, now: Timestamp) -> RenderDecision {
        decide(snapshot, now)
    }

    async fn look_up(
        &self,
        lookups: &[RenderLookup],
        snapshot: &mut RenderSnapshot,
        pass: &mut ReconcilePass<()>,
    ) -> Result<(), NoDecision> {
        for lookup in lookups {
            match lookup {
                RenderLookup::Render => self.render(snapshot, &mut pass.worker).await?,
                RenderLookup::Nodes => {
                    let named = lookups::configs_on_nodes(&self.resolver).await?;
                    snapshot.lookup_results.configs_on_nodes = Some(named);
                }
            }
        }
        Ok(())
    }

    fn fail_lookups(_: &[RenderLookup], snapshot: &mut RenderSnapshot, problem: &Problem) {
        snapshot.lookup_results.output = Some(Err(problem.clone()));
    }

    async fn apply(
        &self,
        actions: &[Action],
        _snapshot: &RenderSnapshot,
        pass: &mut ReconcilePass<()>,
    ) -> Result<(), ApplyError> {
        for action in actions {
            self.executor.apply_all(std::slice::from_ref(action), pass).await?;
            if let Action::Delete(config) = action {
                tracing::info!("deleted {}, which is not used any more", config.name);
            }
        }
        Ok(())
    }

    fn seen_versions(snapshot: &RenderSnapshot) -> impl Iterator<Item = (&str, &str)> {
        let metadata = &snapshot.pool.metadata;
        [(metadata.uid(), metadata.resource_version())].into_iter()
    }

    fn inputs(snapshot: &RenderSnapshot) -> InputsHash {
        snapshot.inputs_hash
    }

    fn set_earlier_problem(snapshot: &mut RenderSnapshot, problem: EarlierProblem) {
        snapshot.earlier_problem = Some(problem);
    }

    fn problem(_: &RenderSnapshot, decision: &RenderDecision) -> Option<Problem> {
        match &decision.reason {
            RenderReason::Degraded(problem) => Some(problem.clone()),
            RenderReason::OtherRenderer(_)
            | RenderReason::ByHand
            | RenderReason::Deleting
            | RenderReason::Rendering
            | RenderReason::Rendered(_)
            | RenderReason::DeletionsHeld { .. } => None,
        }
    }

    fn log_transition(&self, pool: &str, reason: &RenderReason) {
        match reason {
            RenderReason::Degraded(problem) => {
                tracing::warn!(pool, reason = problem.reason, "pool {pool}: {reason}");
            }
            RenderReason::OtherRenderer(_) => {
                tracing::warn!(pool, reason = "other-renderer", "pool {pool}: {reason}");
            }
            RenderReason::DeletionsHeld { .. } => {
                tracing::warn!(pool, reason = "watch-failed", "pool {pool}: {reason}");
            }
            RenderReason::ByHand
            | RenderReason::Deleting
            | RenderReason::Rendering
            | RenderReason::Rendered(_) => tracing::info!(pool, "pool {pool}: {reason}"),
        }
    }

    fn start_pass(&self, pool: &str, snapshot: &RenderSnapshot) -> Span {
        let sources = snapshot.inputs.iter().flat_map(|inputs| inputs.sources());
        self.used().insert(pool.to_owned(), sources.map(str::to_owned).collect());
        Span::none()
    }

    fn forget(&self, pool: &str) {
        self.used().remove(pool);
    }
}
