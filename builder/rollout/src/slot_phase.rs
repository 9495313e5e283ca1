//! How far a machine with a slot is: from the drain to the boot of its target.

use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

use super::elapsed::elapsed;
use super::job_request::NodeVerb;
use super::job_state::JobState;
use super::machine_state::MachineState;
use super::snapshot::{JobPhase, MachineJob};
use mosb_api::rollout::{ExitCode, Slot, SlotFailure};
use mosb_reconcile::waits;

/// Attempts of one slot to boot a target if the machine rebooted each time without trying to.
const MAX_ATTEMPTS: u32 = 3;
/// `apply` Jobs for a target that may fail for a passing reason: six hours with the pauses.
pub(super) const MAX_TRIES: u32 = 10;
/// Maximum characters of a failure's message in the slot.
const MESSAGE: usize = 1024;

/// How far a machine with a slot is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum SlotPhase {
    /// Its pods are evicted, or the `apply` Job is about to be created.
    Draining,
    /// The `apply` Job runs.
    Applying { is_rebooting: bool },
    /// It is not known what the machine booted, because its Job is lost or its result is of an
    /// earlier boot.
    AwaitingReport,
    /// It has the target and is Ready.
    Finished,
    /// It rebooted without a try to boot the target: another attempt may succeed.
    NextAttempt,
    /// Its `apply` Job ended without the target, which is not in the slot yet.
    Failing(SlotFailure),
    /// It did not boot the target, and the slot has it. Another try of the same attempt follows
    /// after `retry_in`, if that can help.
    Failed { retry_in: Option<Duration> },
    /// Another try is due: the Job that failed is deleted first.
    Retry,
    /// It is not back within the limit.
    Lost { since: Timestamp },
}

impl SlotPhase {
    pub fn of(
        state: &MachineState<'_>,
        slot: &Slot,
        node_timeout: Duration,
        now: Timestamp,
    ) -> Self {
        if state.machine.node.ready && state.has(&slot.target) {
            return Self::Finished;
        }
        if slot.failure.as_ref().is_some_and(|failure| failure.is_final) {
            return Self::Failed { retry_in: None };
        }
        let job = state.job(NodeVerb::Apply, Some(&slot.target));
        let job = job.filter(|job| job.number == slot.attempt);
        let has_ended =
            |job: &MachineJob| slot.failure.as_ref().is_some_and(|failure| failure.job == job.uid);
        match job {
            Some(job) if !has_ended(job) => Self::of_job(state, slot, job, node_timeout, now),
            ended => {
                if let Some(failure) = slot.failure.as_ref().filter(|_| slot.applying.is_none())
                    && let Some(left) = pause(failure.tries, failure.at.0, now)
                {
                    return Self::Failed { retry_in: Some(left) };
                }
                if ended.is_some() {
                    return Self::Retry;
                }
                Self::without_job(state, slot, node_timeout, now)
            }
        }
    }

    fn of_job(
        state: &MachineState<'_>,
        slot: &Slot,
        job: &MachineJob,
        node_timeout: Duration,
        now: Timestamp,
    ) -> Self {
        let applying = slot.applying.as_ref().filter(|record| record.attempt == slot.attempt);
        let created = applying.map(|record| record.since.0).or(job.began()).unwrap_or(now);
        let not_back = |phase: Self| {
            if elapsed(created, now) > node_timeout { Self::Lost { since: created } } else { phase }
        };
        match state.job_state(Some(job)) {
            JobState::Missing | JobState::Running => {
                let is_rebooting =
                    !state.machine.node.ready || state.machine.node.boot_id != slot.boot_id;
                not_back(Self::Applying { is_rebooting })
            }
            // It runs the target, but is not Ready yet.
            JobState::Succeeded => not_back(Self::Applying { is_rebooting: true }),
            JobState::Failed(failure) => {
                let tries = slot.failure.as_ref().map_or(0, |earlier| earlier.tries) + 1;
                let is_final = match failure.exit {
                    Some(ExitCode::NotFinalized) if may_try_again(slot) => {
                        return Self::NextAttempt;
                    }
                    Some(_) => true,
                    // Its result does not count.
                    None if matches!(job.phase, JobPhase::Succeeded(_))
                        && state.report.is_none() =>
                    {
                        return not_back(Self::AwaitingReport);
                    }
                    None => tries >= MAX_TRIES,
                };
                Self::Failing(SlotFailure {
                    job: job.uid.clone(),
                    at: Time(failure.at.unwrap_or(now)),
                    tries,
                    is_final,
                    message: failure.message.chars().take(MESSAGE).collect(),
                })
            }
        }
    }

    /// The machine has no `apply` Job that counts.
    fn without_job(
        state: &MachineState<'_>,
        slot: &Slot,
        node_timeout: Duration,
        now: Timestamp,
    ) -> Self {
        // An earlier `apply` Job may have rebooted it.
        let is_unknown = state.machine.node.boot_id != slot.boot_id && state.report.is_none();
        if state.machine.node.ready && !is_unknown {
            return Self::Draining;
        }
        // A drain has no limit: what counts is when the machine came or went.
        let applying = slot.applying.as_ref().map(|applying| applying.since.0);
        let changed = state.machine.node.ready_since.as_ref().map(|since| since.0);
        let since = applying.into_iter().chain(changed).fold(slot.since.0, Timestamp::max);
        if elapsed(since, now) > node_timeout {
            Self::Lost { since }
        } else if is_unknown {
            Self::AwaitingReport
        } else {
            Self::Draining
        }
    }

    /// Why no new slot is given if there are more of these.
    pub fn is_failed(&self) -> bool {
        matches!(self, Self::Failing(_) | Self::Failed { .. } | Self::Lost { .. })
    }
}

fn may_try_again(slot: &Slot) -> bool {
    slot.attempt.saturating_sub(slot.first_attempt) + 1 < MAX_ATTEMPTS
}

/// How long the next try still waits, after so many that failed.
fn pause(tries: u32, failed: Timestamp, now: Timestamp) -> Option<Duration> {
    waits::SLOT.wait(tries).checked_sub(elapsed(failed, now)).filter(|left| !left.is_zero())
}
