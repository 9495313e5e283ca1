//! Whether other pods can run on a node now. Pure.

use super::snapshot::Machine;
use crate::cluster_cache::SeenMachine;

/// What of a node decides whether other pods can be scheduled on it and run.
#[derive(Debug, Clone, Copy)]
pub(super) struct Availability {
    ready: bool,
    unschedulable: bool,
    disk_pressure: bool,
    network_unavailable: bool,
}

impl From<&Machine> for Availability {
    fn from(machine: &Machine) -> Self {
        Self {
            ready: machine.ready,
            unschedulable: machine.unschedulable,
            disk_pressure: machine.disk_pressure,
            network_unavailable: machine.network_unavailable,
        }
    }
}

impl From<&SeenMachine> for Availability {
    fn from(seen: &SeenMachine) -> Self {
        Self {
            ready: seen.ready,
            unschedulable: seen.unschedulable,
            disk_pressure: seen.disk_pressure,
            network_unavailable: seen.network_unavailable,
        }
    }
}

impl Availability {
    /// Why no other pod can run on a node that has no slot, and what to do; none if one can, as the
    /// Machine Config Operator counts it.
    pub fn obstacle(self) -> Option<(&'static str, &'static str)> {
        if !self.ready {
            Some(("is not Ready", "check its kubelet"))
        } else if self.unschedulable {
            Some(("is cordoned, and not by mosb", "uncordon it"))
        } else if self.disk_pressure {
            Some(("has DiskPressure", "free space on its disk"))
        } else if self.network_unavailable {
            Some(("has NetworkUnavailable", "check its network plugin"))
        } else {
            None
        }
    }
}
