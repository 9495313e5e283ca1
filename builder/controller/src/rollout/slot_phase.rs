//! How far a machine with a slot is: from the drain to the boot of its target.

use std::time::Duration;

use jiff::Timestamp;

use super::job_request::NodeVerb;
use super::job_state::{JobState, elapsed};
use super::machine_state::MachineState;
use super::snapshot::JobPhase;
use mosb_plan::api::rollout::{ExitCode, Slot};

/// Attempts of one slot to boot a target if the machine rebooted each time without trying to.
const MAX_ATTEMPTS: u32 = 3;
/// How long an `apply` that failed for a passing reason waits for the next try.
const APPLY_RETRY: Duration = Duration::from_secs(5 * 60);

/// How far a machine with a slot is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum SlotPhase {
    /// Its pods are evicted; nothing has happened to the machine yet.
    Draining,
    /// The `apply` Job runs.
    Applying { is_rebooting: bool },
    /// It is not known what the machine booted, because its Job is lost or its result is of an
    /// earlier boot.
    AwaitingReport,
    /// It runs the target and is Ready.
    Finished,
    /// It rebooted without a try to boot the target: another attempt may succeed.
    NextAttempt,
    /// Another try of the same attempt is due.
    Retry,
    /// It did not boot the target. Another try of the same attempt follows after `retry_in`, if
    /// that can help.
    Failed { message: String, retry_in: Option<Duration> },
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
        let digest = slot.target.image.digest();
        if state.machine.ready && state.runs(digest) {
            return Self::Finished;
        }
        let is_other_boot = state.machine.boot_id != slot.boot_id;
        let apply = state.job(NodeVerb::Apply, Some(&slot.target));
        let apply = apply.filter(|job| job.number == slot.attempt);
        let Some(job) = apply else {
            if !state.machine.ready && elapsed(slot.since.0, now) > node_timeout {
                return Self::Lost { since: slot.since.0 };
            }
            // An earlier `apply` Job may have rebooted it.
            return if is_other_boot && state.report.is_none() {
                Self::AwaitingReport
            } else {
                Self::Draining
            };
        };
        let created = job.created.as_ref().map_or(now, |created| created.0);
        let not_back = |phase: Self| {
            if elapsed(created, now) > node_timeout { Self::Lost { since: created } } else { phase }
        };
        match state.job_state(Some(job)) {
            JobState::Missing | JobState::Running => {
                let is_rebooting = !state.machine.ready || is_other_boot;
                not_back(Self::Applying { is_rebooting })
            }
            // It runs the target, but is not Ready yet.
            JobState::Succeeded => not_back(Self::Applying { is_rebooting: true }),
            JobState::Failed(failure) => match failure.exit {
                Some(ExitCode::NotFinalized) if may_try_again(slot) => Self::NextAttempt,
                Some(_) => Self::Failed { message: failure.message, retry_in: None },
                None if matches!(job.phase, JobPhase::Succeeded(_)) => {
                    // Its result does not count.
                    match state.report {
                        None => not_back(Self::AwaitingReport),
                        Some(_) => Self::Retry,
                    }
                }
                None => match failure.wait_for(APPLY_RETRY, now) {
                    Some(left) => Self::Failed { message: failure.message, retry_in: Some(left) },
                    None => Self::Retry,
                },
            },
        }
    }

    /// Why no new slot is given if there are more of these.
    pub fn is_failed(&self) -> bool {
        matches!(self, Self::Failed { .. } | Self::Lost { .. })
    }
}

fn may_try_again(slot: &Slot) -> bool {
    slot.attempt.saturating_sub(slot.first_attempt) + 1 < MAX_ATTEMPTS
}
