//! Which machines get a slot. Pure.
//!
//! Input: the machines of a pool, reduced to what decides. Output: the machines that get a slot
//! now, in order, or why none does. Invariant: with these slots, no more machines are unavailable
//! than the pool allows, unless they were without us.

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;

use super::lookup::ControlPlaneHealth;
use super::snapshot::ControlPlaneNode;

/// Without a policy, two machines that failed stop a pool.
pub(super) const MAX_FAILED: usize = 1;

/// A machine of the pool, reduced to what decides about slots.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct SlotCandidate<'a> {
    pub name: &'a str,
    /// Value of the label `topology.kubernetes.io/zone`.
    pub zone: Option<&'a str>,
    pub created: Option<Timestamp>,
    pub is_available: bool,
    pub has_slot: bool,
    /// It did not boot the target, fell back from it, or did not take it without a reboot.
    pub is_failed: bool,
    /// It has a slot, and is not back within the limit.
    pub is_lost: bool,
    /// It has staged the target in this boot, does not run it, and may be rebooted.
    pub is_staged: bool,
    pub is_control_plane: bool,
    /// The controller runs on it.
    pub is_own: bool,
    /// The controller runs on it, and other machines come before it.
    pub is_own_held: bool,
}

/// What a pool permits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct SlotLimits {
    pub max_unavailable: usize,
    /// Machines that may have failed.
    pub max_failed: usize,
}

/// Who gets a slot.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum SlotChoice {
    /// These machines, in this order; may be none.
    Give(Vec<String>),
    /// A control-plane node is next: look up the health of the control plane.
    LookUpControlPlane,
    /// No new slot, for this reason.
    Stopped(StopReason),
}

/// Why no machine gets a slot although some wait.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum StopReason {
    /// These machines are not back.
    Lost(Vec<String>),
    /// These machines failed at the target.
    Failed(Vec<String>),
    ControlPlane(String),
}

/// How many machines of a pool may be unavailable at once: a percentage is rounded down, and one is
/// always allowed, as by the Machine Config Operator.
///
/// # Errors
/// The value is neither a number nor a percentage.
pub(super) fn max_unavailable(
    value: Option<&IntOrString>,
    machines: usize,
) -> Result<usize, String> {
    let wrong = |value: &str| {
        format!("spec.maxUnavailable: {value:?} is neither a number nor a percentage; set 1 or 10%")
    };
    let most = match value {
        None => 1,
        Some(IntOrString::Int(number)) => {
            usize::try_from(*number).map_err(|_| wrong(&number.to_string()))?
        }
        Some(IntOrString::String(text)) => {
            let percent = text.strip_suffix('%').and_then(|percent| percent.parse::<usize>().ok());
            let percent = percent.filter(|percent| *percent <= 100);
            percent.ok_or_else(|| wrong(text))? * machines / 100
        }
    };
    Ok(most.max(1))
}

/// Chooses the machines that get a slot now.
pub(super) fn choose(
    machines: &[SlotCandidate<'_>],
    limits: SlotLimits,
    control_plane: &[ControlPlaneNode],
    health: Option<&ControlPlaneHealth>,
) -> SlotChoice {
    let is_waiting = |one: &&SlotCandidate<'_>| {
        one.is_staged && one.is_available && !one.has_slot && !one.is_own_held
    };
    let mut waiting: Vec<&SlotCandidate<'_>> = machines.iter().filter(is_waiting).collect();
    if waiting.is_empty() {
        return SlotChoice::Give(Vec::new());
    }
    if let Some(stop) = stop(machines, limits.max_failed) {
        return SlotChoice::Stopped(stop);
    }
    let unavailable = machines.iter().filter(|one| !one.is_available || one.has_slot).count();
    let capacity = limits.max_unavailable.saturating_sub(unavailable);
    waiting.sort_by_key(|one| (one.is_own, one.zone.is_none(), one.zone, one.created, one.name));
    let mut given: Vec<String> = Vec::new();
    let mut has_control_plane = control_plane.iter().any(|node| node.has_slot);
    let mut stopped = None;
    for one in waiting {
        if given.len() >= capacity {
            break;
        }
        if one.is_control_plane {
            if has_control_plane {
                continue;
            }
            match ControlPlaneCheck::of(one.name, control_plane, health) {
                ControlPlaneCheck::Healthy => {}
                ControlPlaneCheck::LookUp => return SlotChoice::LookUpControlPlane,
                ControlPlaneCheck::Unhealthy(why) => {
                    stopped = Some(StopReason::ControlPlane(why));
                    continue;
                }
            }
            has_control_plane = true;
        }
        given.push(one.name.to_owned());
    }
    match stopped {
        Some(reason) if given.is_empty() => SlotChoice::Stopped(reason),
        _ => SlotChoice::Give(given),
    }
}

/// One lost machine, or more that failed than are permitted, stop the pool whatever it allows.
fn stop(machines: &[SlotCandidate<'_>], max_failed: usize) -> Option<StopReason> {
    let names = |is: fn(&SlotCandidate<'_>) -> bool| -> Vec<String> {
        machines.iter().filter(|one| is(one)).map(|one| one.name.to_owned()).collect()
    };
    let lost = names(|one| one.is_lost);
    if !lost.is_empty() {
        return Some(StopReason::Lost(lost));
    }
    let failed = names(|one| one.is_failed);
    (failed.len() > max_failed).then_some(StopReason::Failed(failed))
}

/// Whether the control plane can lose a node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum ControlPlaneCheck {
    /// Its health is not known in this pass.
    LookUp,
    Healthy,
    /// Why it must not lose one now.
    Unhealthy(String),
}

impl ControlPlaneCheck {
    /// Whether it can lose the node of this name. `health`: as looked up in this pass.
    pub fn of(name: &str, nodes: &[ControlPlaneNode], health: Option<&ControlPlaneHealth>) -> Self {
        let others = nodes.iter().filter(|node| node.name != name);
        let not_ready: Vec<&str> =
            others.filter(|node| !node.ready).map(|node| &*node.name).collect();
        if !not_ready.is_empty() {
            return Self::Unhealthy(format!("not Ready: {}", not_ready.join(", ")));
        }
        match health {
            None => Self::LookUp,
            Some(ControlPlaneHealth::Unhealthy(why)) => Self::Unhealthy(why.clone()),
            Some(ControlPlaneHealth::Healthy { .. }) => Self::Healthy,
        }
    }
}
