//! The controller of boot images. It has one key.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use k8s_openapi::jiff::Timestamp;

use super::decide::decide;
use super::decision::{BootImageDecision, BootImageReason, SOON, decision};
use super::effect::{Action, BootImageEffect};
use super::figures::figures;
use super::lookups::look_up;
use super::memory::Memory;
use super::metrics::BootImageMetrics;
use super::observe::{is_affected, observe};
use super::snapshot::BootImageSnapshot;
use mosb_cluster::cluster_cache::Trigger;
use mosb_cluster::resolver::Resolver;
use mosb_cluster::secret_ref::SecretRef;
use mosb_reconcile::driver::{Debounce, InputsHash, NoDecision, Reconciler};
use mosb_reconcile::watch::OwnWrites;
use mosb_reconcile::write::{ApplyError, Effects as _, Executor, ReconcilePass};

/// The only key.
const KEY: &str = "cluster";

#[derive(Debug)]
pub struct BootImageReconciler {
    resolver: Resolver,
    pub(super) executor: Executor,
    pub(super) metrics: Arc<BootImageMetrics>,
    /// Of these objects alone: while a watch does not show that the machines of a MachineDeployment
    /// are being replaced, those of another one must not be.
    pub(super) own_writes: OwnWrites,
    memory: Mutex<Memory>,
}

impl BootImageReconciler {
    pub fn new(resolver: Resolver, executor: Executor, metrics: Arc<BootImageMetrics>) -> Self {
        let (own_writes, memory) = (OwnWrites::without_timeout(), Mutex::default());
        Self { resolver, executor, metrics, own_writes, memory }
    }

    pub(super) fn memory(&self) -> MutexGuard<'_, Memory> {
        self.memory.lock().expect("it is not poisoned: maps don't panic")
    }
}

impl Reconciler for BootImageReconciler {
    type Snapshot = BootImageSnapshot;
    type Lookup = SecretRef;
    type Reason = BootImageReason;
    type Effect = BootImageEffect;
    type State = ();
    type Trigger = Trigger;

    const KIND: &'static str = "bootimages";
    const LOG_PREFIX: &'static str = "boot images of ";
    const WORKERS: usize = 1;
    /// A pass goes over all sets.
    const DEBOUNCE: Option<Debounce> =
        Some(Debounce { quiet: Duration::from_millis(300), most: Duration::from_secs(3) });

    fn affected_keys(&self, trigger: &Trigger) -> BTreeSet<String> {
        is_affected(trigger).then(|| KEY.to_owned()).into_iter().collect()
    }

    /// Until every watch has listed its objects, or failed to.
    async fn prepare(&self, _key: &str) -> Option<Duration> {
        let health = &self.resolver.cache.boot_images.watch_health;
        health.is_listing().then_some(SOON)
    }

    fn observe(&self, _key: &str) -> Option<BootImageSnapshot> {
        let mut snapshot = observe(&self.resolver.cache);
        snapshot.outdated = self.own_writes.unseen(snapshot.versions());
        snapshot.memory = self.memory().clone();
        Some(snapshot)
    }

    fn decide(&self, snapshot: &BootImageSnapshot, now: Timestamp) -> BootImageDecision {
        let plan = decide(snapshot, now);
        let figures = figures(&plan, snapshot, now);
        let decision = decision(&plan, &figures, snapshot, now);
        if decision.lookups.is_empty() {
            self.metrics.set(&figures);
        }
        decision
    }

    async fn look_up(
        &self,
        lookups: &[SecretRef],
        snapshot: &mut BootImageSnapshot,
        _pass: &mut ReconcilePass<()>,
    ) -> Result<(), NoDecision> {
        look_up(&self.resolver, lookups, snapshot).await?;
        self.memory().record_stubs(&snapshot.stubs, Timestamp::now());
        Ok(())
    }

    async fn apply(
        &self,
        actions: &[Action],
        _snapshot: &BootImageSnapshot,
        pass: &mut ReconcilePass<()>,
    ) -> Result<(), ApplyError> {
        self.memory().forget_unneeded(actions, Timestamp::now());
        self.apply_all(actions, pass).await
    }

    /// Each set has its own versions, so that one late event does not delay all.
    fn seen_versions(_snapshot: &BootImageSnapshot) -> impl Iterator<Item = (&str, &str)> {
        std::iter::empty()
    }

    /// A lookup is a short read, which no change ends.
    fn inputs(_snapshot: &BootImageSnapshot) -> InputsHash {
        InputsHash::of(&KEY)
    }

    fn log_transition(&self, _key: &str, reason: &BootImageReason) {
        if reason.is_degraded {
            tracing::warn!("boot images: {reason}");
        } else {
            tracing::info!("boot images: {reason}");
        }
    }
}
