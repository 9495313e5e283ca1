//! Decides what to do about the machines of a pool. Pure: a snapshot gives lookups or actions.

use std::collections::BTreeMap;
use std::time::Duration;

use jiff::Timestamp;
use serde_json::json;

use super::context::Context;
use super::desired_target::Desired;
use super::effect::{Action, RolloutEffect};
use super::job_request::NodeJobRequest;
use super::lookup::{RolloutLookup, TargetImage};
use super::machine_part::machine_part_changed;
use super::machine_plan::{MachinePlan, next_try};
use super::machine_state::MachineState;
use super::part_jobs::PartJobs;
use super::policy::{Gates, bring_back_jobs};
use super::pool_status::PoolStatus;
use super::reason::{Blocked, RolloutReason};
use super::slot_phase::SlotPhase;
use super::snapshot::RolloutSnapshot;
use super::staging::LimitedJobs;
use super::{
    config_annotations, leaving_configs, obsolete_jobs, part_jobs, pool_conditions, staging,
};
use mosb_api::rollout::FailedTarget;
use mosb_cluster::kinds;
use mosb_cluster::object;
use mosb_reconcile::Problem;
use mosb_reconcile::driver::Decision;
use mosb_reconcile::waits::{ROLLOUT_PROBLEM, ROLLOUT_WATCH};
use mosb_reconcile::write::NewStatus;
use mosb_types::ErrorClass;

/// What to do about the machines of a pool.
pub type RolloutDecision = Decision<RolloutLookup, RolloutReason, RolloutEffect>;

/// How often machines that are on their way, and Jobs, are checked against their time limits.
const TIMEOUT_CHECK: Duration = Duration::from_secs(60);

/// A decision, and where the roll-out stands.
#[derive(Debug)]
pub(super) struct RolloutEvaluation {
    pub decision: RolloutDecision,
    /// None while facts are looked up, and for a pool that is not rolled out.
    pub status: Option<PoolStatus>,
}

impl From<RolloutDecision> for RolloutEvaluation {
    fn from(decision: RolloutDecision) -> Self {
        Self { decision, status: None }
    }
}

/// All changes, in order. Pure: the same snapshot and time give the same actions.
pub fn decide(snapshot: &RolloutSnapshot, now: Timestamp) -> RolloutDecision {
    evaluate(snapshot, now).decision
}

/// The decision with the status of the pool.
pub(super) fn evaluate(snapshot: &RolloutSnapshot, now: Timestamp) -> RolloutEvaluation {
    if let Some(who) = &snapshot.other_controller {
        let with_slot = snapshot.machines.iter().filter(|one| MachineState::of(one).has_slot());
        let held = with_slot.map(|machine| machine.node.metadata.name.clone()).collect();
        let reason = RolloutReason::OtherController { who: who.clone(), held };
        return Decision::unchanged(reason).into();
    }
    // A pool that is not seen is missing only if the watch works.
    if let Some(watch) = snapshot.cluster.broken_watch.as_ref().filter(|_| snapshot.is_pool_missing)
    {
        let message = Problem::of_watch(watch).message;
        let reason = RolloutReason::Blocked(Blocked { reason: "WatchFailed", message });
        let requeue_after = Some(ROLLOUT_WATCH);
        return RolloutDecision { requeue_after, ..Decision::unchanged(reason) }.into();
    }
    let mut found = evaluate_pool(snapshot, now);
    if found.decision.lookups.is_empty() {
        found.decision.actions.splice(0..0, leaving_configs::actions(snapshot));
    }
    found
}

fn evaluate_pool(snapshot: &RolloutSnapshot, now: Timestamp) -> RolloutEvaluation {
    let desired = Desired::of(snapshot);
    if let Desired::LookUp(lookup) = &desired {
        return Decision::looking_up(lookup.clone(), RolloutReason::LookingUp).into();
    }
    let ctx = Context::new(snapshot, &desired, now);
    if !ctx.is_used() {
        return Decision::of(RolloutReason::Off, obsolete_jobs::left_behind(snapshot)).into();
    }
    Pass::of(&ctx).evaluation()
}

pub(super) type Machines<'a> = Vec<(MachineState<'a>, Option<SlotPhase>)>;

/// What becomes a decision.
pub(super) struct Pass<'a> {
    pub ctx: &'a Context<'a>,
    pub machines: Machines<'a>,
    pub plans: Vec<MachinePlan>,
    pub lookups: Vec<RolloutLookup>,
    /// Of a pool with a policy and a target.
    pub gates: Option<Gates>,
    /// Machines that the policy holds back, although their ring and the window are open, and why.
    pub held: BTreeMap<String, String>,
    /// The record that the target failed, which this pass writes.
    failed_target: Option<FailedTarget>,
    blocked: Option<Blocked>,
    requeue_after: Option<Duration>,
}

impl<'a> Pass<'a> {
    fn of(ctx: &'a Context<'a>) -> Self {
        let timeout = ctx.snapshot.settings.node_timeout;
        let machines = ctx.snapshot.machines.iter().map(|machine| {
            let mut state = MachineState::of(machine);
            state.clamp_slot(ctx.now);
            let phase =
                state.valid_slot().map(|slot| SlotPhase::of(&state, slot, timeout, ctx.now));
            (state, phase)
        });
        let machines: Machines<'a> = machines.collect();
        let plans =
            machines.iter().map(|(state, phase)| MachinePlan::of(ctx, state, phase.as_ref()));
        let plans: Vec<MachinePlan> = plans.collect();
        let lookups = plans.iter().flat_map(|plan| plan.lookups.iter().cloned()).collect();
        let blocked = ctx.blocked();
        let mut pass = Self {
            gates: ctx.target().and_then(|target| Gates::of(ctx, &machines, target)),
            held: BTreeMap::new(),
            failed_target: ctx.new_failed_target(&machines, &plans),
            ctx,
            machines,
            plans,
            lookups,
            blocked,
            requeue_after: None,
        };
        if let Some(failed) = &pass.failed_target {
            let Blocked { reason, message } = ctx.by_failed_target(failed);
            pass.block(reason, message, None);
        }
        pass.requeue();
        pass
    }

    fn evaluation(mut self) -> RolloutEvaluation {
        let mut back = Vec::new();
        let mut back_jobs = Vec::new();
        if self.ctx.may_create_jobs() {
            let found = bring_back_jobs(self.ctx, &self.machines);
            (back, back_jobs) = (self.choose_back(), self.begin(found));
        }
        let may_begin = self.ctx.may_create_jobs() && self.failed_target.is_none();
        let (mut given, (mut removals, mut jobs), mut parts) = if may_begin {
            // Both kinds of slots count for one limit, and both kinds of Jobs.
            let given = if back.is_empty() { self.choose_slots() } else { Vec::new() };
            let staged = if back_jobs.is_empty() { self.stage_jobs() } else { Default::default() };
            (given, staged, self.part_jobs())
        } else {
            (Vec::new(), (Vec::new(), Vec::new()), Vec::new())
        };
        let begins =
            |given: &[String], jobs: &[NodeJobRequest]| !given.is_empty() || !jobs.is_empty();
        let asks_registry = begins(&given, &jobs);
        if (asks_registry || begins(&[], &removals) || begins(&[], &parts))
            && self.may_bring_part() == Some(false)
        {
            (given, removals, jobs, parts) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
        }
        let results = &self.ctx.snapshot.lookup_results;
        match (self.ctx.target(), self.ctx.target_image()) {
            (None, _) => {}
            (Some(target), None) if asks_registry => {
                let lookup = RolloutLookup::Image(target.image.clone());
                if results.awaits(&lookup) {
                    // What is under way goes on, and the rest begins with the answer.
                    (given, jobs) = (Vec::new(), Vec::new());
                } else {
                    self.lookups.push(lookup);
                }
            }
            (Some(target), Some(TargetImage::Missing)) => {
                let message = format!(
                    "{}: the registry has no such image; rebuild the pool, or pin another build",
                    target.image
                );
                self.block("ImageMissing", message, Some(ROLLOUT_PROBLEM));
                (given, jobs) = (Vec::new(), Vec::new());
            }
            (Some(_), Some(TargetImage::Unknown(problem))) => {
                let is_away = problem.class == ErrorClass::Transient;
                // What is staged was confirmed before, and is on the machine.
                if !is_away || !jobs.is_empty() {
                    let reason = match &*problem.reason {
                        "push-login" => "PushLogin",
                        _ => "RegistryFailed",
                    };
                    self.block(reason, problem.message.clone(), Some(ROLLOUT_PROBLEM));
                }
                jobs.clear();
                if !is_away {
                    given.clear();
                }
            }
            (Some(_), None | Some(TargetImage::Present { .. })) => {}
        }
        if !self.lookups.is_empty() {
            let mut decision = Decision::unchanged(RolloutReason::LookingUp);
            decision.lookups = self.lookups;
            return decision.into();
        }
        if let Some(target) = self.ctx.rolls_to() {
            given.iter().for_each(|name| self.give_slot(name, target));
        }
        for (name, target) in &back {
            self.give_slot(name, target);
        }
        if self.ctx.may_create_jobs() {
            self.explain_waits(&given);
        }
        // These cost their machines only, so what stops the others comes before.
        let refused = Blocked::by_refused(&self.ctx.snapshot.refused_writes);
        self.again(refused.as_ref().map(|_| ROLLOUT_PROBLEM));
        let of_some = refused.or_else(|| Blocked::by_shared_nodes(self.ctx.snapshot));
        let of_some = of_some.or_else(|| self.by_late_drains());
        self.blocked = self.blocked.take().or(of_some);
        let reports =
            self.ctx.is_observed() || self.machines.iter().any(|(state, _)| state.has_slot());
        if reports && self.ctx.may_create_jobs() {
            let found = staging::report_jobs(self.ctx.snapshot, &self.machines, self.ctx.now);
            jobs.extend(self.begin(found));
        }
        jobs.extend(removals.into_iter().chain(parts).chain(back_jobs));
        self.actions(jobs)
    }

    fn actions(mut self, jobs: Vec<NodeJobRequest>) -> RolloutEvaluation {
        let ctx = self.ctx;
        let machines = self.machines.iter().zip(&self.plans);
        let machines =
            machines.map(|((state, phase), plan)| plan.status(ctx, state, phase.as_ref()));
        let mut status = PoolStatus::new(ctx, machines.collect(), self.blocked.take());
        status.ring = self.gates.as_ref().map(Gates::ring);
        status.next_window = self.gates.as_ref().and_then(Gates::next_window);
        // More machines may have come unseen.
        let is_seen = ctx.snapshot.cluster.broken_watch.is_none();
        let is_clean = status.is_done(ctx) && is_seen && !self.removes_images();
        // What is rolled out once may still have to be taken back.
        let is_once = ctx.desired_target().is_some_and(|desired| desired.is_once);
        let is_soaking = || self.machines.iter().any(|(state, _)| ctx.is_soaking(state));
        let is_clean = is_clean && !(is_once && is_soaking());
        let patch =
            config_annotations::patch(ctx, &self.machines, is_clean, self.failed_target.as_ref());
        let mut actions: Vec<Action> = patch.into_iter().collect();
        for ((state, _), plan) in self.machines.iter().zip(&self.plans) {
            let patch = plan.patch.action(state.machine);
            let events = plan.events(ctx, state, patch.is_some());
            actions.extend(patch);
            // A rejected patch ends the pass, and what did not happen is not reported.
            actions.extend(events);
            let create = plan.create.iter().cloned();
            actions.extend(create.map(Action::from));
            actions.extend(plan.actions.iter().cloned());
            actions.extend(plan.delete.iter().cloned());
        }
        actions.extend(jobs.into_iter().map(Action::from));
        // Until the target is known, the status stays what it is.
        let reason = status.reason.clone();
        let status = Some(status).filter(|_| !ctx.is_target_pending());
        let update = status.as_ref().and_then(|status| status.update(ctx));
        let events = pool_conditions::events(ctx, update.as_ref());
        actions.extend(update.map(|update| {
            let pool = object::target(kinds::MACHINE_CONFIG_POOL, &ctx.snapshot.pool.metadata);
            Action::ReplaceStatus(pool, NewStatus::Fields(json!(update)))
        }));
        actions.extend(events);
        let decision =
            Decision { requeue_after: self.requeue_after, ..Decision::of(reason, actions) };
        RolloutEvaluation { decision, status }
    }

    /// Records why nothing new is begun; the first reason stays.
    pub fn block(&mut self, reason: &'static str, message: String, again: Option<Duration>) {
        self.blocked.get_or_insert(Blocked { reason, message });
        self.again(again);
    }

    pub fn again(&mut self, after: Option<Duration>) {
        self.requeue_after = self.requeue_after.into_iter().chain(after).min();
    }

    /// The Jobs that begin now. A place that others wait for is free once a Job is too old, which no
    /// event shows.
    fn begin(&mut self, found: LimitedJobs) -> Vec<NodeJobRequest> {
        self.again(found.is_full.then_some(TIMEOUT_CHECK));
        found.jobs
    }

    /// The Jobs that change machines without a reboot.
    fn part_jobs(&mut self) -> Vec<NodeJobRequest> {
        let PartJobs { found, stopped } =
            part_jobs::part_jobs(self.ctx, &self.machines, self.gates.as_ref());
        if let Some(message) = stopped {
            self.block("MachinesFailed", message, Some(ROLLOUT_PROBLEM));
        }
        self.begin(found)
    }

    /// The Jobs that remove a staged image from machines that run the target, which needs no
    /// registry, and those that stage the target.
    fn stage_jobs(&mut self) -> (Vec<NodeJobRequest>, Vec<NodeJobRequest>) {
        let Some(target) = self.ctx.stages() else {
            return (Vec::new(), Vec::new());
        };
        let digest = target.image.digest();
        let found = staging::stage_jobs(self.ctx, &self.machines, target);
        let jobs = self.begin(found).into_iter();
        let states = self.machines.iter().map(|(state, _)| state);
        jobs.partition(|job| {
            states.clone().any(|state| state.name() == job.node && state.runs(digest))
        })
    }

    /// Whether the machine part of the target may be brought to machines: its config must still have
    /// this part. None while the config is looked up.
    fn may_bring_part(&mut self) -> Option<bool> {
        let target = self.ctx.target();
        let part = target.and_then(|target| Some((target.config.as_ref()?, target.machine_part?)));
        let Some((config, part)) = part else {
            return Some(true);
        };
        match self.ctx.snapshot.lookup_results.machine_parts.get(config) {
            None => {
                self.lookups.push(RolloutLookup::MachinePart(config.clone()));
                None
            }
            Some(Ok(found)) if *found == part => Some(true),
            Some(Ok(_)) => {
                let message = machine_part_changed(config);
                self.block("MachinePartChanged", message, Some(ROLLOUT_PROBLEM));
                Some(false)
            }
            Some(Err(problem)) => {
                self.block("LookupFailed", problem.message.clone(), Some(ROLLOUT_PROBLEM));
                Some(false)
            }
        }
    }

    /// Whether another image than the target is still staged somewhere, and can be removed.
    fn removes_images(&self) -> bool {
        let Some(target) = self.ctx.stages() else {
            return false;
        };
        let mut all = self.machines.iter().zip(&self.plans);
        all.any(|((state, _), plan)| {
            let is_healthy = state.machine.node.ready && plan.degraded.is_none();
            is_healthy && state.is_to_unstage(target)
        })
    }

    fn requeue(&mut self) {
        let ctx = self.ctx;
        let mut soonest: Vec<Duration> = Vec::new();
        for ((state, phase), plan) in self.machines.iter().zip(&self.plans) {
            soonest.extend(plan.requeue_after);
            soonest.extend(state.jobs().filter_map(|job| job.awaits_pod));
            soonest.extend(next_try(ctx, state, phase.as_ref()));
            if phase.as_ref().is_some_and(|phase| !phase.is_failed()) {
                soonest.push(TIMEOUT_CHECK);
            }
        }
        if matches!(ctx.desired, Desired::Unknown(_)) {
            soonest.push(ROLLOUT_PROBLEM);
        }
        if ctx.snapshot.cluster.broken_watch.is_some() {
            soonest.push(ROLLOUT_WATCH);
        }
        self.again(soonest.into_iter().min());
    }
}
