use std::collections::BTreeSet;
use std::sync::Mutex;

use k8s_openapi::jiff::Timestamp;
use mosb_types::ErrorClass;

use super::*;
use crate::problem::{EarlierProblem, Problem};
use crate::waits::INPUT_CHECK;
use crate::write::{Action, ApplyError, NoEffect};

/// A controller of one object, with what each of its functions returns.
#[derive(Debug, Default)]
struct Fake {
    inputs: Mutex<&'static str>,
    lookups: Vec<&'static str>,
    /// How long a registry takes.
    waits: Option<Duration>,
    is_busy: bool,
    begun: Mutex<usize>,
    problem: Option<Problem>,
    requeue_after: Option<Duration>,
    checked_for: Option<Duration>,
    error: Option<fn() -> ApplyError>,
    applied: Mutex<u32>,
}

#[derive(Debug)]
struct FakeSnapshot {
    inputs: &'static str,
    looked_up: bool,
    failed: Option<Problem>,
    earlier_problem: Option<EarlierProblem>,
}

impl Reconciler for Fake {
    type Snapshot = FakeSnapshot;
    type Lookup = &'static str;
    type Reason = &'static str;
    type Effect = NoEffect;
    type State = ();
    type Trigger = ();

    const KIND: &'static str = "fake";
    const WORKERS: usize = 1;

    fn affected_keys(&self, (): &()) -> BTreeSet<String> {
        ["worker".to_owned()].into()
    }

    fn observe(&self, key: &str) -> Option<FakeSnapshot> {
        let inputs = *self.inputs.lock().unwrap();
        let seen = FakeSnapshot { inputs, looked_up: false, failed: None, earlier_problem: None };
        (key != "deleted").then_some(seen)
    }

    fn decide(&self, snapshot: &FakeSnapshot, _: Timestamp) -> DecisionOf<Self> {
        let lookups = if snapshot.looked_up { Vec::new() } else { self.lookups.clone() };
        let (requeue_after, checked_for) = (self.requeue_after, self.checked_for);
        Decision { lookups, requeue_after, checked_for, ..Decision::unchanged("because") }
    }

    async fn look_up(
        &self,
        _: &[&'static str],
        snapshot: &mut FakeSnapshot,
        pass: &mut PassOf<Self>,
    ) -> Result<(), NoDecision> {
        *self.begun.lock().unwrap() += 1;
        if let Some(time) = self.waits {
            pass.worker.release_during(tokio::time::sleep(time)).await;
        }
        if self.is_busy {
            return Err(NoDecision::Busy(["slow.test".to_owned()].into()));
        }
        snapshot.looked_up = true;
        Ok(())
    }

    fn fail_lookups(_: &[&'static str], snapshot: &mut FakeSnapshot, problem: &Problem) {
        snapshot.looked_up = true;
        snapshot.failed = Some(problem.clone());
    }

    fn problem(snapshot: &FakeSnapshot, _: &DecisionOf<Self>) -> Option<Problem> {
        snapshot.failed.clone()
    }

    async fn apply(
        &self,
        _: &[Action<NoEffect>],
        _: &FakeSnapshot,
        _: &mut PassOf<Self>,
    ) -> Result<(), ApplyError> {
        *self.applied.lock().unwrap() += 1;
        self.error.map_or(Ok(()), |error| Err(error()))
    }

    fn seen_versions(_: &FakeSnapshot) -> impl Iterator<Item = (&str, &str)> {
        [("uid", "1")].into_iter()
    }

    fn inputs(snapshot: &FakeSnapshot) -> InputsHash {
        InputsHash::of(&snapshot.inputs)
    }

    fn set_earlier_problem(snapshot: &mut FakeSnapshot, problem: EarlierProblem) {
        snapshot.earlier_problem = Some(problem);
    }

    fn set_checked(snapshot: &mut FakeSnapshot) {
        snapshot.looked_up = true;
    }

    fn log_transition(&self, _: &str, _: &&'static str) {}

    async fn report_error(
        &self,
        _: &ApplyError,
        _: &FakeSnapshot,
        _: &mut PassOf<Self>,
    ) -> Option<Problem> {
        self.problem.clone()
    }
}

fn driver(fake: Fake) -> Arc<Driver<Fake>> {
    let active = Arc::new(ActiveReconciles::new(Duration::from_secs(60)));
    Driver::new(fake, (&Arc::default(), &Arc::default(), &active))
}

async fn reconcile(driver: &Driver<Fake>, key: &str, is_paused: bool) -> Requeue {
    driver.reconcile(key, is_paused, Worker::default()).await
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
        assert_eq!(reconcile(&driver, "worker", false).await, want, "{what}");
        assert_eq!(*driver.reconciler.applied.lock().unwrap(), 1, "{what}");
        assert_eq!(reconcile(&driver, "deleted", false).await, Requeue::Never, "{what}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_check_spares_lookups_while_inputs_are_the_same() {
    let conflict: fn() -> ApplyError = || ApplyError::Conflict("pool worker".to_owned());
    for (what, error, lookups) in
        [("checked", None, [1, 2, 3]), ("failed", Some(conflict), [2, 3, 4])]
    {
        let lookup = vec!["secret"];
        let checked_for = Some(LATER);
        let driver = driver(Fake { lookups: lookup, checked_for, error, ..Fake::default() });
        let begun = || *driver.reconciler.begun.lock().unwrap();
        for _ in 0..2 {
            reconcile(&driver, "worker", false).await;
        }
        assert_eq!(begun(), lookups[0], "{what}");
        *driver.reconciler.inputs.lock().unwrap() = "others";
        reconcile(&driver, "worker", false).await;
        assert_eq!(begun(), lookups[1], "{what}: other inputs");
        tokio::time::advance(LATER).await;
        reconcile(&driver, "worker", false).await;
        assert_eq!(begun(), lookups[2], "{what}: later");
    }
}

#[tokio::test(start_paused = true)]
async fn a_lookup_ends_when_an_input_changes() {
    let driver =
        driver(Fake { lookups: vec!["image"], waits: Some(Duration::MAX), ..Fake::default() });
    let change = async {
        tokio::time::sleep(INPUT_CHECK * 10).await;
        *driver.reconciler.inputs.lock().unwrap() = "changed";
    };
    let (requeue, ()) = tokio::join!(reconcile(&driver, "worker", false), change);
    assert_eq!(requeue, Requeue::CacheStale(Duration::ZERO));
    assert_eq!(*driver.reconciler.applied.lock().unwrap(), 0);
}

#[tokio::test(start_paused = true)]
async fn keys_whose_lookups_hang_take_no_worker() {
    let driver =
        driver(Fake { lookups: vec!["image"], waits: Some(Duration::MAX), ..Fake::default() });
    let (mut workers, (stop, stopped)) = (JoinSet::new(), watch::channel(false));
    Arc::clone(&driver).start(&mut workers, &stopped);
    let keys: Vec<String> = (0..Fake::WORKERS * 4).map(|number| format!("pool-{number}")).collect();
    keys.iter().for_each(|key| driver.queue.enqueue(key));
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert_eq!(*driver.reconciler.begun.lock().unwrap(), keys.len());
    stop.send_replace(true);
}

#[tokio::test(start_paused = true)]
async fn passes_get_the_only_worker_back() {
    let waits = Some(Duration::from_secs(1));
    let driver = driver(Fake { lookups: vec!["image"], waits, ..Fake::default() });
    let (mut workers, (stop, stopped)) = (JoinSet::new(), watch::channel(false));
    Arc::clone(&driver).start(&mut workers, &stopped);
    for number in 0..4 {
        driver.queue.enqueue(&format!("pool-{number}"));
    }
    tokio::time::sleep(Duration::from_secs(2)).await;
    assert_eq!(*driver.reconciler.applied.lock().unwrap(), 4);
    stop.send_replace(true);
}

#[tokio::test(start_paused = true)]
async fn a_key_that_finds_no_free_slot_reports_it() {
    let driver = driver(Fake { lookups: vec!["image"], is_busy: true, ..Fake::default() });
    let begun = tokio::time::Instant::now();
    let reported = loop {
        match reconcile(&driver, "worker", false).await {
            Requeue::CacheStale(pause) if !pause.is_zero() => tokio::time::sleep(pause).await,
            requeue => break requeue,
        }
    };
    assert_eq!(reported, Requeue::Error(ErrorClass::Transient));
    assert_eq!(begun.elapsed().as_secs(), 60);
    assert_eq!(reconcile(&driver, "worker", false).await, reported, "it is tried each time");
}

#[tokio::test(start_paused = true)]
async fn nothing_is_decided_from_a_view_before_our_own_write() {
    let driver = driver(Fake::default());
    driver.own_writes.record_write("uid", "1", "2");
    let stale = Requeue::CacheStale(OWN_WRITE_TIMEOUT);
    assert_eq!(reconcile(&driver, "worker", false).await, stale);
    assert_eq!(*driver.reconciler.applied.lock().unwrap(), 0);
}

#[tokio::test(start_paused = true)]
async fn a_paused_key_waits_for_a_change_of_its_inputs() {
    let error: Option<fn() -> ApplyError> = Some(|| ApplyError::Problem(problem()));
    let driver = driver(Fake { error, problem: Some(problem()), ..Fake::default() });
    let failed = Requeue::Error(ErrorClass::Rejected);
    assert_eq!(reconcile(&driver, "worker", true).await, failed, "nothing is known yet");
    assert_eq!(reconcile(&driver, "worker", true).await, Requeue::Paused);
    assert_eq!(reconcile(&driver, "worker", false).await, failed, "the pause is over");
    *driver.reconciler.inputs.lock().unwrap() = "changed";
    assert_eq!(reconcile(&driver, "worker", true).await, failed);
}
