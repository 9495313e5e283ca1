//! Gives the decisions about `OSOverridden` to the driver.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard};

use k8s_openapi::jiff::Timestamp;

use super::lookups::look_up;
use super::{
    Action, OverriddenDecision, OverriddenSnapshot, Override, OverrideLookup, OverrideState,
    decide, observe,
};
use crate::metrics::BaseMetrics;
use mosb_api::MachineConfigPool;
use mosb_cluster::cluster_cache::Trigger;
use mosb_cluster::resolver::{LookupError, Resolver};
use mosb_reconcile::Problem;
use mosb_reconcile::driver::{InputsHash, NoDecision, Reconciler};
use mosb_reconcile::write::{ApplyError, Effects as _, Executor, NoEffect, ReconcilePass};

#[derive(Debug)]
pub struct OverriddenReconciler {
    resolver: Resolver,
    executor: Executor,
    metrics: Arc<BaseMetrics>,
    /// What was found, by pool.
    found: Mutex<BTreeMap<String, (OverrideLookup, Override)>>,
}

impl OverriddenReconciler {
    pub fn new(resolver: Resolver, executor: Executor, metrics: Arc<BaseMetrics>) -> Self {
        Self { resolver, executor, metrics, found: Mutex::default() }
    }

    fn found(&self) -> MutexGuard<'_, BTreeMap<String, (OverrideLookup, Override)>> {
        self.found.lock().expect("it is not poisoned: maps don't panic")
    }
}

impl Reconciler for OverriddenReconciler {
    type Snapshot = OverriddenSnapshot;
    type Lookup = OverrideLookup;
    type Reason = OverrideState;
    type Effect = NoEffect;
    type State = ();
    type Trigger = Trigger;

    const KIND: &'static str = "overridden";
    const LOG_PREFIX: &'static str = "OS of pool ";
    /// While they wait for a registry, they have no worker.
    const WORKERS: usize = 1;

    fn affected_keys(&self, trigger: &Trigger) -> BTreeSet<String> {
        let cache = &self.resolver.cache;
        let names = |pools: Vec<Arc<MachineConfigPool>>| {
            pools.iter().map(|pool| pool.metadata.name.clone()).collect()
        };
        match trigger {
            Trigger::Pool(pool) => [pool.clone()].into(),
            Trigger::MachineConfig(name, _) => {
                names(cache.pools.filter_list(|pool| pool.spec.configuration.name == *name))
            }
            Trigger::All => names(cache.pools.list()),
            Trigger::Config(..)
            | Trigger::ManagedObject(_)
            | Trigger::Secret(_)
            | Trigger::Machine(_)
            | Trigger::NodeJob { .. }
            | Trigger::BootImages
            | Trigger::Unrelated => BTreeSet::new(),
        }
    }

    fn observe(&self, key: &str) -> Option<OverriddenSnapshot> {
        let mut snapshot = observe(&self.resolver.cache, key)?;
        let found = self.found();
        let known = found.get(key).filter(|known| Some(&known.0) == snapshot.lookup.as_ref());
        snapshot.found = known.map(|(_, found)| Ok(found.clone()));
        Some(snapshot)
    }

    fn decide(&self, snapshot: &OverriddenSnapshot, now: Timestamp) -> OverriddenDecision {
        let decision = decide(snapshot, now);
        let is = matches!(decision.reason, OverrideState::Yes(_) | OverrideState::Unknown(_));
        let reason = is.then(|| decision.reason.reason());
        if decision.lookups.is_empty() {
            let pool = &snapshot.pool.metadata.name;
            self.metrics.overridden.set(pool, pool, reason);
        }
        decision
    }

    async fn look_up(
        &self,
        lookups: &[OverrideLookup],
        snapshot: &mut OverriddenSnapshot,
        pass: &mut ReconcilePass<()>,
    ) -> Result<(), NoDecision> {
        for lookup in lookups {
            let looking = Box::pin(look_up(&self.resolver, lookup));
            let found = match pass.worker.release_during(looking).await {
                Ok(found) => {
                    let known = (lookup.clone(), found.clone());
                    self.found().insert(snapshot.pool.metadata.name.clone(), known);
                    Ok(found)
                }
                Err(LookupError::Busy(hosts)) => return Err(NoDecision::Busy(hosts)),
                Err(LookupError::Problem(problem)) => Err(problem),
            };
            snapshot.found = Some(found);
        }
        Ok(())
    }

    fn fail_lookups(_: &[OverrideLookup], snapshot: &mut OverriddenSnapshot, problem: &Problem) {
        snapshot.found = Some(Err(problem.clone()));
    }

    async fn apply(
        &self,
        actions: &[Action],
        _snapshot: &OverriddenSnapshot,
        pass: &mut ReconcilePass<()>,
    ) -> Result<(), ApplyError> {
        self.executor.apply_all(actions, pass).await
    }

    fn seen_versions(snapshot: &OverriddenSnapshot) -> impl Iterator<Item = (&str, &str)> {
        let metadata = &snapshot.pool.metadata;
        [(metadata.uid(), metadata.resource_version())].into_iter()
    }

    fn inputs(snapshot: &OverriddenSnapshot) -> InputsHash {
        InputsHash::of(&(&snapshot.pool.metadata.name, &snapshot.lookup))
    }

    /// Until it is known.
    fn problem(_: &OverriddenSnapshot, decision: &OverriddenDecision) -> Option<Problem> {
        match &decision.reason {
            OverrideState::Unknown(problem) => Some(problem.clone()),
            OverrideState::No | OverrideState::LookingUp | OverrideState::Yes(_) => None,
        }
    }

    fn log_transition(&self, pool: &str, reason: &OverrideState) {
        match reason {
            OverrideState::No | OverrideState::LookingUp => {
                tracing::debug!("OS of pool {pool}: {reason}");
            }
            OverrideState::Unknown(_) | OverrideState::Yes(_) => {
                tracing::warn!(reason = reason.reason(), "OS of pool {pool}: {reason}");
            }
        }
    }

    fn forget(&self, pool: &str) {
        self.found().remove(pool);
        self.metrics.overridden.forget(pool);
    }
}
