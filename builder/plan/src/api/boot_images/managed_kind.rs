//! The kinds of machine sets whose boot image can be managed.

use std::fmt;

/// A kind of machine set. `machinesets` exist in two groups, so the group is always part of the name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ManagedKind {
    /// `machinesets.machine.openshift.io`
    MachineApiMachineSets,
    /// `controlplanemachinesets.machine.openshift.io`
    ControlPlaneMachineSets,
    /// `machinesets.cluster.x-k8s.io`
    ClusterApiMachineSets,
    /// `machinedeployments.cluster.x-k8s.io`
    MachineDeployments,
}

const MACHINE_API: &str = "machine.openshift.io";
const CLUSTER_API: &str = "cluster.x-k8s.io";

impl ManagedKind {
    pub const ALL: [Self; 4] = [
        Self::MachineApiMachineSets,
        Self::ControlPlaneMachineSets,
        Self::ClusterApiMachineSets,
        Self::MachineDeployments,
    ];

    /// The kind with this plural name in this API group.
    pub fn of(resource: &str, api_group: &str) -> Option<Self> {
        Self::ALL
            .into_iter()
            .find(|kind| (kind.resource(), kind.api_group()) == (resource, api_group))
    }

    /// The plural name, as `resource` of a machine manager has it.
    pub fn resource(self) -> &'static str {
        match self {
            Self::MachineApiMachineSets | Self::ClusterApiMachineSets => "machinesets",
            Self::ControlPlaneMachineSets => "controlplanemachinesets",
            Self::MachineDeployments => "machinedeployments",
        }
    }

    pub fn api_group(self) -> &'static str {
        match self {
            Self::MachineApiMachineSets | Self::ControlPlaneMachineSets => MACHINE_API,
            Self::ClusterApiMachineSets | Self::MachineDeployments => CLUSTER_API,
        }
    }
}

impl fmt::Display for ManagedKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.resource(), self.api_group())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_kind_is_named_by_resource_and_group() {
        for kind in ManagedKind::ALL {
            assert_eq!(ManagedKind::of(kind.resource(), kind.api_group()), Some(kind), "{kind}");
        }
        for (resource, group) in [
            ("machinesets", ""),
            ("MachineSet", MACHINE_API),
            ("controlplanemachinesets", CLUSTER_API),
            ("machinedeployments", MACHINE_API),
        ] {
            assert_eq!(ManagedKind::of(resource, group), None, "{resource}.{group}");
        }
    }
}
