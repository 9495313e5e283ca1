//! One pass over a key: decide, look up, apply, and report the problem.

use std::time::Duration;

use k8s_openapi::jiff::Timestamp;

use super::{DecisionOf, Driver, InputsHash, NoDecision, PassOf, Reconciler, Worker, busy_pause};
use crate::Problem;
use crate::queue::Requeue;
use crate::waits::INPUT_CHECK;
use crate::write::ApplyError;
use mosb_types::ErrorClass;

/// More rounds of lookups than any decision needs.
pub const MAX_LOOKUP_ROUNDS: u32 = 8;

/// How a pass ended.
#[derive(Debug)]
pub(super) struct PassResult {
    pub(super) requeue: Requeue,
    /// The code of the error, if there was one.
    pub(super) error: Option<String>,
}

impl From<Requeue> for PassResult {
    fn from(requeue: Requeue) -> Self {
        Self { requeue, error: None }
    }
}

impl<R: Reconciler> Driver<R> {
    pub(super) async fn run_pass(
        &self,
        key: &str,
        snapshot: &mut R::Snapshot,
        worker: Worker,
    ) -> PassResult {
        let mut pass = PassOf::<R>::default();
        pass.worker = worker;
        let decision = match self.decide(key, snapshot, &mut pass).await {
            Ok(decision) => decision,
            Err(NoDecision::Busy(_)) => return Requeue::CacheStale(busy_pause()).into(),
            Err(NoDecision::InputsChanged) => return Requeue::CacheStale(Duration::ZERO).into(),
            Err(NoDecision::Failed(error)) => {
                return self.fail(key, snapshot, &mut pass, &error).await;
            }
        };
        if let Err(error) = self.reconciler.apply(&decision.actions, snapshot, &mut pass).await {
            return self.fail(key, snapshot, &mut pass, &error).await;
        }
        if let (Some(time), None) = (decision.checked_for, pass.requeue_after) {
            self.key_states.set_checked(key, R::inputs(snapshot), time);
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
        pass: &mut PassOf<R>,
    ) -> Result<DecisionOf<R>, NoDecision> {
        let mut decision = self.reconciler.decide(snapshot, Timestamp::now());
        let mut inputs = None;
        let mut is_held = false;
        for _ in 0..MAX_LOOKUP_ROUNDS {
            if decision.lookups.is_empty() {
                break;
            }
            let inputs = *inputs.get_or_insert_with(|| R::inputs(snapshot));
            tokio::select! {
                looked_up = self.reconciler.look_up(&decision.lookups, snapshot, pass) => {
                    match looked_up {
                        Ok(()) => {}
                        Err(NoDecision::Busy(hosts)) if self.key_states.hold(key) => {
                            is_held = true;
                            R::fail_lookups(&decision.lookups, snapshot, &Problem::of_busy(&hosts));
                        }
                        Err(no_decision) => return Err(no_decision),
                    }
                }
                () = self.until_inputs_change(key, inputs) => {
                    let name = R::log_name(key);
                    tracing::debug!("{name}: its inputs changed during a lookup");
                    return Err(NoDecision::InputsChanged);
                }
            }
            decision = self.reconciler.decide(snapshot, Timestamp::now());
        }
        if !is_held {
            self.key_states.end_hold(key);
        }
        if self.key_states.set_reason(key, decision.reason.to_string()) {
            self.reconciler.log_transition(key, &decision.reason);
        }
        Ok(decision)
    }

    /// Waits until an input differs. A lookup may take minutes, and its result is useless then.
    async fn until_inputs_change(&self, key: &str, inputs: InputsHash) {
        loop {
            tokio::time::sleep(INPUT_CHECK).await;
            let now = self.reconciler.observe(key);
            if now.is_none_or(|now| R::inputs(&now) != inputs) {
                return;
            }
        }
    }

    /// Reports the error that ended a pass.
    async fn fail(
        &self,
        key: &str,
        snapshot: &R::Snapshot,
        pass: &mut PassOf<R>,
        error: &ApplyError,
    ) -> PassResult {
        let (name, reason) = (R::log_name(key), error.code());
        let requeue = match error.class() {
            None => {
                tracing::debug!("{name}: {error}");
                Requeue::Conflict
            }
            Some(class) => {
                let problem = self.reconciler.report_error(error, snapshot, pass).await;
                self.set_problem(key, snapshot, problem.as_ref());
                tracing::warn!(reason, "{name}: {error}");
                Requeue::Error(class)
            }
        };
        PassResult { requeue, error: Some(reason.to_owned()) }
    }

    fn set_problem(&self, key: &str, snapshot: &R::Snapshot, problem: Option<&Problem>) {
        let found = problem.map(|problem| (R::inputs(snapshot), problem));
        self.key_states.set_problem(key, found);
    }
}
