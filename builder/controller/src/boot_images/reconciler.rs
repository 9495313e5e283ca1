//! The controller of boot images. It has one key.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, Instant};

use k8s_openapi::jiff::Timestamp;

use super::decide::decide;
use super::execute::{create_status, execute, patch_status};
use super::figures::{BootImageFigures, figures};
use super::lookups::{self, look_up};
use super::observe::{Remembered, is_affected, observe};
use super::obstacle::Failure;
use super::plan::{BootImagePlan, Outcome, SetPlan};
use super::reason::BootImageReason;
use super::recheck::{next_retry, recheck};
use super::report::{StatusTarget, conditions, target};
use super::report_events::events;
use super::snapshot::{BootImageSnapshot, FailedWrite};
use super::stub_expiry::expiry;
use super::unmade::{UnmadeAttempts, WriteEnd};
use super::worker_pool::worker_condition;
use super::write::{BootImageWrite, ObjectRef, Recorded};
use crate::cluster_cache::Trigger;
use crate::lookups::Resolver;
use crate::metrics::Metrics;
use crate::user_data::SecretRef;
use mosb_reconcile::driver::{Debounce, Decision, DecisionOf, InputsHash, NoDecision, Reconciler};
use mosb_reconcile::waits::{
    BOOT_IMAGE_FAILED, BOOT_IMAGE_REFUSED, BOOT_IMAGE_UNDONE, STUB_EXPIRY,
};
use mosb_reconcile::write::{Action, ApplyError, Executor, NoEffect, ReconcilePass};
use mosb_types::ErrorClass;

/// The only key.
const KEY: &str = "cluster";
/// The most writes of a pass; the next pass goes on.
const MAX_WRITES: usize = 200;
/// When a pass follows a write whose event may be late, or a conflict.
const SOON: Duration = Duration::from_secs(1);

#[derive(Debug)]
pub(crate) struct BootImageReconciler {
    resolver: Resolver,
    executor: Executor,
    metrics: Arc<Metrics>,
    memory: Mutex<Memory>,
}

/// What the next passes need of the writes of this process.
#[derive(Debug, Default)]
struct Memory {
    replaced: BTreeMap<String, String>,
    /// By what they do, and until when they are not tried.
    failed: BTreeMap<String, (FailedWrite, Instant)>,
    unmade: UnmadeAttempts,
    /// When the CAs of stubs expire, and when each is read again.
    stub_expiries: BTreeMap<SecretRef, (Option<i64>, Instant)>,
}

/// How the writes of a pass ended.
#[derive(Debug, Default)]
struct Written {
    /// Errors by set.
    failed: BTreeMap<String, Outcome>,
    /// When the next pass is due because of them.
    requeue_after: Option<Duration>,
}

impl BootImageReconciler {
    pub fn new(resolver: Resolver, executor: Executor, metrics: Arc<Metrics>) -> Self {
        Self { resolver, executor, metrics, memory: Mutex::default() }
    }

    fn memory(&self) -> MutexGuard<'_, Memory> {
        self.memory.lock().expect("it is not poisoned: maps don't panic")
    }

    fn remembered(&self) -> Remembered {
        let mut memory = self.memory();
        memory.failed.retain(|_, (_, until)| *until > Instant::now());
        let failed = memory.failed.iter().map(|(what, (write, _))| (what.clone(), write.clone()));
        let failed_writes = failed.collect();
        memory.stub_expiries.retain(|_, (_, until)| *until > Instant::now());
        let expiries = memory.stub_expiries.iter();
        let stub_expiries = expiries.map(|(secret, (time, _))| (secret.clone(), *time)).collect();
        Remembered {
            replaced: memory.replaced.clone(),
            failed_writes,
            unmade_attempts: memory.unmade.sets(),
            stub_expiries,
        }
    }

    /// Sends the next write of each set. An error of one set does not stop the others.
    async fn write_all(&self, plan: &BootImagePlan) -> Result<Written, ApplyError> {
        let mut written = Written::default();
        let writes = plan.sets.iter().filter_map(|set| Some((set, set.write.as_ref()?)));
        for (count, (set, write)) in writes.enumerate() {
            if count == MAX_WRITES {
                written.soon(Duration::ZERO);
                break;
            }
            let result = execute(&self.executor, write).await;
            self.memory().unmade.note(&set.set, write, WriteEnd::of(&result));
            match result {
                Ok(is_new) => {
                    if is_new {
                        self.record(write);
                    }
                    if let Some(undone) = write.if_undone() {
                        self.not_before(write, undone, BOOT_IMAGE_UNDONE);
                    }
                    if let BootImageWrite::HistoryStatus { recorded: Recorded::Restored, .. } =
                        write
                    {
                        self.metrics.count_boot_image_restore();
                    }
                    written.soon(SOON);
                }
                Err(error) if error.class().is_none() => {
                    tracing::debug!("{error}");
                    written.soon(SOON);
                }
                // The Lease is lost, or the API server is away: no other write is possible.
                Err(error) if is_general(&error) => return Err(error),
                Err(error) => {
                    let outcome = self.record_failure(set, write, &error);
                    written.failed.insert(set.set.clone(), outcome);
                }
            }
        }
        Ok(written)
    }

    /// Until the watch shows another version, nothing is decided from the replaced one.
    fn record(&self, write: &BootImageWrite) {
        if let BootImageWrite::Patch { target, .. } | BootImageWrite::HistoryStatus { target, .. } =
            write
        {
            self.record_replaced(target);
        }
    }

    fn record_replaced(&self, target: &ObjectRef) {
        let (uid, version) = (target.uid.clone(), target.resource_version.clone());
        self.memory().replaced.insert(uid, version);
    }

    fn record_failure(&self, set: &SetPlan, write: &BootImageWrite, error: &ApplyError) -> Outcome {
        let is_forbidden = is_forbidden(error);
        let is_permanent = is_forbidden || error.class() != Some(ErrorClass::Transient);
        let retry = if is_permanent { BOOT_IMAGE_REFUSED } else { BOOT_IMAGE_FAILED };
        let mut message = error.to_string();
        if is_forbidden && matches!(write, BootImageWrite::Stub(_)) {
            message += "; `mosb boot-images rbac` prints the Role that it needs";
        }
        tracing::warn!(reason = error.code(), "{}: {message}", set.set);
        let failed = FailedWrite {
            code: error.code().to_owned(),
            message: message.clone(),
            is_forbidden: is_forbidden && matches!(write, BootImageWrite::Stub(_)),
        };
        let is_skip = failed.is_forbidden;
        self.not_before(write, failed, retry);
        if is_skip {
            Outcome::Skipped { code: "no-right".to_owned(), reason: message, blocks_skew: true }
        } else {
            Outcome::Failed(Failure::new(error.code(), message))
        }
    }

    fn not_before(&self, write: &BootImageWrite, why: FailedWrite, after: Duration) {
        self.memory().failed.insert(write.fingerprint(), (why, Instant::now() + after));
    }

    /// Writes the conditions, if they changed.
    async fn report(
        &self,
        plan: &BootImagePlan,
        figures: &BootImageFigures,
        snapshot: &BootImageSnapshot,
        pass: &mut ReconcilePass<()>,
    ) -> Result<(), ApplyError> {
        let now = Timestamp::now();
        match target(snapshot) {
            StatusTarget::Create if conditions(plan, figures, &[], now).is_some() => {
                create_status(&self.executor).await?;
            }
            StatusTarget::Create => {}
            StatusTarget::Object(object, before) => {
                if snapshot.outdated.contains(&object.uid) {
                    return Ok(());
                }
                if let Some(list) = conditions(plan, figures, &before, now) {
                    let fields = serde_json::json!({ "conditions": list });
                    let client = &self.executor.client;
                    if patch_status(client, &object, &fields, &object).await? {
                        self.record_replaced(&object);
                    }
                    let edges = events(&object, &before, &list);
                    let edges: Vec<Action<NoEffect>> =
                        edges.into_iter().map(Action::Event).collect();
                    self.executor.apply_all(&edges, &self.executor, pass).await?;
                }
            }
        }
        let pool = worker_condition(plan, snapshot, now);
        let pool: Vec<_> = pool.into_iter().collect();
        self.executor.apply_all(&pool, &self.executor, pass).await
    }
}

impl Written {
    fn soon(&mut self, after: Duration) {
        self.requeue_after = Some(self.requeue_after.map_or(after, |before| before.min(after)));
    }
}

fn is_forbidden(error: &ApplyError) -> bool {
    matches!(error, ApplyError::Api(error) if error.status_code() == Some(403))
}

/// Whether an error is not of one object.
fn is_general(error: &ApplyError) -> bool {
    matches!(error, ApplyError::Api(error) if matches!(error.status_code(), None | Some(401)))
}

impl Reconciler for BootImageReconciler {
    type Snapshot = BootImageSnapshot;
    type Lookup = SecretRef;
    type Reason = BootImageReason;
    type Effect = NoEffect;
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
        let snapshot = observe(&self.resolver.cache, &self.remembered());
        let outdated = &snapshot.outdated;
        self.memory().replaced.retain(|uid, _| outdated.contains(uid));
        Some(snapshot)
    }

    fn decide(&self, snapshot: &BootImageSnapshot, now: Timestamp) -> DecisionOf<Self> {
        let mut plan = decide(snapshot, now);
        let memory = self.memory();
        let last_read = |secret: &SecretRef| Some(memory.stub_expiries.get(secret)?.1);
        plan.lookups = lookups::next(plan.lookups, last_read, snapshot.stubs.len());
        drop(memory);
        Decision {
            requeue_after: recheck(&plan, snapshot),
            lookups: plan.lookups.clone(),
            ..Decision::unchanged(BootImageReason::of(&plan))
        }
    }

    async fn look_up(
        &self,
        lookups: &[SecretRef],
        snapshot: &mut BootImageSnapshot,
        _pass: &mut ReconcilePass<()>,
    ) -> Result<(), NoDecision> {
        look_up(&self.resolver, lookups, snapshot).await?;
        let until = Instant::now() + STUB_EXPIRY;
        let read = snapshot.stubs.iter();
        let read = read.map(|(secret, found)| (secret.clone(), (expiry(found), until)));
        self.memory().stub_expiries.extend(read);
        Ok(())
    }

    async fn apply(
        &self,
        _actions: &[Action<NoEffect>],
        snapshot: &BootImageSnapshot,
        pass: &mut ReconcilePass<()>,
    ) -> Result<(), ApplyError> {
        // The writes of many sets don't end with the first error, unlike those of an action list.
        let mut plan = decide(snapshot, Timestamp::now());
        let written = self.write_all(&plan).await?;
        self.memory().unmade.retain(&plan.sets);
        // Also if this pass was not about them.
        let retry = next_retry(self.memory().failed.values().map(|(_, at)| *at), Instant::now());
        pass.requeue_after = written.requeue_after.into_iter().chain(retry).min();
        if !plan.lookups.is_empty() {
            pass.requeue_after = Some(SOON);
        }
        for set in &mut plan.sets {
            if let Some(outcome) = written.failed.get(&set.set) {
                set.outcome = outcome.clone();
            }
        }
        let figures = figures(&plan, snapshot, Timestamp::now());
        self.metrics.set_boot_images(&figures);
        self.report(&plan, &figures, snapshot, pass).await
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
