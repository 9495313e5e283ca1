//! Machines that booted their target and run another image again: their health check, their boot
//! loader or a person went back. Such a machine failed at this target, whatever its last Job reported.
//! Pure.
//!
//! Input: what the Node has of an earlier boot, its report and what was staged, and the newest report.
//! Output: the record of it on the Node, and when the machine may get the target again. Invariant: a
//! machine is rebooted into one target at most [`MAX_FALLBACKS`] times after it was there, with pauses,
//! unless a person asks for more.

use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

use super::context::Context;
use super::job_request::NodeVerb;
use super::machine_state::MachineState;
use super::slot_phase::pause;
use super::snapshot::JobPhase;
use mosb_api::labels;
use mosb_api::rollout::{Deployment, Fallback, NodeReport, NodeTarget};

/// How often a machine may fall back from a target: then it does not get it again.
const MAX_FALLBACKS: u32 = 3;

/// What a machine that fell back from the target waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum FallbackWait {
    /// It may get the target again.
    Over,
    For(Duration),
    /// A person must ask for it.
    Final,
}

impl MachineState<'_> {
    /// The record on its Node, of whatever target. One that can't be read counts as none.
    pub fn fallback_record(&self) -> Option<Fallback> {
        serde_json::from_str(self.machine.node.metadata.annotation(labels::NODE_FALLBACK)?).ok()
    }

    /// How often this machine fell back from this target. Its Node has the report of the boot before
    /// until the new one is written, in one patch with this record.
    fn fallback(&self, target: &NodeTarget, now: Timestamp) -> Option<Fallback> {
        let known = self.fallback_record().filter(|known| known.target.is_same_to_machines(target));
        // A time that is yet to come is of another controller's clock.
        let known = known.map(|known| Fallback { at: Time(known.at.0.min(now)), ..known });
        let digest = |report: &NodeReport| report.booted.as_ref()?.digest;
        let before = self.machine.node.metadata.annotation(labels::NODE_REPORT);
        let before = before.and_then(|text| NodeReport::parse(text).ok());
        let is_unseen = self.has_fallen_unseen(target, before.as_ref(), known.is_some());
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
        if !has_fallen && !is_unseen {
            return known;
        }
        let times = known.map_or(0, |known| known.times).saturating_add(1);
        Some(Fallback { target: target.clone(), at: Time(now), times })
    }

    /// Whether others rebooted it into this target and it went back before it reported that boot: what
    /// was staged in an earlier boot is a deployment now, and was not before. Without that, it lost
    /// power before the staged image was written. `before`: the report on its Node.
    fn has_fallen_unseen(
        &self,
        target: &NodeTarget,
        before: Option<&NodeReport>,
        is_known: bool,
    ) -> bool {
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
        staged.any(|one| {
            one.user_space() != report.user_space() && (is_known || !is_it(&one.rollback))
        })
    }
}

impl Context<'_> {
    /// The record of a machine that fell back from the target once, whether it runs the target again
    /// or not.
    pub fn fallback(&self, state: &MachineState<'_>) -> Option<Fallback> {
        state.fallback(self.target()?, self.now)
    }

    /// What a machine that fell back from the target and does not run it waits for.
    pub fn fallback_wait(&self, state: &MachineState<'_>) -> Option<FallbackWait> {
        let fallback = self.fallback(state)?;
        if state.runs(fallback.target.image.digest()) {
            return None;
        }
        Some(if fallback.times >= MAX_FALLBACKS {
            FallbackWait::Final
        } else {
            let left = pause(fallback.times, fallback.at.0, self.now);
            left.map_or(FallbackWait::Over, FallbackWait::For)
        })
    }

    /// Whether a machine does not get the target now, because it fell back from it.
    pub fn is_held_back(&self, state: &MachineState<'_>) -> bool {
        matches!(self.fallback_wait(state), Some(FallbackWait::For(_) | FallbackWait::Final))
    }

    /// Why a machine counts as degraded although its Jobs ended well.
    pub fn fallback_text(&self, state: &MachineState<'_>) -> Option<String> {
        let wait = self.fallback_wait(state)?;
        let Fallback { target, times, .. } = self.fallback(state)?;
        let image = &target.image;
        let next = match wait {
            FallbackWait::Over | FallbackWait::For(_) => {
                "it gets it again after a pause".to_owned()
            }
            FallbackWait::Final => format!(
                "it does not get it again; repair the machine and run mosb rollout start {}, or bring a corrected image into service",
                self.snapshot.pool.metadata.name
            ),
        };
        Some(format!(
            "it booted {image} and then another image, {times} of {MAX_FALLBACKS} times: {next}"
        ))
    }
}
