//! What is recorded of a machine that has the target: soaking, confirmed or failed. Pure.

use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

use super::health::{Health, health};
use super::{PoolPolicy, back_to};
use crate::context::Context;
use crate::elapsed::elapsed;
use crate::lookup::RolloutLookup;
use crate::machine_state::MachineState;
use mosb_api::rollout::{NodeTarget, Soak, SoakPhase};

/// Maximum characters of a failure in the record.
const MESSAGE: usize = 512;

/// What becomes of the record of a machine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum SoakStep {
    /// It stays what it is.
    Stay,
    /// The machine has run the target well for long enough.
    Confirm,
    Record(Box<Soak>),
    /// What was recorded does not count any more.
    Forget,
    LookUp(Vec<RolloutLookup>),
}

/// A step, what the machine waits for, and when the next step is due.
#[derive(Debug)]
pub(crate) struct SoakPlan {
    pub step: SoakStep,
    pub waiting: Option<String>,
    pub again: Option<Duration>,
}

impl From<SoakStep> for SoakPlan {
    fn from(step: SoakStep) -> Self {
        Self { step, waiting: None, again: None }
    }
}

impl Context<'_> {
    /// What becomes of the record of a machine that has this target.
    pub fn soak(&self, state: &MachineState<'_>, target: &NodeTarget) -> SoakPlan {
        let policy = match &self.snapshot.policy {
            PoolPolicy::None if state.machine.node.ready => return SoakStep::Confirm.into(),
            PoolPolicy::None | PoolPolicy::Invalid(_) => return SoakStep::Stay.into(),
            PoolPolicy::Named { policy, .. } => policy,
        };
        // An earlier one, to which the machine was brought, or one that is not wanted any more.
        if self.target() != Some(target) {
            return SoakStep::Stay.into();
        }
        let record = self.soak_record(state);
        let phase = record.as_ref().map(|record| &record.phase);
        if matches!(phase, Some(SoakPhase::Failed { .. })) {
            return SoakStep::Stay.into();
        }
        let (health, asked_again) = health(self, state, policy);
        let is_this_boot = record.as_ref().is_some_and(|it| state.is_of_this_boot(&it.boot_id));
        let now = self.now;
        let (phase, left) = match (health, phase) {
            (Health::LookUp(lookups), _) => return SoakStep::LookUp(lookups).into(),
            (Health::Unknown(why), phase) => {
                // Whether it failed all the time is not known.
                let was_failing = matches!(phase, Some(SoakPhase::Failing { .. }));
                let step = if was_failing { SoakStep::Forget } else { SoakStep::Stay };
                let waiting = Some(format!("it is not known whether it is healthy: {why}"));
                return SoakPlan { step, waiting, again: asked_again };
            }
            (Health::Holds, phase) => {
                let since = match phase {
                    Some(SoakPhase::Holding { since, .. }) if is_this_boot => since.0.min(now),
                    _ => now,
                };
                let soak = policy.soak_of(self.ring_of(state));
                let Some(left) = left(since, soak, now) else {
                    return SoakStep::Confirm.into();
                };
                let until = SignedDuration::try_from(soak).ok();
                let until = until.and_then(|soak| since.checked_add(soak).ok()).unwrap_or(since);
                (SoakPhase::Holding { since: Time(since), until: Time(until) }, left)
            }
            (Health::Fails(message), phase) => {
                let (since, first) = match phase {
                    Some(SoakPhase::Failing { since, message }) => {
                        (since.0.min(now), Some(message.clone()))
                    }
                    _ => (now, None),
                };
                let cut = |text: String| -> String { text.chars().take(MESSAGE).collect() };
                match left(since, policy.health.fail_after.0, now) {
                    None => {
                        let (at, back_to) = (Time(now), back_to(self, state, target));
                        let failed = SoakPhase::Failed { at, message: cut(message), back_to };
                        (failed, Duration::ZERO)
                    }
                    // The first message stays: each other one would be a write.
                    Some(left) => {
                        let message = first.unwrap_or_else(|| cut(message));
                        (SoakPhase::Failing { since: Time(since), message }, left)
                    }
                }
            }
        };
        let waiting = match &phase {
            SoakPhase::Failing { message, .. } => Some(format!("it is not healthy: {message}")),
            SoakPhase::Holding { .. } | SoakPhase::Failed { .. } => None,
        };
        let again = asked_again.into_iter().chain([left]).min().filter(|left| !left.is_zero());
        let boot_id = state.machine.node.boot_id.clone();
        let next = Soak { target: target.clone(), boot_id, phase };
        let step = if record.as_ref() == Some(&next) {
            SoakStep::Stay
        } else {
            SoakStep::Record(Box::new(next))
        };
        SoakPlan { step, waiting, again }
    }

    /// The record of a machine about the target of the pool.
    pub fn soak_record(&self, state: &MachineState<'_>) -> Option<Soak> {
        let target = self.target()?;
        let record = Soak::of(&state.machine.node.metadata)?;
        record.target.is_same_to_machines(target).then_some(record)
    }

    /// How the checks of a machine failed at the target of the pool.
    pub fn soak_failure(&self, state: &MachineState<'_>) -> Option<String> {
        match self.soak_record(state)?.phase {
            SoakPhase::Failed { message, .. } => Some(message),
            SoakPhase::Holding { .. } | SoakPhase::Failing { .. } => None,
        }
    }

    /// The same for people, with what becomes of the machine.
    pub fn soak_failure_text(&self, state: &MachineState<'_>) -> Option<String> {
        let record = self.soak_record(state)?;
        let SoakPhase::Failed { at, message, back_to } = record.phase else {
            return None;
        };
        let image = &record.target.image;
        let runs_it = state.runs(image.digest());
        let next = match back_to {
            Some(back) if runs_it => format!("it is brought back to {}", back.image),
            None if runs_it => {
                "no earlier image of the pool is known that it could be brought back to".to_owned()
            }
            Some(_) | None => "it runs another image again".to_owned(),
        };
        let pool = &self.snapshot.pool.metadata.name;
        Some(format!(
            "it was not healthy with {image} at {}: {message}; {next}; bring a corrected image into service, or repair the machine and run mosb rollout start {pool}",
            at.0
        ))
    }

    /// When the soak time of a machine is over whose checks hold.
    pub fn soaks_until(&self, state: &MachineState<'_>) -> Option<Timestamp> {
        match self.soak_record(state)?.phase {
            SoakPhase::Holding { until, .. } => Some(until.0),
            SoakPhase::Failing { .. } | SoakPhase::Failed { .. } => None,
        }
    }

    /// Whether a machine has the target and is not confirmed yet.
    pub fn is_soaking(&self, state: &MachineState<'_>) -> bool {
        let target = self.target().filter(|target| state.has(target));
        self.policy().is_some()
            && target.is_some_and(|target| {
                !state.confirmed().is_some_and(|known| known.target.is_same_to_machines(target))
            })
    }
}

/// What is left of a time; none if it is over.
fn left(since: Timestamp, time: Duration, now: Timestamp) -> Option<Duration> {
    time.checked_sub(elapsed(since, now)).filter(|left| !left.is_zero())
}
