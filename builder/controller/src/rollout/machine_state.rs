//! The state of one machine, read from its node object, its marks and the Jobs on it alone.
//!
//! Input: a [`Machine`]. Output: what it runs and has staged in this boot, its slot, and how far
//! the Jobs on it are. Invariant: a report or mark of an earlier boot counts for nothing.

use std::time::Duration;

use jiff::Timestamp;

use super::job_request::NodeVerb;
use super::snapshot::{JobPhase, Machine, MachineJob};
use crate::workload::has_control_plane_label;
use mosb_image::{Digest, Platform};
use mosb_plan::api::labels;
use mosb_plan::api::rollout::{ExitCode, NodeReport, NodeTarget, Slot, StagedMark};

/// Waits between tries of `stage` and `report`, by the number of failed tries; then the last one.
const BACK_OFF: [Duration; 4] = [
    Duration::from_secs(60),
    Duration::from_secs(2 * 60),
    Duration::from_secs(5 * 60),
    Duration::from_secs(10 * 60),
];

/// What a machine runs and does.
#[derive(Debug, Clone)]
pub(super) struct MachineState<'a> {
    pub machine: &'a Machine,
    /// The newest report of this boot.
    pub report: Option<NodeReport>,
    /// The target that is staged in this boot.
    pub staged: Option<NodeTarget>,
    pub slot: SlotMark,
}

/// The annotation `mosb.dev/slot`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum SlotMark {
    None,
    Valid(Box<Slot>),
    /// Somebody else wrote it. It counts as a slot until an administrator removes it.
    Unreadable,
}

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
        let index = (self.number.max(1) as usize - 1).min(BACK_OFF.len() - 1);
        self.wait_for(BACK_OFF[index], now)
    }

    /// What is left of this time since the failure.
    pub fn wait_for(&self, pause: Duration, now: Timestamp) -> Option<Duration> {
        let since = elapsed(self.at?, now);
        pause.checked_sub(since).filter(|left| !left.is_zero())
    }
}

/// The time between two moments; zero if the second one is earlier.
pub(super) fn elapsed(since: Timestamp, now: Timestamp) -> Duration {
    Duration::try_from(now.duration_since(since)).unwrap_or_default()
}

impl<'a> MachineState<'a> {
    pub fn of(machine: &'a Machine) -> Self {
        let mut state = Self { machine, report: None, staged: None, slot: slot(machine) };
        state.report = state.newest_report();
        state.staged = state.newest_staged();
        state
    }

    pub fn name(&self) -> &'a str {
        &self.machine.metadata.name
    }

    /// Jobs for this very Node object, and not being deleted.
    pub fn jobs(&self) -> impl Iterator<Item = &'a MachineJob> {
        let uid = self.machine.metadata.uid();
        self.machine.jobs.iter().filter(move |job| job.node_uid == uid && !job.deleting)
    }

    fn newest_report(&self) -> Option<NodeReport> {
        let of_jobs = self.jobs().filter_map(|job| {
            let (is_success, report) = match &job.phase {
                JobPhase::Running => return None,
                JobPhase::Succeeded(report) => (true, report),
                JobPhase::Failed { report, .. } => (false, report.as_ref()?),
            };
            let created = job.created.as_ref().map(|time| time.0);
            self.is_of_this_boot(&report.boot_id).then_some(((created, is_success), &**report))
        });
        let newest = of_jobs.max_by_key(|(order, _)| *order).map(|(_, report)| report.clone());
        newest.or_else(|| {
            let text = self.machine.metadata.annotation(labels::NODE_REPORT)?;
            // One that can't be read counts as none: the machine is asked again.
            let report = NodeReport::parse(text).ok()?;
            self.is_of_this_boot(&report.boot_id).then_some(report)
        })
    }

    fn newest_staged(&self) -> Option<NodeTarget> {
        let by_job = self.jobs().filter(|job| self.has_staged(job)).max_by_key(|job| &job.created);
        if let Some(job) = by_job {
            return job.target.clone();
        }
        let text = self.machine.metadata.annotation(labels::NODE_STAGED)?;
        // One that can't be read counts as none: it is staged again.
        let mark: StagedMark = serde_json::from_str(text).ok()?;
        self.is_of_this_boot(&mark.boot_id).then_some(mark.target)
    }

    /// Whether a Job staged its target in this boot.
    pub fn has_staged(&self, job: &MachineJob) -> bool {
        let (NodeVerb::Stage, JobPhase::Succeeded(report)) = (job.verb, &job.phase) else {
            return false;
        };
        let staged = report.staged.as_ref().and_then(|staged| staged.digest);
        let target = job.target.as_ref().map(|target| target.image.digest());
        self.is_of_this_boot(&report.boot_id) && staged.is_some() && staged == target
    }

    fn is_of_this_boot(&self, boot_id: &str) -> bool {
        !boot_id.is_empty() && self.machine.boot_id == boot_id
    }

    /// The digest of the image that it booted.
    pub fn booted(&self) -> Option<Digest> {
        self.report.as_ref()?.booted.as_ref()?.digest
    }

    pub fn runs(&self, digest: Digest) -> bool {
        self.booted() == Some(digest)
    }

    /// Whether it reported that it has no tool that changes its image.
    pub fn has_no_tool(&self) -> bool {
        self.report.as_ref().is_some_and(|report| report.tool.is_none())
    }

    pub fn valid_slot(&self) -> Option<&Slot> {
        match &self.slot {
            SlotMark::Valid(slot) => Some(slot),
            SlotMark::None | SlotMark::Unreadable => None,
        }
    }

    pub fn has_slot(&self) -> bool {
        self.slot != SlotMark::None
    }

    /// Whether pods can be scheduled on it and run, as the Machine Config Operator counts it.
    pub fn is_available(&self) -> bool {
        let machine = self.machine;
        machine.ready
            && !machine.disk_pressure
            && !machine.network_unavailable
            && !machine.unschedulable
    }

    pub fn is_being_deleted(&self) -> bool {
        self.machine.metadata.is_being_deleted()
    }

    pub fn is_control_plane(&self) -> bool {
        has_control_plane_label(&self.machine.metadata.labels)
    }

    pub fn platform(&self) -> Option<Platform> {
        let label = |key: &str| self.machine.metadata.labels.get(key);
        let (os, architecture) = (label("kubernetes.io/os")?, label("kubernetes.io/arch")?);
        Platform::new(os, architecture, None).ok()
    }

    /// The newest Job of this verb and target.
    pub fn job(&self, verb: NodeVerb, target: Option<&NodeTarget>) -> Option<&'a MachineJob> {
        let of_it = |job: &&MachineJob| job.verb == verb && job.target.as_ref() == target;
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
            JobPhase::Failed { exit_code, message, at, .. } => {
                let at = at.as_ref().or(job.created.as_ref()).map(|time| time.0);
                failed(exit_code.and_then(ExitCode::from_code), message.clone(), at)
            }
            JobPhase::Succeeded(report) => {
                let created = job.created.as_ref().map(|time| time.0);
                let target = job.target.as_ref().map(|target| target.image.digest());
                let booted = report.booted.as_ref().and_then(|booted| booted.digest);
                if !self.is_of_this_boot(&report.boot_id) {
                    let text = format!(
                        "its result is of boot {:?}, and the node reports boot {:?}",
                        report.boot_id, self.machine.boot_id
                    );
                    failed(None, text, created)
                } else if job.verb == NodeVerb::Report || booted == target || self.has_staged(job) {
                    JobState::Succeeded
                } else {
                    failed(None, "it ended well without the target".to_owned(), created)
                }
            }
        }
    }

    /// Whether a Job runs that will report.
    pub fn has_running_job(&self) -> bool {
        self.jobs().any(|job| job.phase == JobPhase::Running)
    }
}

fn slot(machine: &Machine) -> SlotMark {
    match machine.metadata.annotation(labels::NODE_SLOT).map(serde_json::from_str) {
        None => SlotMark::None,
        Some(Ok(slot)) => SlotMark::Valid(Box::new(slot)),
        Some(Err(_)) => SlotMark::Unreadable,
    }
}
