//! Why a pool's machines change, or don't.

use std::fmt;

use crate::name_list::name_list;

/// How many machines a reason names.
const MAX_NAMES: usize = 5;

/// The state of a pool's roll-out, for the log.
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
    Blocked {
        reason: &'static str,
        message: String,
    },
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
            Self::Blocked { message, .. } => f.write_str(message),
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
