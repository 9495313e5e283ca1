//! What failed on as many machines as the policy permits, and machines that are brought back to what they
//! ran before. Pure.
//!
//! Invariant: a machine is brought back only from the target of the pool, only to an image of the pool, and
//! as any other: with a slot, within the windows, one drain and one reboot.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

use crate::context::Context;
use crate::decide::Machines;
use crate::job_request::{NodeJobRequest, NodeVerb};
use crate::machine_plan::MachinePlan;
use crate::machine_state::MachineState;
use crate::reason::{Blocked, TARGET_FAILED};
use crate::staging::{LimitedJobs, Tries, free_places, tries};
use mosb_api::rollout::{FailedTarget, History, HistoryEntry, NodeTarget, RolloutMode, SoakPhase};
use mosb_cluster::name_list::name_list;
use mosb_cluster::target::{by_image, recorded};
use mosb_image::Digest;

/// How many machines the record names: each has the text of its failure.
const MAX_NAMES: usize = 3;

impl Context<'_> {
    /// Why no machine gets the target any more.
    pub fn by_failed_target(&self, failed: &FailedTarget) -> Blocked {
        let (image, pool) = (&failed.target.image, &self.snapshot.pool.metadata.name);
        let message = format!(
            "{image} is brought to no other machine, because it failed: {}; bring a corrected image into service, or try it again with mosb rollout start {pool}",
            failed.message
        );
        Blocked { reason: TARGET_FAILED, message }
    }

    /// The record to write: the target failed on as many machines as the policy permits.
    pub fn new_failed_target(
        &self,
        machines: &Machines<'_>,
        plans: &[MachinePlan],
    ) -> Option<FailedTarget> {
        let (policy, target) = (self.policy()?, self.target()?);
        let failures = machines.iter().zip(plans).filter_map(|((state, _), plan)| {
            let soak = || self.soak_failure(state).or(plan.soak_failure.clone());
            let why = soak().or_else(|| {
                let left = self.left(state)?;
                Some(left.cause.unwrap_or_else(|| "it booted another image again".to_owned()))
            })?;
            Some(format!("{}: {why}", state.name()))
        });
        let failures: Vec<String> = failures.collect();
        if failures.len() < usize::from(policy.max_failures.get()) || self.failed_target.is_some() {
            return None;
        }
        let (target, at) = (target.clone(), Time(self.now));
        Some(FailedTarget { target, at, message: name_list(&failures, MAX_NAMES) })
    }

    /// What a machine is brought back to now, because its checks failed at the target that it runs.
    pub fn brings_back(&self, state: &MachineState<'_>) -> Option<NodeTarget> {
        let desired = self.desired_target()?;
        if desired.mode != RolloutMode::Automatic || self.snapshot.pool.spec.paused {
            return None;
        }
        let SoakPhase::Failed { back_to, .. } = self.soak_record(state)?.phase else {
            return None;
        };
        // A record that somebody else wrote could name any image.
        let back = back_to.filter(|back| self.may_run(back))?;
        (!state.has(&back)).then_some(back)
    }
}

/// What a machine ran before the target: its other deployment, or else what the machines of the pool ran
/// last. None if that is not an image of the pool.
pub(crate) fn back_to(
    ctx: &Context<'_>,
    state: &MachineState<'_>,
    target: &NodeTarget,
) -> Option<NodeTarget> {
    let config = ctx.snapshot.config.as_ref()?;
    let history = History::of(&config.metadata);
    let builds = &ctx.snapshot.builds;
    let of = |digest: Digest| {
        let mut entries = history.entries().iter().filter(|one| one.image.digest() == digest);
        let found = entries.find_map(|one| recorded(config, builds, one));
        let found = found.or_else(|| Some(by_image(config, builds, digest, None)?.1));
        found.filter(|found| ctx.may_run(found))
    };
    let is_other = |digest: &Digest| *digest != target.image.digest();
    let rollback = state.report.as_ref().and_then(|report| report.rollback.as_ref()?.digest);
    let ran = history.last_ran();
    let mut ran = ran.into_iter().map(|entry: &HistoryEntry| entry.image.digest());
    let rollback = rollback.filter(is_other).and_then(of);
    rollback.or_else(|| ran.find(is_other).and_then(of))
}

/// The Jobs that stage what machines are brought back to, as many as the limit of the registry allows.
pub(crate) fn bring_back_jobs(ctx: &Context<'_>, machines: &Machines<'_>) -> LimitedJobs {
    let mut due = Vec::new();
    let mut free = usize::MAX;
    for (state, _) in machines {
        let node = &state.machine.node;
        let may = !state.has_slot() && state.report.is_some() && node.ready;
        let Some(back) = ctx.brings_back(state).filter(|_| may && !state.is_being_deleted()) else {
            continue;
        };
        if state.staged.as_ref() == Some(&back) || state.has_no_tool() || state.is_part_changing() {
            continue;
        }
        if let Tries::Due(number) = tries(state, NodeVerb::Stage, Some(&back), ctx.now) {
            free = free.min(free_places(ctx, machines, back.image.repo().host()));
            let (verb, back) = (NodeVerb::Stage, Some(&back));
            due.push(NodeJobRequest::new(ctx.snapshot, state.machine, verb, back, number));
        }
    }
    LimitedJobs::of(due, free)
}
