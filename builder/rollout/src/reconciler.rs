//! The controller that brings images to machines. Its key is the name of a pool.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, Instant};

use k8s_openapi::jiff::Timestamp;

use super::decide::{RolloutDecision, decide, evaluate};
use super::drain::DrainRecords;
use super::drain_records::after_pass;
use super::effect::{Action, Eviction, RolloutEffect, RolloutExecutor, RolloutPass, RolloutState};
use super::elapsed::elapsed;
use super::ended_phases::ended_phases;
use super::job_secret::JobSecrets;
use super::lookup::{CheckedByNode, RolloutLookup};
use super::lookups::{RegistryAnswer, RegistryQuery, look_up};
use super::metrics::RolloutMetrics;
use super::observe::{OwnPlace, affected_pools, has_slots, observe};
use super::reason::{Blocked, RolloutReason};
use super::refused_writes::PassWrites;
use super::registry_lookups::RegistryLookups;
use super::seen_times::SeenTimes;
use super::snapshot::{RefusedWrites, RolloutSnapshot};
use mosb_cluster::cluster_cache::Trigger;
use mosb_cluster::resolver::Resolver;
use mosb_reconcile::driver::{Debounce, InputsHash, NoDecision, Reconciler};
use mosb_reconcile::waits::POLICY_CHECK;
use mosb_reconcile::write::{ApplyError, Effects as _};

#[derive(Debug)]
pub struct RolloutReconciler {
    resolver: Resolver,
    executor: RolloutExecutor,
    own: OwnPlace,
    metrics: Arc<RolloutMetrics>,
    registries: RegistryLookups<RegistryQuery, RegistryAnswer>,
    /// Drains that have begun, by pool.
    drains: Mutex<BTreeMap<String, DrainRecords>>,
    /// The pods that checks of policies found lately, by pool.
    checked_pods: Mutex<BTreeMap<String, CheckedByNode>>,
    /// When this process saw Jobs and changes of Nodes, by pool.
    times: Mutex<BTreeMap<String, SeenTimes>>,
    /// Writes that the API server refused in the last pass, by pool.
    refused_writes: Mutex<BTreeMap<String, RefusedWrites>>,
}

impl RolloutReconciler {
    pub fn new(
        resolver: Resolver,
        executor: RolloutExecutor,
        own: OwnPlace,
        metrics: Arc<RolloutMetrics>,
    ) -> Self {
        Self {
            resolver,
            executor,
            own,
            metrics,
            registries: RegistryLookups::default(),
            drains: Mutex::default(),
            checked_pods: Mutex::default(),
            times: Mutex::default(),
            refused_writes: Mutex::default(),
        }
    }

    fn refused_writes(&self) -> MutexGuard<'_, BTreeMap<String, RefusedWrites>> {
        self.refused_writes.lock().expect("it is not poisoned: maps don't panic")
    }

    /// Applies the actions of one pass, the pool's status last.
    async fn apply_pass(
        &self,
        actions: &[Action],
        snapshot: &RolloutSnapshot,
        pass: &mut RolloutPass,
    ) -> Result<(), ApplyError> {
        let begun = Instant::now();
        let mut writes = PassWrites::new(snapshot);
        let (actions, statuses) = actions.split_at(status_at(actions));
        // They are not remembered for longer.
        let mut secrets = JobSecrets::default();
        let mut evictions = Vec::new();
        for action in actions {
            if let Action::Effect(RolloutEffect::Evict(eviction)) = action {
                evictions.push((action, eviction));
                continue;
            }
            if !writes.admits(action, begun.elapsed()) {
                continue;
            }
            if let Action::Effect(RolloutEffect::CreateLogin(login)) = action {
                match secrets.content(&self.resolver, login).await {
                    Ok(content) => pass.state.job_secret = Some(content),
                    Err(problem) => {
                        writes.record(action, ApplyError::Problem(problem))?;
                        continue;
                    }
                }
            }
            if let Err(error) = self.executor.apply_all(std::slice::from_ref(action), pass).await {
                writes.record(action, error)?;
                continue;
            }
            for ended in ended_phases(snapshot, action, Timestamp::now()) {
                self.metrics.record_phase(&snapshot.pool.metadata.name, &ended);
            }
        }
        // Last, because webhooks may delay them, and all at once.
        evictions.retain(|(action, _)| writes.admits(action, begun.elapsed()));
        let pods: Vec<&Eviction> = evictions.iter().map(|(_, eviction)| *eviction).collect();
        for (eviction, error) in self.executor.evict_all(&pods, &mut pass.state).await {
            writes.record(&eviction.clone().into(), error)?;
        }
        let (refused, again) = writes.finish();
        pass.requeue_after = again;
        let statuses =
            if Blocked::by_refused(&refused) == Blocked::by_refused(&snapshot.refused_writes) {
                statuses.to_vec()
            } else {
                with_refused(snapshot, &refused)
            };
        self.refused_writes().insert(snapshot.pool.metadata.name.clone(), refused);
        self.executor.apply_all(&statuses, pass).await
    }

    fn times(&self) -> MutexGuard<'_, BTreeMap<String, SeenTimes>> {
        self.times.lock().expect("it is not poisoned: maps don't panic")
    }

    fn checked_pods(&self) -> MutexGuard<'_, BTreeMap<String, CheckedByNode>> {
        self.checked_pods.lock().expect("it is not poisoned: maps don't panic")
    }

    fn drains(&self) -> MutexGuard<'_, BTreeMap<String, DrainRecords>> {
        self.drains.lock().expect("it is not poisoned: maps don't panic")
    }
}

/// The status of a pass in which other writes were refused than in the one before: its decision did
/// not know that.
fn with_refused(snapshot: &RolloutSnapshot, refused: &RefusedWrites) -> Vec<Action> {
    let snapshot = RolloutSnapshot { refused_writes: refused.clone(), ..snapshot.clone() };
    let mut actions = decide(&snapshot, Timestamp::now()).actions;
    actions.split_off(status_at(&actions))
}

/// Where the write of the pool's status begins, with its events.
fn status_at(actions: &[Action]) -> usize {
    let is_status = |action: &Action| matches!(action, Action::ReplaceStatus(..));
    actions.iter().position(is_status).unwrap_or(actions.len())
}

impl Reconciler for RolloutReconciler {
    type Snapshot = RolloutSnapshot;
    type Lookup = RolloutLookup;
    type Reason = RolloutReason;
    type Effect = RolloutEffect;
    type State = RolloutState;
    type Trigger = Trigger;

    const KIND: &'static str = "rollout";
    const LOG_PREFIX: &'static str = "roll-out of pool ";
    /// Pools share limits, such as one control-plane machine at a time: two of them must not decide
    /// at once.
    const WORKERS: usize = 1;
    /// Many machines of a pool change at once.
    const DEBOUNCE: Option<Debounce> =
        Some(Debounce { quiet: Duration::from_millis(200), most: Duration::from_secs(2) });

    fn affected_keys(&self, trigger: &Trigger) -> BTreeSet<String> {
        affected_pools(&self.resolver.cache, trigger)
    }

    fn observe(&self, key: &str) -> Option<RolloutSnapshot> {
        let drains = self.drains().get(key).cloned().unwrap_or_default();
        let refused_writes = self.refused_writes().get(key).cloned().unwrap_or_default();
        let mut seen = observe(&self.resolver.cache, key, &self.own, &drains)?;
        self.times().entry(key.to_owned()).or_default().fill(&mut seen, Timestamp::now());
        seen.lookup_results.checked_pods =
            self.checked_pods().get(key).cloned().unwrap_or_default();
        Some(RolloutSnapshot { refused_writes, ..seen })
    }

    fn decide(&self, snapshot: &RolloutSnapshot, now: Timestamp) -> RolloutDecision {
        let evaluation = evaluate(snapshot, now);
        let (pool, decision) = (&snapshot.pool.metadata.name, evaluation.decision);
        match evaluation.status {
            Some(status) => self.metrics.set(pool, &status),
            // What was decided before holds until there are results.
            None if decision.reason == RolloutReason::LookingUp
                || !snapshot.lookup_results.pending.is_empty() => {}
            None => self.metrics.clear(pool),
        }
        decision
    }

    async fn look_up(
        &self,
        lookups: &[RolloutLookup],
        snapshot: &mut RolloutSnapshot,
        _pass: &mut RolloutPass,
    ) -> Result<(), NoDecision> {
        look_up(&self.resolver, &self.registries, lookups, snapshot).await;
        let mut checked = snapshot.lookup_results.checked_pods.clone();
        let now = Timestamp::now();
        checked.retain(|_, pods| elapsed(pods.at, now) < POLICY_CHECK);
        self.checked_pods().insert(snapshot.pool.metadata.name.clone(), checked);
        Ok(())
    }

    async fn apply(
        &self,
        actions: &[Action],
        snapshot: &RolloutSnapshot,
        pass: &mut RolloutPass,
    ) -> Result<(), ApplyError> {
        let done = self.apply_pass(actions, snapshot, pass).await;
        let mut drains = self.drains();
        let pool = &snapshot.pool.metadata.name;
        let earlier = drains.remove(pool).unwrap_or_default();
        let records = after_pass(earlier, snapshot, &pass.state.evictions, Timestamp::now());
        drains.insert(pool.clone(), records);
        done
    }

    fn seen_versions(snapshot: &RolloutSnapshot) -> impl Iterator<Item = (&str, &str)> {
        let configs = snapshot.config.iter().map(|config| &config.metadata);
        let configs = configs.chain(&snapshot.leaving);
        let machines = snapshot.machines.iter().map(|machine| &machine.node.metadata);
        let metas = [&snapshot.pool.metadata].into_iter().chain(configs).chain(machines);
        let jobs = snapshot.machines.iter().flat_map(|machine| &machine.jobs);
        metas
            .map(|meta| (meta.uid(), meta.resource_version()))
            .chain(jobs.map(|job| (&*job.uid, &*job.resource_version)))
            .chain(
                snapshot
                    .cluster
                    .control_plane
                    .iter()
                    .map(|node| (&*node.uid, &*node.resource_version)),
            )
    }

    fn inputs(snapshot: &RolloutSnapshot) -> InputsHash {
        snapshot.inputs()
    }

    fn log_transition(&self, pool: &str, reason: &RolloutReason) {
        match reason {
            RolloutReason::OtherController { .. } => {
                tracing::warn!(pool, reason = "other-renderer", "pool {pool}: {reason}");
            }
            RolloutReason::Blocked(Blocked { reason: word, .. }) => {
                tracing::warn!(pool, reason = word, "pool {pool}: {reason}");
            }
            RolloutReason::Off | RolloutReason::LookingUp => {
                tracing::debug!(pool, "pool {pool}: {reason}");
            }
            RolloutReason::Deleting
            | RolloutReason::NoPool(_)
            | RolloutReason::Updated(_)
            | RolloutReason::Paused(_)
            | RolloutReason::Staging { .. }
            | RolloutReason::RollingOut { .. } => tracing::info!(pool, "pool {pool}: {reason}"),
        }
    }

    async fn next_answered(&self) -> String {
        self.registries.next_answered().await
    }

    /// Machines with a slot are unavailable.
    fn is_prioritized(&self, pool: &str) -> bool {
        has_slots(&self.resolver.cache, pool)
    }

    fn forget(&self, pool: &str) {
        self.registries.forget(pool);
        self.drains().remove(pool);
        self.checked_pods().remove(pool);
        self.times().remove(pool);
        self.metrics.forget(pool);
        self.refused_writes().remove(pool);
    }
}
