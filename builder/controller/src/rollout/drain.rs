//! Which pods are evicted from a machine, as by `kubectl drain` with `--ignore-daemonsets`,
//! `--delete-emptydir-data` and `--force`. Pure.

use std::time::Duration;

use jiff::Timestamp;

use super::elapsed::elapsed;
use super::lookup::SeenPod;
use super::machine_state::MachineState;
use super::snapshot::ClusterMachines;

/// How long after its grace period a pod may take to end.
const KILL_TIME: Duration = Duration::from_secs(30);
/// The most evictions of one pass: the other machines wait for it.
const MAX_EVICTIONS: usize = 100;

/// What is left to do until a machine is drained.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Drain<'a> {
    pub evict: Vec<&'a SeenPod>,
    /// Pods that have been evicted and are still there.
    pub terminating: Vec<&'a SeenPod>,
}

impl<'a> Drain<'a> {
    /// `pods`: those of a machine that don't [stay](SeenPod::stays).
    pub fn of(pods: &'a [SeenPod]) -> Self {
        let (terminating, evict): (Vec<&SeenPod>, Vec<&SeenPod>) =
            pods.iter().partition(|pod| pod.deleting);
        let evict = evict.into_iter().take(MAX_EVICTIONS).collect();
        Self { evict, terminating }
    }

    /// The pod that should have ended first, if its grace period is over for longer than a kubelet
    /// needs.
    pub fn stuck(&self, now: Timestamp) -> Option<String> {
        let ends = self.terminating.iter().filter_map(|pod| Some((pod.ends.as_ref()?.0, pod)));
        let (ends, pod) = ends.min_by_key(|(ends, _)| *ends)?;
        let is_over = elapsed(ends, now) > KILL_TIME;
        is_over.then(|| {
            format!(
                "pod {}/{} is terminating, and its grace period ended at {ends}; remove its finalizers, or check the kubelet",
                pod.namespace, pod.name
            )
        })
    }

    pub fn is_done(&self) -> bool {
        self.evict.is_empty() && self.terminating.is_empty()
    }
}

/// Whether a machine that gets a slot now reboots without being drained: the only node of the
/// cluster, and the only control-plane node if the controller runs on it, without which the drain
/// would not end. That other nodes are cordoned is no reason: budgets are obeyed.
pub(super) fn is_skipped(state: &MachineState<'_>, cluster: &ClusterMachines) -> bool {
    let is_only_control_plane = state.is_control_plane() && cluster.control_plane.len() <= 1;
    let has_controller = cluster.own_node.as_deref().is_none_or(|node| node == state.name());
    is_only_control_plane && has_controller || cluster.nodes <= 1
}
