//! The driver of every controller: it decides when a key is reconciled, runs the functions of its
//! [`Reconciler`], and maps their result to the next time.
//!
//! Input: triggers of the watches. Output: actions that were applied. Invariant: a key is with one
//! worker at a time, and nothing is decided while a watch is not synced or the cache is older than
//! our own writes.
//!
//! It is not `kube::runtime::Controller`. That one runs a key only while the object of this name is
//! in the store of one kind, and waits for the first list of that store alone; here a key outlives
//! its object, and a snapshot needs all stores. Its queue has no priorities, and any event ends a
//! back-off; here a failed key pauses until an input of its problem changes. It does not end a
//! running reconcile when the inputs change. Each of its `owns` and `watches` is one more watch
//! (shared streams are an unstable feature); here all controllers share the stores.

use std::sync::Arc;
use std::time::{Duration, Instant};

use k8s_openapi::jiff::Timestamp;
use tokio::sync::watch;
use tokio::task::JoinSet;
use tracing::Instrument as _;

use super::active_reconciles::ActiveReconciles;
use super::apply::{ApplyError, ReconcilePass};
use super::cluster_cache::{ClusterCache, OWN_WRITE_TIMEOUT, Trigger};
use super::decision::Decision;
use super::key_states::KeyStates;
use super::lookup::Problem;
use super::lookups::busy_pause;
use super::queue::{Queue, Requeue};
use super::reconciler::{NoDecision, Reconciler};
use mosb_image::Digest;
use mosb_types::ErrorClass;

/// More rounds of lookups than any decision needs.
pub const MAX_LOOKUP_ROUNDS: u32 = 8;
/// How long to wait while a watch is not synced.
const CACHE_SYNC_REQUEUE: Duration = Duration::from_secs(1);
/// How often the inputs are compared while a lookup runs.
const INPUT_CHECK_INTERVAL: Duration = Duration::from_secs(1);

#[derive(Debug)]
pub(crate) struct Driver<R> {
    reconciler: R,
    cache: Arc<ClusterCache>,
    active: Arc<ActiveReconciles>,
    queue: Queue<String>,
    key_states: KeyStates,
}

/// A [`Driver`] of any reconciler.
pub(crate) trait Controller: Send + Sync {
    /// Enqueues the keys that a change affects.
    fn enqueue(&self, trigger: &Trigger);

    /// Starts the workers. After a stop, they finish what they are running.
    fn start(self: Arc<Self>, workers: &mut JoinSet<()>, stopped: &watch::Receiver<bool>);
}

impl<R: Reconciler> Controller for Driver<R> {
    fn enqueue(&self, trigger: &Trigger) {
        let keys = self.reconciler.affected_keys(trigger);
        if R::DEBOUNCE.is_some() {
            self.key_states.record_enqueued(&keys);
        }
        for key in &keys {
            self.queue.enqueue(key);
        }
    }

    fn start(self: Arc<Self>, workers: &mut JoinSet<()>, stopped: &watch::Receiver<bool>) {
        for _ in 0..R::WORKERS {
            workers.spawn(Arc::clone(&self).work(stopped.clone()));
        }
    }
}

type DecisionOf<R> = Decision<<R as Reconciler>::Lookup, <R as Reconciler>::Reason>;

/// How a pass ended.
#[derive(Debug)]
struct PassResult {
    requeue: Requeue,
    /// The code of the error, if there was one.
    error: Option<String>,
}

impl From<Requeue> for PassResult {
    fn from(requeue: Requeue) -> Self {
        Self { requeue, error: None }
    }
}

impl<R: Reconciler> Driver<R> {
    pub fn new(
        reconciler: R,
        cache: &Arc<ClusterCache>,
        active: &Arc<ActiveReconciles>,
    ) -> Arc<Self> {
        Arc::new(Self {
            reconciler,
            cache: Arc::clone(cache),
            active: Arc::clone(active),
            queue: Queue::default(),
            key_states: KeyStates::default(),
        })
    }

    async fn work(self: Arc<Self>, mut stopped: watch::Receiver<bool>) {
        loop {
            let key = tokio::select! {
            // No new key after the stop.
            biased;
            _ = stopped.wait_for(|stopped| *stopped) => return,
            key = self.queue.next() => key,
            };
            let reconcile = self.reconcile(&key, self.queue.is_paused(&key));
            let requeue = self.active.run(&format!("{} {key}", R::KIND), reconcile).await;
            self.queue.set_priority(&key, self.reconciler.is_prioritized(&key));
            self.queue.done(&key, requeue);
        }
    }

    /// Reconciles a key and returns when to do so again. A paused key is reconciled only if the
    /// inputs of its problem changed.
    async fn reconcile(&self, key: &str, is_paused: bool) -> Requeue {
        let began = Instant::now();
        if !self.cache.watch_health.not_synced().is_empty() {
            return Requeue::CacheStale(CACHE_SYNC_REQUEUE);
        }
        if let Some(debounce) = R::DEBOUNCE
            && let Some(wait) = self.key_states.debounce(key, debounce)
        {
            return Requeue::CacheStale(wait);
        }
        if let Some(wait) = self.reconciler.prepare(key).await {
            return Requeue::CacheStale(wait);
        }
        let Some(mut snapshot) = self.reconciler.observe(key) else {
            self.key_states.forget(key);
            self.reconciler.forget(key);
            return Requeue::Never;
        };
        if self.cache.own_writes.is_stale(R::seen_versions(&snapshot)) {
            // The watch event of the write enqueues the key.
            return Requeue::CacheStale(OWN_WRITE_TIMEOUT);
        }
        let inputs = || R::inputs_digest(&snapshot);
        if let Some(problem) = self.key_states.earlier_problem(key, inputs) {
            if is_paused {
                return Requeue::Paused;
            }
            R::set_earlier_problem(&mut snapshot, problem);
        }
        let span = self.reconciler.start_pass(key, &snapshot);
        let result = self.run_pass(key, &mut snapshot).instrument(span).await;
        self.reconciler.record_pass(began.elapsed(), result.error.as_deref());
        result.requeue
    }

    async fn run_pass(&self, key: &str, snapshot: &mut R::Snapshot) -> PassResult {
        let mut pass = ReconcilePass::default();
        let decision = match self.decide(key, snapshot, &mut pass).await {
            Ok(decision) => decision,
            Err(NoDecision::Busy) => return Requeue::CacheStale(busy_pause()).into(),
            Err(NoDecision::InputsChanged) => return Requeue::CacheStale(Duration::ZERO).into(),
            Err(NoDecision::Failed(error)) => {
                return self.fail(key, snapshot, &mut pass, &error).await;
            }
        };
        if let Err(error) = self.reconciler.apply(&decision.actions, snapshot, &mut pass).await {
            return self.fail(key, snapshot, &mut pass, &error).await;
        }
        let problem = R::problem(snapshot, &decision);
        self.set_problem(key, snapshot, problem.as_ref());
        let requeue_after = decision.requeue_after.into_iter().chain(pass.requeue_after).min();
        match (problem, requeue_after) {
            (Some(problem), _) => {
                let is_transient = problem.class == ErrorClass::Transient;
                PassResult {
                    requeue: Requeue::Error(problem.class),
                    error: is_transient.then_some(problem.reason),
                }
            }
            (None, Some(again)) => Requeue::After(again).into(),
            (None, None) => Requeue::Never.into(),
        }
    }

    /// Decides, with all the lookups that this needs.
    async fn decide(
        &self,
        key: &str,
        snapshot: &mut R::Snapshot,
        pass: &mut ReconcilePass,
    ) -> Result<DecisionOf<R>, NoDecision> {
        let mut decision = self.reconciler.decide(snapshot, Timestamp::now());
        let mut inputs = None;
        for _ in 0..MAX_LOOKUP_ROUNDS {
            if decision.lookups.is_empty() {
                break;
            }
            let inputs = *inputs.get_or_insert_with(|| R::inputs_digest(snapshot));
            tokio::select! {
                looked_up = self.reconciler.look_up(&decision.lookups, snapshot, pass) => looked_up?,
                () = self.until_inputs_change(key, inputs) => {
                    tracing::debug!("{}{key}: its inputs changed during a lookup", R::LOG_PREFIX);
                    return Err(NoDecision::InputsChanged);
                }
            }
            decision = self.reconciler.decide(snapshot, Timestamp::now());
        }
        if self.key_states.set_reason(key, decision.reason.to_string()) {
            self.reconciler.log_transition(key, &decision.reason);
        }
        Ok(decision)
    }

    /// Waits until an input differs. A lookup may take minutes, and its result is useless then.
    async fn until_inputs_change(&self, key: &str, inputs: Digest) {
        loop {
            tokio::time::sleep(INPUT_CHECK_INTERVAL).await;
            let now = self.reconciler.observe(key);
            if now.is_none_or(|now| R::inputs_digest(&now) != inputs) {
                return;
            }
        }
    }

    /// Reports the error that ended a pass.
    async fn fail(
        &self,
        key: &str,
        snapshot: &R::Snapshot,
        pass: &mut ReconcilePass,
        error: &ApplyError,
    ) -> PassResult {
        let (prefix, reason) = (R::LOG_PREFIX, error.code());
        let requeue = match error.class() {
            None => {
                tracing::debug!("{prefix}{key}: {error}");
                Requeue::Conflict
            }
            Some(class) => {
                let problem = self.reconciler.report_error(error, snapshot, pass).await;
                self.set_problem(key, snapshot, problem.as_ref());
                tracing::warn!(reason, "{prefix}{key}: {error}");
                Requeue::Error(class)
            }
        };
        PassResult { requeue, error: Some(reason.to_owned()) }
    }

    fn set_problem(&self, key: &str, snapshot: &R::Snapshot, problem: Option<&Problem>) {
        let found = problem.map(|problem| (R::inputs_digest(snapshot), problem));
        self.key_states.set_problem(key, found);
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::future::pending;
    use std::sync::Mutex;

    use super::*;
    use crate::action::Action;
    use crate::snapshot::EarlierProblem;

    /// A controller of one object, with what each of its functions returns.
    #[derive(Debug, Default)]
    struct Fake {
        inputs: Mutex<&'static str>,
        lookups: Vec<&'static str>,
        hangs: bool,
        problem: Option<Problem>,
        requeue_after: Option<Duration>,
        error: Option<fn() -> ApplyError>,
        applied: Mutex<u32>,
    }

    #[derive(Debug)]
    struct FakeSnapshot {
        inputs: &'static str,
        looked_up: bool,
        earlier_problem: Option<EarlierProblem>,
    }

    impl Reconciler for Fake {
        type Snapshot = FakeSnapshot;
        type Lookup = &'static str;
        type Reason = &'static str;

        const KIND: &'static str = "fake";
        const WORKERS: usize = 1;

        fn affected_keys(&self, _: &Trigger) -> BTreeSet<String> {
            ["worker".to_owned()].into()
        }

        fn observe(&self, key: &str) -> Option<FakeSnapshot> {
            let inputs = *self.inputs.lock().unwrap();
            let seen = FakeSnapshot { inputs, looked_up: false, earlier_problem: None };
            (key == "worker").then_some(seen)
        }

        fn decide(&self, snapshot: &FakeSnapshot, _: Timestamp) -> DecisionOf<Self> {
            let lookups = if snapshot.looked_up { Vec::new() } else { self.lookups.clone() };
            let requeue_after = self.requeue_after;
            Decision { lookups, actions: Vec::new(), reason: "because", requeue_after }
        }

        async fn look_up(
            &self,
            _: &[&'static str],
            snapshot: &mut FakeSnapshot,
            _: &mut ReconcilePass,
        ) -> Result<(), NoDecision> {
            if self.hangs {
                pending::<()>().await;
            }
            snapshot.looked_up = true;
            Ok(())
        }

        async fn apply(
            &self,
            _: &[Action],
            _: &FakeSnapshot,
            _: &mut ReconcilePass,
        ) -> Result<(), ApplyError> {
            *self.applied.lock().unwrap() += 1;
            self.error.map_or(Ok(()), |error| Err(error()))
        }

        fn seen_versions(_: &FakeSnapshot) -> impl Iterator<Item = (&str, &str)> {
            [("uid", "1")].into_iter()
        }

        fn inputs_digest(snapshot: &FakeSnapshot) -> Digest {
            Digest::of(snapshot.inputs.as_bytes())
        }

        fn set_earlier_problem(snapshot: &mut FakeSnapshot, problem: EarlierProblem) {
            snapshot.earlier_problem = Some(problem);
        }

        fn log_transition(&self, _: &str, _: &&'static str) {}

        async fn report_error(
            &self,
            _: &ApplyError,
            _: &FakeSnapshot,
            _: &mut ReconcilePass,
        ) -> Option<Problem> {
            self.problem.clone()
        }
    }

    fn driver(fake: Fake) -> Arc<Driver<Fake>> {
        let active = Arc::new(ActiveReconciles::new(Duration::from_secs(60)));
        Driver::new(fake, &Arc::new(ClusterCache::empty("mosb")), &active)
    }

    fn problem() -> Problem {
        Problem {
            class: ErrorClass::Rejected,
            reason: "forbidden".to_owned(),
            message: "worker: forbidden".to_owned(),
        }
    }

    const LATER: Duration = Duration::from_secs(7);

    #[tokio::test(start_paused = true)]
    async fn a_pass_decides_when_the_key_is_requeued() {
        let conflict: Option<fn() -> ApplyError> =
            Some(|| ApplyError::Conflict("pool worker".to_owned()));
        let refused: Option<fn() -> ApplyError> = Some(|| ApplyError::Problem(problem()));
        for (what, fake, want) in [
            ("done", Fake::default(), Requeue::Never),
            ("a lookup", Fake { lookups: vec!["image"], ..Fake::default() }, Requeue::Never),
            (
                "later",
                Fake { requeue_after: Some(LATER), ..Fake::default() },
                Requeue::After(LATER),
            ),
            ("conflict", Fake { error: conflict, ..Fake::default() }, Requeue::Conflict),
            (
                "refused",
                Fake { error: refused, ..Fake::default() },
                Requeue::Error(ErrorClass::Rejected),
            ),
        ] {
            let driver = driver(fake);
            assert_eq!(driver.reconcile("worker", false).await, want, "{what}");
            assert_eq!(*driver.reconciler.applied.lock().unwrap(), 1, "{what}");
            assert_eq!(driver.reconcile("deleted", false).await, Requeue::Never, "{what}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_lookup_ends_when_an_input_changes() {
        let driver = driver(Fake { lookups: vec!["image"], hangs: true, ..Fake::default() });
        let change = async {
            tokio::time::sleep(INPUT_CHECK_INTERVAL * 10).await;
            *driver.reconciler.inputs.lock().unwrap() = "changed";
        };
        let (requeue, ()) = tokio::join!(driver.reconcile("worker", false), change);
        assert_eq!(requeue, Requeue::CacheStale(Duration::ZERO));
        assert_eq!(*driver.reconciler.applied.lock().unwrap(), 0);
    }

    #[tokio::test(start_paused = true)]
    async fn nothing_is_decided_from_a_view_before_our_own_write() {
        let driver = driver(Fake::default());
        driver.cache.own_writes.record_write("uid", "1", "2");
        let stale = Requeue::CacheStale(OWN_WRITE_TIMEOUT);
        assert_eq!(driver.reconcile("worker", false).await, stale);
        assert_eq!(*driver.reconciler.applied.lock().unwrap(), 0);
    }

    #[tokio::test(start_paused = true)]
    async fn a_paused_key_waits_for_a_change_of_its_inputs() {
        let error: Option<fn() -> ApplyError> = Some(|| ApplyError::Problem(problem()));
        let driver = driver(Fake { error, problem: Some(problem()), ..Fake::default() });
        let failed = Requeue::Error(ErrorClass::Rejected);
        assert_eq!(driver.reconcile("worker", true).await, failed, "nothing is known yet");
        assert_eq!(driver.reconcile("worker", true).await, Requeue::Paused);
        assert_eq!(driver.reconcile("worker", false).await, failed, "the pause is over");
        *driver.reconciler.inputs.lock().unwrap() = "changed";
        assert_eq!(driver.reconcile("worker", true).await, failed);
    }
}
