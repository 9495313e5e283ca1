//! Why a pool's machines change, or don't: in the log, in the condition `RolloutDegraded`, and as one
//! word for commands and metrics.

use std::fmt;

use serde::Serialize;

use super::snapshot::{RefusedWrites, RolloutSnapshot};
use mosb_cluster::name_list::name_list;
use mosb_cluster::words;

/// How many machines a reason names.
const MAX_NAMES: usize = 5;
/// How many machines with a refused write a message names: each has the text of its error.
const MAX_REFUSED: usize = 3;

const WRITE_REFUSED: &str = "WriteRefused";
const SHARED_NODES: &str = "SharedNodes";
pub(super) const LATE_DRAIN: &str = "DrainTimeout";
pub(super) const TARGET_FAILED: &str = "TargetFailed";
/// Reasons to be [`Blocked`] that cost some machines only: the others go on.
pub(super) const OF_SOME_MACHINES: [&str; 3] = [WRITE_REFUSED, SHARED_NODES, LATE_DRAIN];
/// Those that machines cause.
pub(super) const MACHINES_FAILED: [&str; 3] = ["MachineLost", "MachinesFailed", TARGET_FAILED];
/// Those that pass by themselves.
pub(super) const PASSING: [&str; 3] = ["LookupFailed", "RegistryFailed", "ControlPlaneUnhealthy"];

/// Why nothing new is begun, on all machines of a pool or on some: reason and message of the condition
/// `RolloutDegraded`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Blocked {
    /// One word for programs.
    pub reason: &'static str,
    pub message: String,
}

impl Blocked {
    /// Nodes of two custom pools, which get nothing.
    pub(super) fn by_shared_nodes(snapshot: &RolloutSnapshot) -> Option<Self> {
        let (node, pools) = snapshot.shared_nodes.iter().next()?;
        let more = snapshot.shared_nodes.len() - 1;
        let others = if more > 0 { format!(" and {more} others") } else { String::new() };
        let message = format!(
            "the other machines go on; node {node}{others}: selected by the pools {}, so it is of none of them; change the labels so that one is left",
            pools.join(", ")
        );
        Some(Self { reason: SHARED_NODES, message })
    }

    /// Writes that the API server refused in the last pass.
    pub(super) fn by_refused(refused: &RefusedWrites) -> Option<Self> {
        let reason = WRITE_REFUSED;
        if let Some(text) = &refused.pool {
            return Some(Self { reason, message: text.clone() });
        }
        let texts = refused.of_machines();
        let texts: Vec<String> =
            texts.iter().map(|(machine, text)| format!("{machine}: {text}")).collect();
        let more = texts.len().saturating_sub(MAX_REFUSED);
        let named = texts.iter().take(MAX_REFUSED).cloned().collect::<Vec<_>>().join("; ");
        let more = if more > 0 { format!("; and {more} more machines") } else { String::new() };
        let message = format!("the other machines go on; {named}{more}");
        (!texts.is_empty()).then_some(Self { reason, message })
    }
}

/// The state of a pool's roll-out.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RolloutReason {
    /// Another controller brings images to machines.
    OtherController {
        who: String,
        /// The machines whose slot stays meanwhile.
        held: Vec<String>,
    },
    /// The pool is being deleted.
    Deleting,
    /// These machines have a slot and are of no pool any more.
    NoPool(Vec<String>),
    /// No machine gets an image.
    Off,
    /// Facts are being looked up.
    LookingUp,
    /// No target, or no new slot.
    Blocked(Blocked),
    /// All machines run the target.
    Updated(String),
    Paused(String),
    /// The image is staged, and nothing reboots.
    Staging {
        build: String,
        staged: usize,
        machines: usize,
    },
    RollingOut {
        build: String,
        updated: usize,
        machines: usize,
    },
}

impl fmt::Display for RolloutReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::OtherController { who, held } => {
                write!(
                    f,
                    "not rolled out by mosb: {who} does; remove --rollout from mosb, or scale the other one to 0"
                )?;
                if held.is_empty() {
                    return Ok(());
                }
                write!(f, "; until then, slot and cordon stay on {}", name_list(held, MAX_NAMES))
            }
            Self::Deleting => write!(f, "the pool is being deleted"),
            Self::NoPool(machines) => write!(
                f,
                "{}: of no pool any more; a drain is cancelled, and a reboot that has begun is finished",
                machines.join(", ")
            ),
            Self::Off => write!(f, "nothing is rolled out"),
            Self::LookingUp => write!(f, "looking up what a decision needs"),
            Self::Blocked(Blocked { message, .. }) => f.write_str(message),
            Self::Updated(build) => write!(f, "all machines run {build}"),
            Self::Paused(build) => write!(f, "the pool is paused; it does not get {build}"),
            Self::Staging { build, staged, machines } => {
                write!(f, "{staged} of {machines} machines have or run {build}")
            }
            Self::RollingOut { build, updated, machines } => {
                write!(f, "{updated} of {machines} machines run {build}")
            }
        }
    }
}

impl RolloutReason {
    /// The same as one word.
    pub fn phase(&self) -> RolloutPhase {
        match self {
            Self::Updated(_) => RolloutPhase::Updated,
            Self::Paused(_) => RolloutPhase::Paused,
            Self::Staging { staged, machines, .. } if staged == machines => RolloutPhase::Staged,
            Self::Staging { .. } | Self::RollingOut { .. } => RolloutPhase::Progressing,
            Self::Blocked(Blocked { reason, .. }) if MACHINES_FAILED.contains(reason) => {
                RolloutPhase::Failed
            }
            Self::Blocked(_) => RolloutPhase::Blocked,
            Self::OtherController { .. }
            | Self::Deleting
            | Self::NoPool(_)
            | Self::Off
            | Self::LookingUp => RolloutPhase::Off,
        }
    }

    pub fn blocked(&self) -> Option<&Blocked> {
        match self {
            Self::Blocked(blocked) => Some(blocked),
            _ => None,
        }
    }
}

words! {
    /// How far a roll-out is: commands print it, and metrics have it as a label.
    #[derive(Serialize)]
    #[serde(rename_all = "lowercase")]
    pub enum RolloutPhase {
        /// All machines run the target.
        Updated = "updated",
        /// All machines have staged it or run it, and nothing reboots.
        Staged = "staged",
        /// No machine gets an image.
        Off = "off",
        Progressing = "progressing",
        Paused = "paused",
        /// Somebody must change something first.
        Blocked = "blocked",
        /// Machines failed, and nothing goes on by itself.
        Failed = "failed",
    }
}
