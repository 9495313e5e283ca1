//! How far the Jobs on one machine are, and when a Job that failed is tried again. Pure.

use std::time::Duration;

use jiff::Timestamp;

use super::elapsed::elapsed;
use super::job_request::NodeVerb;
use super::machine_state::MachineState;
use super::snapshot::{JobPhase, MachineJob};
use mosb_api::rollout::{ExitCode, NodeTarget};
use mosb_reconcile::waits::NODE_JOB;

/// How far the newest Job of a verb is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum JobState {
    /// There is none.
    Missing,
    Running,
    Succeeded,
    Failed(JobFailure),
}

/// A Job that failed, or whose result does not count.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct JobFailure {
    pub number: u32,
    pub exit: Option<ExitCode>,
    pub message: String,
    pub at: Option<Timestamp>,
}

impl JobFailure {
    /// How long to wait before the next try; none if it may start now.
    pub fn wait(&self, now: Timestamp) -> Option<Duration> {
        let index = (self.number.max(1) as usize - 1).min(NODE_JOB.len() - 1);
        self.wait_for(NODE_JOB[index], now)
    }

    /// What is left of this time since the failure.
    pub fn wait_for(&self, pause: Duration, now: Timestamp) -> Option<Duration> {
        let since = elapsed(self.at?, now);
        pause.checked_sub(since).filter(|left| !left.is_zero())
    }
}

impl<'a> MachineState<'a> {
    /// The newest Job of this verb and target. A Job without a reboot has the image that the machine
    /// runs as that from which the target comes.
    pub fn job(&self, verb: NodeVerb, target: Option<&NodeTarget>) -> Option<&'a MachineJob> {
        let of_it = |job: &&MachineJob| {
            job.verb == verb
                && match (&job.target, target) {
                    (Some(of), Some(target)) if verb == NodeVerb::Part => {
                        of.is_same_to_machines(target)
                    }
                    (of, target) => of.as_ref() == target,
                }
        };
        self.jobs().filter(of_it).max_by_key(|job| job.number)
    }

    /// How far this Job is. A result of another boot, or that is not what the Job is for, is a
    /// failure.
    pub fn job_state(&self, job: Option<&MachineJob>) -> JobState {
        let Some(job) = job else {
            return JobState::Missing;
        };
        let failed = |exit, message: String, at| {
            JobState::Failed(JobFailure { number: job.number, exit, message, at })
        };
        match &job.phase {
            JobPhase::Running => JobState::Running,
            JobPhase::Failed { exit_code, message, report, .. } => {
                // What needed a reboot in another boot may not need one any more.
                let is_current = || report.as_ref().is_some_and(|report| self.is_current(report));
                let exit = exit_code.and_then(ExitCode::from_code);
                let exit = exit.filter(|exit| *exit != ExitCode::NeedsReboot || is_current());
                failed(exit, message.clone(), job.ended())
            }
            JobPhase::Succeeded(report) => {
                let ended = job.ended();
                let target = job.target.as_ref().map(|target| target.image.digest());
                let booted = report.booted.as_ref().and_then(|booted| booted.digest);
                let part = report.applied.as_ref().and_then(|applied| applied.machine_part);
                let has_part = job.target.as_ref().is_none_or(|target| target.accepts_part(part));
                let is_done = match job.verb {
                    NodeVerb::Report => true,
                    NodeVerb::Stage => {
                        let needs = job.target.as_ref().is_some_and(|it| self.needs_reboot(it));
                        booted == target && !needs || self.has_staged(job)
                    }
                    NodeVerb::Apply => booted == target && has_part,
                    NodeVerb::Part => job.target.as_ref().is_some_and(|it| report.has(it)),
                };
                if !self.is_of_this_boot(&report.boot_id) {
                    let text = format!(
                        "its result is of boot {:?}, and the node reports boot {:?}",
                        report.boot_id, self.machine.node.boot_id
                    );
                    failed(None, text, ended)
                } else if !self.is_current(report) {
                    failed(None, "its result is from before a soft reboot".to_owned(), ended)
                } else if job.verb == NodeVerb::Stage
                    && booted == target
                    && report.boots_other_next()
                {
                    failed(
                        None,
                        "it ended well, and another image is still what the machine boots next"
                            .to_owned(),
                        ended,
                    )
                } else if is_done {
                    JobState::Succeeded
                } else if booted == target {
                    let text = "it ended well without the machine part of the target";
                    failed(None, text.to_owned(), ended)
                } else {
                    failed(None, "it ended well without the target".to_owned(), ended)
                }
            }
        }
    }

    /// Whether it reported in this boot that it can't take on the machine part or the files of this
    /// target without a reboot.
    pub fn needs_reboot(&self, target: &NodeTarget) -> bool {
        let job = self.job_state(self.job(NodeVerb::Part, Some(target)));
        matches!(job, JobState::Failed(failure) if failure.exit == Some(ExitCode::NeedsReboot))
    }

    /// Why the pod of a running Job does not start, or that it does not end.
    pub fn job_waiting(&self, now: Timestamp) -> Option<String> {
        let mut running = self.jobs().filter(|job| job.phase == JobPhase::Running);
        running.find_map(|job| {
            let late = || "its Job does not end; see its pod in mosb-rollout".to_owned();
            let why = job.waiting.clone().or_else(|| job.is_overdue(now).then(late))?;
            Some(format!("{}: {why}", job.verb.as_str()))
        })
    }
}
