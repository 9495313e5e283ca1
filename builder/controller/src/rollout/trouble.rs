//! Why a machine without a slot can't follow the pool. Pure.

use super::context::Context;
use super::job_request::NodeVerb;
use super::job_state::JobState;
use super::machine_state::MachineState;
use super::staging::wants_stage;
use mosb_plan::api::rollout::{ExitCode, NodeTarget};

/// A machine whose Job failed as often is degraded.
const MAX_FAILED_TRIES: u32 = 3;

/// Why a machine that has no slot can't follow the pool.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Trouble {
    /// Nothing changes its image.
    Unreconcilable(String),
    Failing(String),
}

/// Why a machine that has no slot can't follow the pool; none if it can, or may yet.
pub(super) fn trouble(state: &MachineState<'_>, target: Option<&NodeTarget>) -> Option<Trouble> {
    if target.is_some_and(|target| state.has(target) && !state.is_to_unstage(target)) {
        return None;
    }
    let verbs = [(NodeVerb::Report, None), (NodeVerb::Stage, target), (NodeVerb::Part, target)];
    for (verb, target) in verbs {
        if verb != NodeVerb::Report && target.is_none() {
            continue;
        }
        let JobState::Failed(failure) = state.job_state(state.job(verb, target)) else {
            continue;
        };
        if failure.exit == Some(ExitCode::Unreconcilable) {
            return Some(Trouble::Unreconcilable(failure.message));
        }
        // Then it is staged, and the machine reboots.
        if failure.exit == Some(ExitCode::NeedsReboot) {
            continue;
        }
        if failure.number >= MAX_FAILED_TRIES {
            let (verb, number) = (verb.as_str(), failure.number);
            return Some(Trouble::Failing(format!(
                "{verb} failed {number} times: {}",
                failure.message
            )));
        }
    }
    let text = "the machine has neither bootc nor rpm-ostree; install a machine from an image, or take it out of the pool";
    (target.is_some() && state.has_no_tool()).then(|| Trouble::Unreconcilable(text.to_owned()))
}

impl Context<'_> {
    /// Why a machine without a slot can't follow the pool.
    pub fn trouble(&self, state: &MachineState<'_>) -> Option<Trouble> {
        let target = self.stages();
        let known = trouble(state, target);
        let is_behind =
            target.is_some_and(|target| !state.runs(target.image.digest()) && !state.has(target));
        let fallback = || self.fallback_text(state).filter(|_| !self.is_off());
        known.or_else(|| fallback().map(Trouble::Failing)).or_else(|| {
            let is_wrong = is_behind && !self.is_for(state);
            is_wrong.then(|| {
                Trouble::Failing(format!(
                    "{} has no image for the platform {}; build one, or take the machine out of the pool",
                    target.map(|target| target.image.to_string()).unwrap_or_default(),
                    state.platform().map(|platform| platform.to_string()).unwrap_or_default()
                ))
            })
        })
    }

    /// Whether all is known that may be in the way of this machine. What the registry reports about
    /// the platforms is known only in passes that look it up.
    pub fn knows_trouble(&self, state: &MachineState<'_>) -> bool {
        let wants = |target: &NodeTarget| {
            !state.runs(target.image.digest()) && wants_stage(self, state, None, target)
        };
        self.target_image().is_some() || !self.stages().is_some_and(wants)
    }
}
