//! Machines that booted their target and run another image again: their boot check, their boot loader
//! or a person went back. Such a machine failed at this target, whatever its last Job reported. Pure.
//!
//! Input: what the Node has of an earlier boot, its report and what was staged, and the newest report.
//! Output: the record of it on the Node, with the reason that the machine itself recorded. Invariant: a
//! machine is never rebooted into a target again that it left, unless a person asks for it.

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

use super::context::Context;
use super::job_request::NodeVerb;
use super::machine_state::MachineState;
use super::snapshot::JobPhase;
use mosb_api::labels;
use mosb_api::rollout::{Deployment, Fallback, NodeReport, NodeTarget};

impl MachineState<'_> {
    /// The record on its Node, of whatever target. One that can't be read counts as none.
    pub fn fallback_record(&self) -> Option<Fallback> {
        serde_json::from_str(self.machine.node.metadata.annotation(labels::NODE_FALLBACK)?).ok()
    }

    /// That this machine left this target by itself, with the reason that it recorded; none if it runs
    /// the target, or its boot check did not do that.
    pub fn went_back_from(&self, target: &NodeTarget, now: Timestamp) -> Option<Fallback> {
        let is_left = !self.runs(target.image.digest());
        let cause = self.own_cause(target).filter(|_| is_left)?;
        Some(Fallback { target: target.clone(), at: Time(now), cause: Some(cause) })
    }

    fn own_cause(&self, target: &NodeTarget) -> Option<String> {
        let left = self.report.as_ref()?.went_back.as_ref()?;
        (left.image == target.image.digest()).then(|| left.cause.clone())
    }

    /// That this machine fell back from this target. Its Node has the report of the boot before until the
    /// new one is written, in one patch with this record.
    fn fallback(&self, target: &NodeTarget, now: Timestamp) -> Option<Fallback> {
        let known = self.fallback_record().filter(|known| known.target.is_same_to_machines(target));
        if known.is_some() {
            return known;
        }
        let digest = |report: &NodeReport| report.booted.as_ref()?.digest;
        let before = self.machine.node.metadata.annotation(labels::NODE_REPORT);
        let before = before.and_then(|text| NodeReport::parse(text).ok());
        let is_unseen = self.has_fallen_unseen(target, before.as_ref());
        let ran = before.filter(|before| digest(before) == Some(target.image.digest()));
        // Into the target of its slot, which may be an earlier one than that of the pool.
        let is_brought =
            self.valid_slot().is_some_and(|slot| self.runs(slot.target.image.digest()));
        let has_fallen = ran.zip(self.report.as_ref()).is_some_and(|(before, report)| {
            before.user_space() != report.user_space()
                && report.booted.is_some()
                && digest(report) != digest(&before)
                && !is_brought
        });
        (has_fallen || is_unseen).then(|| Fallback {
            target: target.clone(),
            at: Time(now),
            cause: self.own_cause(target),
        })
    }

    /// Whether others rebooted it into this target and it went back before it reported that boot: what
    /// was staged in an earlier boot is a deployment now, and was not before. Without that, it lost
    /// power before the staged image was written. `before`: the report on its Node.
    fn has_fallen_unseen(&self, target: &NodeTarget, before: Option<&NodeReport>) -> bool {
        let is_it = |one: &Option<Deployment>| {
            one.as_ref().and_then(|one| one.digest) == Some(target.image.digest())
        };
        let Some(report) = self.report.as_ref().filter(|report| report.booted.is_some()) else {
            return false;
        };
        // In a slot, the `apply` Job reports it.
        if self.has_slot() || is_it(&report.booted) || !is_it(&report.rollback) {
            return false;
        }
        let mark = self.staged_annotation().filter(|mark| mark.target.is_same_to_machines(target));
        let by_mark = before.filter(|before| mark.is_some_and(|it| it.boot_id == before.boot_id));
        let by_jobs = self.jobs().filter_map(|job| match (job.verb, &job.phase) {
            (NodeVerb::Stage, JobPhase::Succeeded(report)) => Some(&**report),
            _ => None,
        });
        let mut staged = by_jobs.filter(|staged| is_it(&staged.staged)).chain(by_mark);
        staged.any(|one| one.user_space() != report.user_space() && !is_it(&one.rollback))
    }
}

impl Context<'_> {
    /// The record of a machine that fell back from the target once, whether it runs the target again
    /// or not.
    pub fn fallback(&self, state: &MachineState<'_>) -> Option<Fallback> {
        state.fallback(self.target()?, self.now)
    }

    /// Whether a machine does not get the target, because it fell back from it, until a person asks for
    /// that.
    pub fn is_held_back(&self, state: &MachineState<'_>) -> bool {
        self.left(state).is_some()
    }

    /// What a machine that fell back from the target and does not run it left.
    pub fn left(&self, state: &MachineState<'_>) -> Option<Fallback> {
        self.fallback(state).filter(|left| !state.runs(left.target.image.digest()))
    }

    /// Why a machine counts as degraded although its Jobs ended well.
    pub fn fallback_text(&self, state: &MachineState<'_>) -> Option<String> {
        Some(self.left_text(&self.left(state)?))
    }

    /// That a machine left this target, and what a person can do.
    pub fn left_text(&self, left: &Fallback) -> String {
        let image = &left.target.image;
        let what = match &left.cause {
            Some(cause) => format!("it booted {image} and went back by itself: {cause}"),
            None => format!("it booted {image} and then another image"),
        };
        format!(
            "{what}; it does not get it again; repair the machine and run mosb rollout start {}, or bring a corrected image into service",
            self.snapshot.pool.metadata.name
        )
    }
}
