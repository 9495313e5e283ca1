//! What metrics show of a decision: the machines of a pool by their progress, and why nothing new is
//! begun. Pure.

use std::collections::BTreeMap;

use jiff::Timestamp;

use super::machine_progress::MachineProgress;
use super::pool_status::Standing;
use super::reason::RolloutReason;
use super::rollout_phase::{MACHINES_FAILED, RolloutPhase};

/// What metrics show of the roll-out of one pool.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RolloutFigures {
    pub phase: RolloutPhase,
    pub machines: BTreeMap<MachineProgress, usize>,
    /// When the machine in this progress that has had its slot the longest got it.
    pub oldest_slots: BTreeMap<MachineProgress, Timestamp>,
    /// The reason of the condition `RolloutDegraded`, if it is True.
    pub blocked: Option<&'static str>,
    /// Files of their images that the machines hide, all together.
    pub hidden_files: usize,
}

impl RolloutFigures {
    pub(super) fn of(machines: &[Standing], reason: &RolloutReason) -> Self {
        let (phase, blocked) = match reason {
            RolloutReason::Updated(_) => (RolloutPhase::Updated, None),
            RolloutReason::Paused(_) => (RolloutPhase::Paused, None),
            RolloutReason::Staging { staged, machines, .. } if staged == machines => {
                (RolloutPhase::Staged, None)
            }
            RolloutReason::Staging { .. } | RolloutReason::RollingOut { .. } => {
                (RolloutPhase::Progressing, None)
            }
            RolloutReason::Blocked { reason, .. } if MACHINES_FAILED.contains(reason) => {
                (RolloutPhase::Failed, Some(*reason))
            }
            RolloutReason::Blocked { reason, .. } => (RolloutPhase::Blocked, Some(*reason)),
            RolloutReason::OtherController { .. }
            | RolloutReason::Deleting
            | RolloutReason::NoPool(_)
            | RolloutReason::Off
            | RolloutReason::LookingUp => (RolloutPhase::Off, None),
        };
        let mut figures = Self {
            phase,
            machines: BTreeMap::new(),
            oldest_slots: BTreeMap::new(),
            blocked,
            hidden_files: machines.iter().filter_map(|machine| machine.hidden_files).sum(),
        };
        for machine in machines {
            *figures.machines.entry(machine.progress).or_default() += 1;
            if let Some(since) = machine.slot_since {
                let oldest = figures.oldest_slots.entry(machine.progress).or_insert(since);
                *oldest = since.min(*oldest);
            }
        }
        figures
    }
}
