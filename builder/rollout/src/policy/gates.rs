//! What holds machines back that have staged the target. Pure.

use jiff::Timestamp;

use super::windows::Opening;
use crate::context::Context;
use crate::decide::Machines;
use crate::elapsed::elapsed;
use crate::machine_state::MachineState;
use mosb_api::rollout::{NodeTarget, Soak, SoakPhase};
use mosb_cluster::name_list::name_list;
use std::time::Duration;

/// How many machines of a ring a reason names.
const MAX_NAMES: usize = 3;

/// What holds back the machines of a pool.
#[derive(Debug)]
pub(crate) struct Gates {
    /// The first ring that is not done, from 0, and what its machines lack.
    ring: usize,
    rings: usize,
    missing: Vec<String>,
    opening: Opening,
    policy: String,
}

impl Gates {
    /// None without a policy.
    pub fn of(ctx: &Context<'_>, machines: &Machines<'_>, target: &NodeTarget) -> Option<Self> {
        let policy = ctx.policy()?;
        let lacks = |state: &MachineState<'_>| Some((ctx.ring_of(state), lacks(state, target)?));
        let lacking: Vec<(usize, String)> =
            machines.iter().filter_map(|(state, _)| lacks(state)).collect();
        let ring = lacking.iter().map(|(ring, _)| *ring).min().unwrap_or(policy.rings.len());
        let missing = lacking.into_iter().filter(|(of, _)| *of == ring).map(|(_, text)| text);
        Some(Self {
            ring,
            rings: policy.rings.len() + 1,
            missing: missing.collect(),
            opening: Opening::of(&policy.windows, ctx.now),
            policy: ctx.policy_name().to_owned(),
        })
    }

    /// The ring that machines are brought to now, from 1, of so many.
    pub fn ring(&self) -> (usize, usize) {
        (self.ring + 1, self.rings)
    }

    /// Why this machine of a ring is not changed now.
    pub fn hold(&self, ring: usize) -> Option<String> {
        if ring > self.ring {
            let (at, of, before) = (ring + 1, self.rings, self.ring + 1);
            let missing = name_list(&self.missing, MAX_NAMES);
            return Some(format!(
                "it is in ring {at} of {of}, and ring {before} is not done: {missing}"
            ));
        }
        self.closed()
    }

    /// Why no machine of any ring is changed now.
    pub fn closed(&self) -> Option<String> {
        match self.opening {
            Opening::Open => None,
            Opening::From(Some(next)) => Some(format!(
                "it is outside the windows of policy {}; the next one begins at {next}",
                self.policy
            )),
            Opening::From(None) => {
                Some(format!("policy {} has no window in the days to come", self.policy))
            }
        }
    }

    /// When the next window begins, if none is open.
    pub fn next_window(&self) -> Option<Timestamp> {
        match self.opening {
            Opening::Open => None,
            Opening::From(next) => next,
        }
    }

    /// How long until then.
    pub fn closed_for(&self, now: Timestamp) -> Option<Duration> {
        self.next_window().map(|next| elapsed(now, next))
    }
}

/// What a machine lacks until the next ring may begin; none if it has its target confirmed.
fn lacks(state: &MachineState<'_>, target: &NodeTarget) -> Option<String> {
    if state.is_being_deleted() {
        return None;
    }
    let name = state.name();
    if state.has_slot() {
        return Some(format!("{name} is being updated"));
    }
    if !state.has(target) {
        return Some(format!("{name} does not run it"));
    }
    let is_it = |of: &NodeTarget| of.is_same_to_machines(target);
    if state.confirmed().is_some_and(|known| is_it(&known.target)) {
        return None;
    }
    let soak = Soak::of(&state.machine.node.metadata).filter(|soak| is_it(&soak.target));
    Some(match soak.map(|soak| soak.phase) {
        None => format!("{name} is not confirmed yet"),
        Some(SoakPhase::Holding { until, .. }) => format!("{name} soaks until {}", until.0),
        Some(SoakPhase::Failing { message, .. } | SoakPhase::Failed { message, .. }) => {
            format!("{name}: {message}")
        }
    })
}
