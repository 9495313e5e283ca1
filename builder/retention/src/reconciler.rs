//! The controller that deletes old images. Its key is the name of a MachineOSConfig.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use jiff::Timestamp;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::registry::Registry;
use tokio::time::timeout;

use crate::decide::{
    LastPass, PassOutcome, RetentionDecision, RetentionSnapshot, RetentionState, decide,
};
use crate::facts::retention_facts;
use crate::pool_images::ImageState;
use crate::prune::{PruneMode, PruneRequest, RetentionError, prune};
use mosb_api::MachineOsConfig;
use mosb_cluster::cluster_cache::{ClusterCache, IndexKey, Trigger};
use mosb_cluster::metrics::Pool;
use mosb_cluster::namespaces::Namespaces;
use mosb_image::Digest;
use mosb_reconcile::Problem;
use mosb_reconcile::driver::{Debounce, InputsHash, NoDecision, Reconciler};
use mosb_reconcile::write::{Action, ApplyError, Effects, Executor, ReconcilePass};
use mosb_types::ErrorClass;

/// A registry with many tags and little speed.
const PASS_TIMEOUT: Duration = Duration::from_secs(300);

/// Metrics of old images, by pool.
#[derive(Debug, Default)]
pub struct RetentionMetrics {
    deleted: Family<Pool, Counter>,
}

impl RetentionMetrics {
    pub fn register(&self, registry: &mut Registry) {
        registry.register(
            "mosb_images_deleted",
            "Images of the pool that were deleted from its registry",
            self.deleted.clone(),
        );
    }

    pub fn add(&self, pool: &str, deleted: usize) {
        let pool = Pool { pool: pool.to_owned() };
        self.deleted.get_or_create(&pool).inc_by(deleted as u64);
    }
}

#[derive(Debug)]
pub struct RetentionReconciler {
    cache: Arc<ClusterCache>,
    executor: Executor,
    metrics: Arc<RetentionMetrics>,
    memory: Mutex<BTreeMap<String, LastPass>>,
}

/// A pass over the images of a pool.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PruneEffect {
    pub pool: String,
    /// Its MachineOSConfig.
    pub config: String,
    pub candidates: BTreeSet<Digest>,
}

/// For the log.
impl fmt::Display for PruneEffect {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "deleting old images of {}", self.pool)
    }
}

impl RetentionReconciler {
    pub fn new(
        cache: Arc<ClusterCache>,
        executor: Executor,
        metrics: Arc<RetentionMetrics>,
    ) -> Self {
        Self { cache, executor, metrics, memory: Mutex::default() }
    }

    fn memory(&self) -> MutexGuard<'_, BTreeMap<String, LastPass>> {
        self.memory.lock().expect("it is not poisoned: maps don't panic")
    }

    async fn prune(&self, pool: &str) -> PassOutcome {
        let namespaces = Namespaces {
            own: self.cache.namespace.clone(),
            operator: self.cache.operator_namespace.clone(),
        };
        let request = PruneRequest {
            client: &self.executor.client,
            namespaces: &namespaces,
            pool,
            keep: None,
            days: None,
            mode: PruneMode::Delete,
            may_write: &|| self.executor.lease.is_held(),
        };
        let images = match timeout(PASS_TIMEOUT, prune(&request)).await {
            Ok(Ok(images)) => images,
            Ok(Err(error)) => return PassOutcome::Failed(problem(error)),
            Err(_) => {
                return PassOutcome::Failed(Problem {
                    class: ErrorClass::Transient,
                    reason: "timed-out".to_owned(),
                    message: format!(
                        "the images of {pool} were not looked through within {} s; check the registry",
                        PASS_TIMEOUT.as_secs()
                    ),
                });
            }
        };
        let deleted = images.count(ImageState::Deleted);
        self.metrics.add(pool, deleted);
        match (images.held, images.refused) {
            (Some(held), _) => PassOutcome::Held(held),
            (None, Some(answer)) => PassOutcome::Refused { repository: images.repository, answer },
            (None, None) => {
                let has_more = deleted > 0
                    && images.images.iter().any(|image| image.state == ImageState::Deletable);
                PassOutcome::Done { deleted, has_more }
            }
        }
    }
}

fn problem(error: RetentionError) -> Problem {
    match error {
        RetentionError::Unreadable { reason, message, class } => Problem { class, reason, message },
        other => Problem::from(other),
    }
}

impl Effects for RetentionReconciler {
    type Effect = PruneEffect;
    type State = ();

    fn executor(&self) -> &Executor {
        &self.executor
    }

    /// What came of it is reported by the next pass.
    async fn apply_effect(
        &self,
        effect: &PruneEffect,
        pass: &mut ReconcilePass<()>,
    ) -> Result<(), ApplyError> {
        let pruning = Box::pin(self.prune(&effect.pool));
        let outcome = pass.worker.release_during(pruning).await;
        let mut memory = self.memory();
        let before = memory.get(&effect.config).map_or(0, |last| last.failures);
        let failures = match outcome {
            PassOutcome::Failed(_) => before.saturating_add(1),
            PassOutcome::Done { .. } | PassOutcome::Held(_) | PassOutcome::Refused { .. } => 0,
        };
        let candidates = effect.candidates.clone();
        let last = LastPass { at: Timestamp::now(), candidates, outcome, failures };
        memory.insert(effect.config.clone(), last);
        Ok(())
    }
}

impl Reconciler for RetentionReconciler {
    type Snapshot = RetentionSnapshot;
    type Lookup = std::convert::Infallible;
    type Reason = RetentionState;
    type Effect = PruneEffect;
    type State = ();
    type Trigger = Trigger;

    const KIND: &'static str = "images";
    const LOG_PREFIX: &'static str = "images of ";
    /// While they wait for a registry, they have no worker.
    const WORKERS: usize = 1;
    /// Nothing here is urgent, and a pass reads what all objects name.
    const DEBOUNCE: Option<Debounce> =
        Some(Debounce { quiet: Duration::from_secs(1), most: Duration::from_secs(30) });

    fn affected_keys(&self, trigger: &Trigger) -> BTreeSet<String> {
        let names = |configs: Vec<Arc<MachineOsConfig>>| {
            configs.iter().map(|config| config.metadata.name.clone()).collect()
        };
        match trigger {
            Trigger::Config(name, _) | Trigger::ManagedObject(name) => [name.clone()].into(),
            Trigger::Pool(pool) => {
                names(self.cache.configs.by_index([IndexKey::Pool(pool.clone())]))
            }
            Trigger::All => names(self.cache.configs.list()),
            Trigger::Secret(_)
            | Trigger::MachineConfig(..)
            | Trigger::Machine(_)
            | Trigger::NodeJob { .. }
            | Trigger::BootImages
            | Trigger::Unrelated => BTreeSet::new(),
        }
    }

    fn observe(&self, key: &str) -> Option<RetentionSnapshot> {
        let config = self.cache.configs.get(key)?;
        if config.metadata.is_being_deleted() {
            return None;
        }
        // Settings that can't be read are reported by the builds, and delete nothing.
        let retention = self.cache.settings().ok().and_then(|(settings, _)| settings.retention);
        let facts = retention.map(|limits| retention_facts(&self.cache, &config, limits, &[]));
        let last = self.memory().get(key).cloned();
        Some(RetentionSnapshot { config: (*config).clone(), facts, last })
    }

    fn decide(&self, snapshot: &RetentionSnapshot, now: Timestamp) -> RetentionDecision {
        decide(snapshot, now)
    }

    async fn look_up(
        &self,
        _: &[std::convert::Infallible],
        _: &mut RetentionSnapshot,
        _: &mut ReconcilePass<()>,
    ) -> Result<(), NoDecision> {
        Ok(())
    }

    async fn apply(
        &self,
        actions: &[Action<PruneEffect>],
        _: &RetentionSnapshot,
        pass: &mut ReconcilePass<()>,
    ) -> Result<(), ApplyError> {
        self.apply_all(actions, pass).await
    }

    fn seen_versions(snapshot: &RetentionSnapshot) -> impl Iterator<Item = (&str, &str)> {
        let metadata = &snapshot.config.metadata;
        [(metadata.uid(), metadata.resource_version())].into_iter()
    }

    fn inputs(snapshot: &RetentionSnapshot) -> InputsHash {
        let limits = snapshot.facts.as_ref().map(|facts| facts.retention);
        let limits = limits.map(|limits| (limits.keep, limits.days));
        let config = &snapshot.config;
        InputsHash::of(&(&config.spec, &config.status.current_image_pull_spec, limits))
    }

    fn log_transition(&self, key: &str, reason: &RetentionState) {
        match reason {
            RetentionState::Off | RetentionState::Nothing | RetentionState::Pruning => {
                tracing::debug!("images of {key}: {reason}");
            }
            RetentionState::Waiting(PassOutcome::Done { .. }) => {
                tracing::info!("images of {key}: {reason}");
            }
            RetentionState::Waiting(_) => tracing::warn!("images of {key}: {reason}"),
        }
    }

    fn forget(&self, key: &str) {
        self.memory().remove(key);
    }
}
