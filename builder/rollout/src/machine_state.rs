//! The state of one machine, read from its node object, its annotations and the Jobs on it alone.
//!
//! Input: a [`Machine`]. Output: what it runs and has staged in this boot, and its slot. Invariant:
//! a report or annotation of an earlier boot counts for nothing, and neither does one of a boot whose checks
//! have not ended. The Node has the boot of the kernel; a soft reboot begins another user space in it, which
//! only reports show.

use jiff::Timestamp;

use super::job_request::NodeVerb;
use super::snapshot::{JobPhase, Machine, MachineJob};
use mosb_api::labels;
use mosb_api::rollout::{
    ConfirmedTarget, ExitCode, NodeReport, NodeTarget, Slot, SoftReboot, StagedMark,
};
use mosb_cluster::node_pool::may_run_etcd;
use mosb_image::{Digest, Platform};

/// Why the roll-out can leave a machine without a way back.
pub(super) const BOOT_FULL: &str = "/boot has no space for the staged kernel beside the others, so ostree deletes the way back before it writes that; to keep it, clean up /boot";

/// What a machine runs and does.
#[derive(Debug, Clone)]
pub(super) struct MachineState<'a> {
    pub machine: &'a Machine,
    /// The newest report of this boot.
    pub report: Option<NodeReport>,
    /// The target that is staged in this boot.
    pub staged: Option<NodeTarget>,
    pub slot: SlotAnnotation,
}

/// The annotation `mosb.dev/slot`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum SlotAnnotation {
    None,
    Valid(Box<Slot>),
    /// Somebody else wrote it. It counts as a slot until an administrator removes it.
    Unreadable,
}

impl<'a> MachineState<'a> {
    pub fn of(machine: &'a Machine) -> Self {
        let mut state = Self { machine, report: None, staged: None, slot: slot(machine) };
        state.report = state.newest_report();
        // What was staged and is not any more, by the newest report, counts for nothing.
        let reported = state.report.as_ref().and_then(|report| report.staged.as_ref()?.digest);
        let staged = state.newest_staged();
        state.staged = staged.filter(|target| reported == Some(target.image.digest()));
        state
    }

    /// Times of its slot that are yet to come are of another controller's clock, and count as now.
    /// Returns whether there are any.
    pub fn clamp_slot(&mut self, now: Timestamp) -> bool {
        let SlotAnnotation::Valid(slot) = &mut self.slot else {
            return false;
        };
        let Slot { since, applying, failure, .. } = &mut **slot;
        let records = applying.as_mut().map(|record| &mut record.since);
        let records = records.into_iter().chain(failure.as_mut().map(|failure| &mut failure.at));
        let mut is_late = false;
        for time in [since].into_iter().chain(records).filter(|time| time.0 > now) {
            (time.0, is_late) = (now, true);
        }
        is_late
    }

    pub fn name(&self) -> &'a str {
        &self.machine.node.metadata.name
    }

    /// Jobs for this very Node object, and not being deleted.
    pub fn jobs(&self) -> impl Iterator<Item = &'a MachineJob> {
        let uid = self.machine.node.metadata.uid();
        self.machine.jobs.iter().filter(move |job| job.node_uid == uid && !job.deleting)
    }

    /// Jobs that take places of limits.
    pub fn jobs_in_place(&self, now: Timestamp) -> impl Iterator<Item = &'a MachineJob> {
        let is_ready = self.machine.node.ready;
        self.jobs().filter(move |job| job.takes_place(is_ready, now))
    }

    fn newest_report(&self) -> Option<NodeReport> {
        let of_jobs = self.jobs().filter_map(|job| {
            let (is_success, report) = match &job.phase {
                JobPhase::Running => return None,
                JobPhase::Succeeded(report) => (true, report),
                JobPhase::Failed { report, .. } => (false, report.as_ref()?),
            };
            // The machine may leave what it booted. A Job that ends later reports what it runs.
            if report.unchecked {
                return None;
            }
            let created = job.created.as_ref().map(|time| time.0);
            let order = (report.user_space_since, true, created, is_success);
            self.is_of_this_boot(&report.boot_id).then(|| (order, NodeReport::clone(report)))
        });
        let of_node = || {
            let text = self.machine.node.metadata.annotation(labels::NODE_REPORT)?;
            // One that can't be read counts as none: the machine is asked again.
            let report = NodeReport::parse(text).ok()?;
            let order = (report.user_space_since, false, None, true);
            self.is_of_this_boot(&report.boot_id).then_some((order, report))
        };
        let newest = of_jobs.chain(of_node()).max_by_key(|(order, _)| *order);
        newest.map(|(_, report)| report)
    }

    fn newest_staged(&self) -> Option<NodeTarget> {
        let by_job = self.jobs().filter(|job| self.has_staged(job)).max_by_key(|job| &job.created);
        if let Some(job) = by_job {
            return job.target.clone();
        }
        let mark = self.staged_annotation()?;
        self.is_of_this_boot(&mark.boot_id).then_some(mark.target)
    }

    /// What is staged by its annotation, also if that was in an earlier boot. One that can't be read counts as
    /// none: it is staged again.
    pub fn staged_annotation(&self) -> Option<StagedMark> {
        let text = self.machine.node.metadata.annotation(labels::NODE_STAGED)?;
        serde_json::from_str(text).ok()
    }

    /// What it ran well last. One that can't be read counts as none.
    pub fn confirmed(&self) -> Option<ConfirmedTarget> {
        let text = self.machine.node.metadata.annotation(labels::NODE_CONFIRMED)?;
        serde_json::from_str(text).ok()
    }

    /// Whether a Job staged its target in this boot.
    pub fn has_staged(&self, job: &MachineJob) -> bool {
        let (NodeVerb::Stage, JobPhase::Succeeded(report)) = (job.verb, &job.phase) else {
            return false;
        };
        let staged = report.staged.as_ref().and_then(|staged| staged.digest);
        let target = job.target.as_ref().map(|target| target.image.digest());
        self.is_current(report) && staged.is_some() && staged == target
    }

    /// Whether a report is of the user space that runs, as far as reports show it.
    pub fn is_current(&self, report: &NodeReport) -> bool {
        let newest = self.report.as_ref().map_or(0, |newest| newest.user_space_since);
        self.is_of_this_boot(&report.boot_id) && report.user_space_since >= newest
    }

    pub fn is_of_this_boot(&self, boot_id: &str) -> bool {
        !boot_id.is_empty() && self.machine.node.boot_id == boot_id
    }

    /// The digest of the image that it booted.
    pub fn booted(&self) -> Option<Digest> {
        self.report.as_ref()?.booted.as_ref()?.digest
    }

    pub fn runs(&self, digest: Digest) -> bool {
        self.booted() == Some(digest)
    }

    /// The digest of the image that it has: booted, or live and staged. None while a Job may be
    /// changing its files, and after one that failed to.
    pub fn effective_image(&self) -> Option<Digest> {
        self.report.as_ref()?.effective_image().filter(|_| !self.is_live_unknown())
    }

    /// The target whose files it has while it runs another image.
    pub fn live(&self) -> Option<&NodeTarget> {
        self.report.as_ref()?.live()
    }

    /// How it rebooted into the image that it runs, if it was allowed to leave its kernel running.
    pub fn soft_reboot(&self) -> Option<&SoftReboot> {
        let report = self.report.as_ref()?;
        let runs = |applied: &NodeTarget| self.runs(applied.image.digest());
        report.soft_reboot.as_ref().filter(|_| report.applied.as_ref().is_some_and(runs))
    }

    /// How many files of its image it hides, if it reported that.
    pub fn hidden_files(&self) -> Option<usize> {
        Some(self.report.as_ref()?.etc.as_ref()?.hidden.count)
    }

    /// Whether [`BOOT_FULL`] holds for what is staged.
    pub fn is_boot_full(&self) -> bool {
        self.report.as_ref().is_some_and(|report| report.boot_full)
    }

    /// Whether the machine may have some files only of an image that it did not boot.
    pub fn is_live_unknown(&self) -> bool {
        self.report.as_ref().is_some_and(|report| report.live_incomplete)
            || self.has_unfinished_live_job()
    }

    /// Whether the newest Job that changes files of the running machine has not ended well, so that
    /// the machine may have some of them, whatever the last report is. One that found that a reboot is
    /// needed changed nothing.
    pub fn has_unfinished_live_job(&self) -> bool {
        // Of two in one second, the one that failed came before.
        let order = |job: &&MachineJob| {
            (job.created.clone(), !matches!(job.phase, JobPhase::Failed { .. }))
        };
        let newest = self.part_jobs().max_by_key(order);
        newest.is_some_and(|job| {
            let is_live = |target: &NodeTarget| !self.runs(target.image.digest());
            let is_live = self.live().is_some() || job.target.as_ref().is_some_and(is_live);
            is_live
                && match &job.phase {
                    JobPhase::Running => true,
                    JobPhase::Succeeded(_) => false,
                    JobPhase::Failed { exit_code, .. } => {
                        exit_code.and_then(ExitCode::from_code) != Some(ExitCode::NeedsReboot)
                    }
                }
        })
    }

    /// The digest of the machine part that was brought to it last; none if none was, or if a Job may be
    /// changing it.
    pub fn machine_part(&self) -> Option<Digest> {
        if self.is_part_changing() {
            return None;
        }
        self.report.as_ref()?.applied.as_ref()?.machine_part
    }

    /// Whether a Job without a slot may be bringing a machine part, so that the last report of it is
    /// no longer true.
    pub fn is_part_changing(&self) -> bool {
        self.part_jobs().any(|job| job.phase == JobPhase::Running)
    }

    /// Whether a Job without a slot brings a machine part, or has ended.
    pub fn has_part_job(&self) -> bool {
        self.part_jobs().next().is_some()
    }

    /// Without its login, a Job has not begun.
    fn part_jobs(&self) -> impl Iterator<Item = &'a MachineJob> {
        self.jobs().filter(|job| job.verb == NodeVerb::Part && job.has_login)
    }

    /// Whether it has the image of this target and its machine part. With a target that has none, the
    /// machine keeps what it has.
    pub fn has(&self, target: &NodeTarget) -> bool {
        self.effective_image() == Some(target.image.digest())
            && target.accepts_part(self.machine_part())
    }

    /// Whether it runs the image of this target, and something else is staged: then any reboot boots
    /// that.
    pub fn is_to_unstage(&self, target: &NodeTarget) -> bool {
        let is_other = || self.staged.as_ref().is_some_and(|staged| !self.has(staged));
        self.runs(target.image.digest())
            && self.report.as_ref().is_some_and(NodeReport::boots_other_next)
            || self.has(target) && is_other()
    }

    /// The number of the next attempt to boot this target.
    pub fn next_attempt(&self, target: &NodeTarget) -> u32 {
        let attempted = self.report.as_ref().and_then(|report| report.attempted.as_ref());
        let last = attempted.filter(|last| last.target == *target).map_or(0, |last| last.attempt);
        last.saturating_add(1)
    }

    /// Whether it reported that it has no tool that changes its image.
    pub fn has_no_tool(&self) -> bool {
        self.report.as_ref().is_some_and(|report| report.tool.is_none())
    }

    pub fn valid_slot(&self) -> Option<&Slot> {
        match &self.slot {
            SlotAnnotation::Valid(slot) => Some(slot),
            SlotAnnotation::None | SlotAnnotation::Unreadable => None,
        }
    }

    pub fn has_slot(&self) -> bool {
        self.slot != SlotAnnotation::None
    }

    /// Whether pods can be scheduled on it and run, as the Machine Config Operator counts it.
    pub fn is_available(&self) -> bool {
        self.machine.node.obstacle().is_none()
    }

    pub fn is_being_deleted(&self) -> bool {
        self.machine.node.metadata.is_being_deleted()
    }

    /// Whether the control plane, with its etcd, may lose a member with this machine.
    pub fn is_control_plane(&self) -> bool {
        may_run_etcd(&self.machine.node.metadata.labels)
    }

    pub fn platform(&self) -> Option<Platform> {
        let label = |key: &str| self.machine.node.metadata.labels.get(key);
        let (os, architecture) = (label("kubernetes.io/os")?, label("kubernetes.io/arch")?);
        Platform::new(os, architecture, None).ok()
    }
}

fn slot(machine: &Machine) -> SlotAnnotation {
    match machine.node.metadata.annotation(labels::NODE_SLOT).map(serde_json::from_str) {
        None => SlotAnnotation::None,
        Some(Ok(slot)) => SlotAnnotation::Valid(Box::new(slot)),
        Some(Err(_)) => SlotAnnotation::Unreadable,
    }
}
