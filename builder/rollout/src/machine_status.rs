//! Where a machine of a pool stands: the status of its pool, with conditions and metrics, is a
//! function of it. Pure.
//!
//! Input: what a decision found of the machine. Invariant: each machine has exactly one
//! [`MachineProgress`].

use jiff::Timestamp;

use super::context::Context;
use super::job_request::NodeVerb;
use super::job_state::JobState;
use super::machine_state::MachineState;
use super::node_patch::NodeState;
use super::staging::wants_stage;
use mosb_api::rollout::{ExitCode, NodeTarget};
use mosb_cluster::words;
use mosb_image::Digest;

/// A machine whose Job failed as often is degraded.
const MAX_FAILED_TRIES: u32 = 3;

/// Where a machine stands.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct MachineStatus {
    pub name: String,
    pub progress: MachineProgress,
    pub has_slot: bool,
    /// When it got its slot; none if that is not readable.
    pub slot_since: Option<Timestamp>,
    pub is_available: bool,
    /// It has the target and no slot.
    pub is_updated: bool,
    /// It has staged the target in this boot.
    pub is_staged: bool,
    /// It runs the image of the target, and nothing but its machine part is missing.
    pub lacks_part: bool,
    pub degraded: Option<String>,
    pub waiting: Option<String>,
    /// The image that it booted.
    pub booted: Option<Digest>,
    /// How many files of its image it hides, if it reported that in this boot.
    pub hidden_files: Option<usize>,
    /// Its next reboot may leave it without a way back.
    pub is_boot_full: bool,
    /// It has the target, and its checks hold: when the soak time is over.
    pub soaks_until: Option<Timestamp>,
}

words! {
    /// How far a machine is on its way to the target.
    #[derive(Default)]
    pub enum MachineProgress {
        /// It runs the target.
        Updated = "updated",
        /// It runs the target, and its health checks must hold for a time.
        Soaking = "soaking",
        /// It has no slot, and is not Ready or is cordoned by somebody else.
        Unavailable = "unavailable",
        /// It has not reported since it booted.
        Unreported = "unreported",
        /// It does not run the target, and nothing is done about it now.
        #[default]
        Waiting = "waiting",
        /// Its image, or its keys and password, are brought to it.
        Staging = "staging",
        /// It has staged the target, and has no slot.
        Staged = "staged",
        /// It has a slot, and its pods are evicted.
        Draining = "draining",
        /// It is drained, and on its way into its target.
        Rebooting = "rebooting",
        /// It did not boot its target, or can't stage it.
        Degraded = "degraded",
        /// It is not back within the limit.
        Lost = "lost",
        /// Nothing changes its image.
        Unreconcilable = "unreconcilable",
    }
}

impl MachineProgress {
    /// Of a machine without a slot.
    pub(super) fn without_slot(ctx: &Context<'_>, state: &MachineState<'_>) -> Self {
        let target = ctx.target();
        if ctx.soak_failure(state).is_some() {
            return Self::Degraded;
        }
        if target.is_some_and(|target| state.has(target)) {
            return if ctx.is_soaking(state) { Self::Soaking } else { Self::Updated };
        }
        if let Some(failure) = ctx.failure(state) {
            return failure.progress();
        }
        let runs = |verb| state.job_state(state.job(verb, target)) == JobState::Running;
        if !state.is_available() {
            Self::Unavailable
        } else if state.report.is_none() {
            Self::Unreported
        } else if target.is_some() && runs(NodeVerb::Part) {
            Self::Staging
        } else if target.is_some() && state.staged.as_ref() == target {
            Self::Staged
        } else if target.is_some() && runs(NodeVerb::Stage) {
            Self::Staging
        } else {
            Self::Waiting
        }
    }
}

/// Why a machine that has no slot can't follow the pool.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct MachineFailure {
    /// Nothing changes its image.
    is_permanent: bool,
    pub message: String,
}

impl MachineFailure {
    fn permanent(message: String) -> Self {
        Self { is_permanent: true, message }
    }

    fn degraded(message: String) -> Self {
        Self { is_permanent: false, message }
    }

    fn progress(&self) -> MachineProgress {
        if self.is_permanent { MachineProgress::Unreconcilable } else { MachineProgress::Degraded }
    }

    pub fn node_state(&self) -> NodeState {
        if self.is_permanent { NodeState::Unreconcilable } else { NodeState::Degraded }
    }

    /// By its Jobs and its report; none if it can follow the pool, or may yet.
    pub fn of(state: &MachineState<'_>, target: Option<&NodeTarget>) -> Option<Self> {
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
                return Some(Self::permanent(failure.message));
            }
            // With this exit code it is staged, and the machine reboots.
            let needs_reboot = failure.exit == Some(ExitCode::NeedsReboot);
            if failure.number >= MAX_FAILED_TRIES && !needs_reboot {
                let (verb, number) = (verb.as_str(), failure.number);
                let text = format!("{verb} failed {number} times: {}", failure.message);
                return Some(Self::degraded(text));
            }
        }
        let text = "the machine has neither bootc nor rpm-ostree; install a machine from an image, or take it out of the pool";
        (target.is_some() && state.has_no_tool()).then(|| Self::permanent(text.to_owned()))
    }
}

impl Context<'_> {
    /// Why a machine without a slot can't follow the pool.
    pub fn failure(&self, state: &MachineState<'_>) -> Option<MachineFailure> {
        let target = self.stages();
        let fallback = || self.fallback_text(state).filter(|_| !self.is_off());
        let wrong_platform = || {
            let target = target.filter(|it| !state.runs(it.image.digest()) && !state.has(it))?;
            let platform = state.platform().map(|platform| platform.to_string());
            (!self.is_for(state)).then(|| {
                format!(
                    "{} has no image for the platform {}; build one, or take the machine out of the pool",
                    target.image,
                    platform.unwrap_or_default()
                )
            })
        };
        let known = MachineFailure::of(state, target);
        let soak = || self.soak_failure_text(state).filter(|_| !self.is_off());
        let known = known.or_else(|| soak().map(MachineFailure::degraded));
        known.or_else(|| fallback().or_else(wrong_platform).map(MachineFailure::degraded))
    }

    /// Whether all is known that may be in the way of this machine. What the registry reports about
    /// the platforms is known only in passes that look it up.
    pub fn knows_failures(&self, state: &MachineState<'_>) -> bool {
        let wants = |target: &NodeTarget| {
            !state.runs(target.image.digest()) && wants_stage(self, state, None, target)
        };
        self.target_image().is_some() || !self.stages().is_some_and(wants)
    }
}
