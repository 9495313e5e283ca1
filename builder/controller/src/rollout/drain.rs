//! Which pods are evicted from a machine, as by `kubectl drain` with `--ignore-daemonsets`,
//! `--delete-emptydir-data` and `--force`. Pure.

use super::drain_record::DrainRecord;
use super::lookup::SeenPod;
use super::machine_state::MachineState;
use super::snapshot::ClusterMachines;

/// The most evictions of one pass: the other machines wait for it.
const MAX_EVICTIONS: usize = 100;

/// What is left to do until a machine is drained.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Drain<'a> {
    /// Pods that have to be evicted.
    pub evict: Vec<&'a SeenPod>,
    /// Pods that have been evicted and are still there.
    pub terminating: Vec<&'a SeenPod>,
}

impl<'a> Drain<'a> {
    /// `pods`: those of a machine that don't [stay](SeenPod::stays). `record`: of its drain until now.
    pub fn of(pods: &'a [SeenPod], record: Option<&DrainRecord>) -> Self {
        let counts = |pod: &&SeenPod| record.is_none_or(|record| record.waits_for(pod));
        let (terminating, evict) = pods.iter().filter(counts).partition(|pod| pod.deleting);
        Self { evict, terminating }
    }

    /// Those that are evicted in this pass.
    pub fn evictions(&self) -> impl Iterator<Item = &'a SeenPod> {
        self.evict.iter().copied().take(MAX_EVICTIONS)
    }

    pub fn is_done(&self) -> bool {
        self.evict.is_empty() && self.terminating.is_empty()
    }
}

/// Whether a machine that gets a slot now reboots without being drained: the only node of the
/// cluster, and the only one that takes the controller, without which the drain would not end. If it
/// is not known where the controller runs, that is the only control-plane node. If other nodes are only
/// cordoned or away, the machine waits for them.
pub(super) fn is_skipped(state: &MachineState<'_>, cluster: &ClusterMachines) -> bool {
    let has_controller_alone = match cluster.own_node.as_deref() {
        Some(own) => own == state.name() && cluster.other_places.is_none(),
        None => state.is_control_plane() && cluster.control_plane.len() <= 1,
    };
    has_controller_alone || cluster.nodes <= 1
}
