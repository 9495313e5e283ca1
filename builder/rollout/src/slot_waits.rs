//! Why machines that are behind get no slot, as far as that does not end by itself. Pure.
//!
//! Input: the machines of a pool and the slots that were just given. Output: what each machine
//! waits for. A machine that only waits for others of its pool to be updated has no reason.

use std::collections::BTreeSet;

use super::context::Context;
use super::decide::Pass;
use super::machine_state::MachineState;
use super::reason::{Blocked, LATE_DRAIN};
use super::slot_phase::SlotPhase;
use super::slots;
use mosb_api::rollout::NodeTarget;
use mosb_cluster::name_list::name_list;
use mosb_reconcile::waits::ROLLOUT_PROBLEM;

/// How many machines or pools a reason names.
const MAX_NAMES: usize = 5;

impl Pass<'_> {
    /// Sets what machines wait for that got no slot. `given`: those that got one in this pass.
    pub fn explain_waits(&mut self, given: &[String]) {
        let Some(target) = self.ctx.rolls_to() else {
            return;
        };
        let capacity = self.no_capacity();
        let holder = self.control_plane_holder();
        let own = self.holds_own();
        let mut is_own_held = false;
        let mut waits_for_window = false;
        for ((state, _), plan) in self.machines.iter().zip(&mut self.plans) {
            let is_given = given.iter().any(|name| name == state.name());
            if is_given || !is_behind(self.ctx, state, target) || plan.degraded.is_some() {
                continue;
            }
            let is_staged = state.staged.as_ref() == Some(target);
            let held = holder.as_ref().filter(|_| is_staged && state.is_control_plane());
            let full = capacity.as_ref().filter(|_| is_staged);
            let before = own.as_ref().filter(|_| is_staged && self.ctx.is_own(state));
            is_own_held |= before.is_some();
            let why =
                state.machine.node.obstacle().map(|(what, remedy)| format!("it {what}; {remedy}"));
            let gates = self.gates.as_ref();
            let ring = gates.and_then(|gates| gates.hold(self.ctx.ring_of(state)));
            waits_for_window |= gates.is_some_and(|gates| gates.closed().is_some());
            let blocked = self.held.get(state.name());
            let why = why.or(ring).or_else(|| held.or(full).or(before).or(blocked).cloned());
            plan.waiting = plan.waiting.take().or(why);
        }
        // No event of this pool shows that a node of another one becomes available.
        self.again(is_own_held.then_some(ROLLOUT_PROBLEM));
        let now = self.ctx.now;
        let window = self.gates.as_ref().and_then(|gates| gates.closed_for(now));
        self.again(window.filter(|_| waits_for_window));
    }

    /// Machines that are unavailable without us use up what the pool allows.
    fn no_capacity(&self) -> Option<String> {
        let snapshot = self.ctx.snapshot;
        let max = snapshot.pool.spec.max_unavailable.as_ref();
        let max = slots::max_unavailable(max, snapshot.machines.len()).ok()?;
        let with_slot = self.machines.iter().filter(|(state, _)| state.has_slot()).count();
        let others = self.machines.iter().filter(|(state, _)| !state.has_slot());
        let others: Vec<String> = others
            .filter_map(|(state, _)| {
                let (what, _) = state.machine.node.obstacle()?;
                Some(format!("{} {what}", state.name()))
            })
            .collect();
        let is_full = with_slot < max && with_slot + others.len() >= max;
        is_full.then(|| {
            let named = name_list(&others, MAX_NAMES);
            format!(
                "maxUnavailable allows {max} unavailable machines: {named}; make them available, or allow more"
            )
        })
    }

    /// Why the machine of the controller gets no slot now: it is the last one of its ring and of all other
    /// pools, so that the controller moves once, and it needs another node to run on meanwhile.
    pub(super) fn holds_own(&self) -> Option<String> {
        let cluster = &self.ctx.snapshot.cluster;
        let own = "the controller runs on it";
        let places = &cluster.other_places;
        if places.usable == 0 && !places.is_none() {
            let others = places.unusable.iter();
            let others: Vec<String> = others.map(|(node, why)| format!("{node} {why}")).collect();
            return Some(format!(
                "{own}, and it could run nowhere else meanwhile: {}; make one of them available, or delete the Nodes of machines that are gone",
                name_list(&others, MAX_NAMES)
            ));
        }
        let target = self.ctx.rolls_to()?;
        let own_ring = cluster.own_node.as_deref().map_or(0, |own| self.ctx.rings.of(own));
        let comes_first = |(state, phase): &&(MachineState<'_>, Option<SlotPhase>)| {
            let has_failed = phase.as_ref().is_some_and(SlotPhase::is_failed);
            let is_behind =
                state.has_slot() || is_behind(self.ctx, state, target) && state.is_available();
            is_behind
                && !has_failed
                && self.ctx.ring_of(state) <= own_ring
                && !self.ctx.is_own(state)
                && self.ctx.failure(state).is_none()
        };
        let machines = self.machines.iter().filter(comes_first);
        let machines: Vec<&str> = machines.map(|(state, _)| state.name()).collect();
        let pools: Vec<&str> = cluster.updating_elsewhere.iter().map(String::as_str).collect();
        match (machines.is_empty(), pools.is_empty()) {
            (true, true) => None,
            (false, _) => Some(format!(
                "{own}, so other machines come first: {}",
                name_list(&machines, MAX_NAMES)
            )),
            (true, false) => Some(format!(
                "{own}, so machines of other pools come first; finish or pause their roll-outs: {}",
                name_list(&pools, MAX_NAMES)
            )),
        }
    }

    /// Machines whose drain takes longer than the policy permits. The others go on.
    pub(super) fn by_late_drains(&self) -> Option<Blocked> {
        let late = self.machines.iter().zip(&self.plans).filter(|(_, plan)| plan.is_drain_late);
        let late: Vec<String> = late
            .map(|((state, _), plan)| {
                let since = state.valid_slot().map(|slot| format!(" since {}", slot.since.0));
                let why = plan.waiting.as_ref().map(|why| format!(": {why}"));
                let (since, why) = (since.unwrap_or_default(), why.unwrap_or_default());
                format!("{} is drained{since}{why}", state.name())
            })
            .collect();
        let message = format!(
            "the other machines go on, and nothing is forced; {}; make the pods go, or raise drainTimeout of the policy",
            name_list(&late, MAX_NAMES)
        );
        (!late.is_empty()).then_some(Blocked { reason: LATE_DRAIN, message })
    }

    /// A control-plane machine that has a slot and is not of this pool.
    fn control_plane_holder(&self) -> Option<String> {
        let own: BTreeSet<&str> = self.machines.iter().map(|(state, _)| state.name()).collect();
        let mut nodes = self.ctx.snapshot.cluster.control_plane.iter();
        let holder = nodes.find(|node| node.has_slot && !own.contains(&*node.name))?;
        Some(format!(
            "control-plane machine {} of another pool, or of none, is being updated, and only one is at a time; see the annotations of that node if it lasts",
            holder.name
        ))
    }
}

/// Whether it has no slot and needs one.
fn is_behind(ctx: &Context<'_>, state: &MachineState<'_>, target: &NodeTarget) -> bool {
    let runs = state.runs(target.image.digest());
    let reboots = !runs && !ctx.may_go_live(state)
        || runs && state.staged.as_ref() == Some(target)
        || state.needs_reboot(target);
    !state.has_slot() && !state.is_being_deleted() && !state.has(target) && reboots
}
