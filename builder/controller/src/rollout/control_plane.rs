//! Whether a control-plane machine may reboot now. Pure.

use super::lookup::ControlPlaneHealth;
use super::snapshot::ControlPlaneNode;

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
