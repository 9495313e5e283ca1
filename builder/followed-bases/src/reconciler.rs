//! The controller of bases. Its key is the name of a MachineOSConfig.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use k8s_openapi::jiff::Timestamp;

use super::decide::{Action, BaseDecision, decide, is_update_wanted, lookup};
use super::metrics::BaseMetrics;
use super::snapshot::{BaseSnapshot, affected_configs, inputs, observe};
use super::state::BaseState;
use super::stream_metadata::StreamMetadata;
use super::streams::{StreamLookup, Streams, ask_for_image};
use mosb_cluster::cluster_cache::Trigger;
use mosb_cluster::resolver::{LookupError, Resolver};
use mosb_reconcile::Problem;
use mosb_reconcile::driver::{InputsHash, NoDecision, Reconciler};
use mosb_reconcile::write::{ApplyError, Effects as _, Executor, NoEffect, ReconcilePass};

/// How old an answer may be when somebody asks for an update: enough for a pass that is repeated
/// after a conflict, and less than what passes between a push and a command.
const WANTED_FRESH: Duration = Duration::from_secs(2);

#[derive(Debug)]
pub struct BaseReconciler {
    resolver: Resolver,
    executor: Executor,
    metrics: Arc<BaseMetrics>,
    streams: Streams,
    metadata: StreamMetadata,
    /// The pool of each key.
    pools: Mutex<BTreeMap<String, String>>,
}

impl BaseReconciler {
    pub fn new(resolver: Resolver, executor: Executor, metrics: Arc<BaseMetrics>) -> Self {
        let (streams, metadata) = (Streams::default(), StreamMetadata::default());
        Self { resolver, executor, metrics, streams, metadata, pools: Mutex::default() }
    }

    fn pools(&self) -> MutexGuard<'_, BTreeMap<String, String>> {
        self.pools.lock().expect("it is not poisoned: maps don't panic")
    }
}

fn at_most(snapshot: &BaseSnapshot) -> Option<Duration> {
    is_update_wanted(snapshot).then_some(WANTED_FRESH)
}

impl Reconciler for BaseReconciler {
    type Snapshot = BaseSnapshot;
    type Lookup = StreamLookup;
    type Reason = BaseState;
    type Effect = NoEffect;
    type State = ();
    type Trigger = Trigger;

    const KIND: &'static str = "base";
    const LOG_PREFIX: &'static str = "base of ";
    /// While they wait for a registry, they have no worker.
    const WORKERS: usize = 2;

    fn affected_keys(&self, trigger: &Trigger) -> BTreeSet<String> {
        affected_configs(&self.resolver.cache, trigger)
    }

    fn observe(&self, key: &str) -> Option<BaseSnapshot> {
        let mut snapshot = observe(&self.resolver.cache, key)?;
        if let Some(lookup) = lookup(&snapshot)
            && let Some((newest, left)) = self.streams.known(&lookup, at_most(&snapshot))
        {
            snapshot.newest = Some(newest);
            snapshot.due = Some(left);
        }
        Some(snapshot)
    }

    fn decide(&self, snapshot: &BaseSnapshot, now: Timestamp) -> BaseDecision {
        let decision = decide(snapshot, now);
        let pool = &snapshot.config.spec.machine_config_pool.name;
        let created = snapshot.base().and_then(|base| base.release.created);
        self.metrics.set_age(pool, created, now);
        // An earlier answer counts until there is another.
        if !matches!(decision.reason, BaseState::Unknown(_) | BaseState::LookingUp) {
            self.metrics.set_newer(pool, decision.reason.is_newer());
        }
        decision
    }

    async fn look_up(
        &self,
        lookups: &[StreamLookup],
        snapshot: &mut BaseSnapshot,
        pass: &mut ReconcilePass<()>,
    ) -> Result<(), NoDecision> {
        let at_most = at_most(snapshot);
        for lookup in lookups {
            let (resolver, metadata) = (&self.resolver, &self.metadata);
            let ask = |known| ask_for_image(resolver, metadata, lookup, at_most, known);
            let asking = Box::pin(self.streams.ask(lookup, at_most, ask));
            let answer = match pass.worker.release_during(asking).await {
                Ok(newest) => Ok(newest),
                Err(LookupError::Busy(hosts)) => return Err(NoDecision::Busy(hosts)),
                Err(LookupError::Problem(problem)) => Err(problem),
            };
            snapshot.newest = Some(answer);
            snapshot.due = self.streams.known(lookup, None).map(|(_, left)| left);
        }
        Ok(())
    }

    fn fail_lookups(_: &[StreamLookup], snapshot: &mut BaseSnapshot, problem: &Problem) {
        snapshot.newest = Some(Err(problem.clone()));
    }

    async fn apply(
        &self,
        actions: &[Action],
        _snapshot: &BaseSnapshot,
        pass: &mut ReconcilePass<()>,
    ) -> Result<(), ApplyError> {
        self.executor.apply_all(actions, pass).await
    }

    fn seen_versions(snapshot: &BaseSnapshot) -> impl Iterator<Item = (&str, &str)> {
        let metadata = &snapshot.config.metadata;
        [(metadata.uid(), metadata.resource_version())].into_iter()
    }

    fn inputs(snapshot: &BaseSnapshot) -> InputsHash {
        inputs(snapshot)
    }

    fn log_transition(&self, name: &str, reason: &BaseState) {
        match reason {
            BaseState::Off | BaseState::LookingUp | BaseState::NotFollowed(_) => {
                tracing::debug!("base of {name}: {reason}");
            }
            BaseState::Unknown(problem) => {
                tracing::warn!(reason = problem.reason, "base of {name}: {reason}");
            }
            BaseState::BadAnnotation(_) => tracing::warn!("base of {name}: {reason}"),
            BaseState::Current { .. } | BaseState::MovedBack { .. } | BaseState::Newer { .. } => {
                tracing::info!("base of {name}: {reason}");
            }
        }
    }

    fn start_pass(&self, name: &str, snapshot: &BaseSnapshot) -> tracing::Span {
        let pool = snapshot.config.spec.machine_config_pool.name.clone();
        let before = self.pools().insert(name.to_owned(), pool.clone());
        if let Some(before) = before.filter(|before| *before != pool) {
            self.metrics.forget(&before);
        }
        tracing::Span::none()
    }

    fn forget(&self, name: &str) {
        if let Some(pool) = self.pools().remove(name) {
            self.metrics.forget(&pool);
        }
    }
}
