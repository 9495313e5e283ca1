use std::collections::BTreeSet;
use std::future::pending;
use std::sync::Mutex;

use k8s_openapi::jiff::Timestamp;
use mosb_image::Digest;
use mosb_types::ErrorClass;

use super::run_pass::{DecisionOf, INPUT_CHECK_INTERVAL};
use super::*;
use crate::action::Action;
use crate::apply::{ApplyError, ReconcilePass};
use crate::decision::Decision;
use crate::lookup::Problem;
use crate::reconciler::NoDecision;
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
        ("later", Fake { requeue_after: Some(LATER), ..Fake::default() }, Requeue::After(LATER)),
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
