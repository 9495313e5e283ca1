//! The kinds that boot images depend on. Each may be missing in a cluster.

use std::fmt;

use kube::core::ApiResource;

/// The namespace of the sets of OpenShift's machine API.
pub const MACHINE_API_NAMESPACE: &str = "openshift-machine-api";

const MACHINE_API: &str = "machine.openshift.io";
const CLUSTER_API: &str = "cluster.x-k8s.io";
const INFRASTRUCTURE: &str = "infrastructure.cluster.x-k8s.io";
const OPERATOR: &str = "operator.openshift.io";
const CONFIG: &str = "config.openshift.io";

/// A kind that boot images depend on. Several versions of it may be served.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum BootImageKind {
    /// MachineSet of OpenShift's machine API.
    MachineApiMachineSet,
    ControlPlaneMachineSet,
    /// MachineSet of Cluster API.
    ClusterApiMachineSet,
    MachineDeployment,
    /// `Cluster` of Cluster API.
    Cluster,
    /// Has the region of the machines of a Cluster.
    AwsCluster,
    /// Names the network credentials of the machines of a Cluster.
    OpenStackCluster,
    AwsMachineTemplate,
    GcpMachineTemplate,
    AzureMachineTemplate,
    VSphereMachineTemplate,
    OpenStackMachineTemplate,
    Metal3MachineTemplate,
    KubevirtMachineTemplate,
    BootImageHistory,
    BootImageStatus,
    MachineConfiguration,
    ClusterVersion,
    Infrastructure,
}

impl BootImageKind {
    pub const ALL: [Self; 19] = [
        Self::MachineApiMachineSet,
        Self::ControlPlaneMachineSet,
        Self::ClusterApiMachineSet,
        Self::MachineDeployment,
        Self::Cluster,
        Self::AwsCluster,
        Self::OpenStackCluster,
        Self::AwsMachineTemplate,
        Self::GcpMachineTemplate,
        Self::AzureMachineTemplate,
        Self::VSphereMachineTemplate,
        Self::OpenStackMachineTemplate,
        Self::Metal3MachineTemplate,
        Self::KubevirtMachineTemplate,
        Self::BootImageHistory,
        Self::BootImageStatus,
        Self::MachineConfiguration,
        Self::ClusterVersion,
        Self::Infrastructure,
    ];

    pub const TEMPLATES: [Self; 7] = [
        Self::AwsMachineTemplate,
        Self::GcpMachineTemplate,
        Self::AzureMachineTemplate,
        Self::VSphereMachineTemplate,
        Self::OpenStackMachineTemplate,
        Self::Metal3MachineTemplate,
        Self::KubevirtMachineTemplate,
    ];

    /// Group, kind and plural.
    fn names(self) -> (&'static str, &'static str, &'static str) {
        match self {
            Self::MachineApiMachineSet => (MACHINE_API, "MachineSet", "machinesets"),
            Self::ControlPlaneMachineSet => {
                (MACHINE_API, "ControlPlaneMachineSet", "controlplanemachinesets")
            }
            Self::ClusterApiMachineSet => (CLUSTER_API, "MachineSet", "machinesets"),
            Self::MachineDeployment => (CLUSTER_API, "MachineDeployment", "machinedeployments"),
            Self::Cluster => (CLUSTER_API, "Cluster", "clusters"),
            Self::AwsCluster => (INFRASTRUCTURE, "AWSCluster", "awsclusters"),
            Self::OpenStackCluster => (INFRASTRUCTURE, "OpenStackCluster", "openstackclusters"),
            Self::AwsMachineTemplate => {
                (INFRASTRUCTURE, "AWSMachineTemplate", "awsmachinetemplates")
            }
            Self::GcpMachineTemplate => {
                (INFRASTRUCTURE, "GCPMachineTemplate", "gcpmachinetemplates")
            }
            Self::AzureMachineTemplate => {
                (INFRASTRUCTURE, "AzureMachineTemplate", "azuremachinetemplates")
            }
            Self::VSphereMachineTemplate => {
                (INFRASTRUCTURE, "VSphereMachineTemplate", "vspheremachinetemplates")
            }
            Self::OpenStackMachineTemplate => {
                (INFRASTRUCTURE, "OpenStackMachineTemplate", "openstackmachinetemplates")
            }
            Self::Metal3MachineTemplate => {
                (INFRASTRUCTURE, "Metal3MachineTemplate", "metal3machinetemplates")
            }
            Self::KubevirtMachineTemplate => {
                (INFRASTRUCTURE, "KubevirtMachineTemplate", "kubevirtmachinetemplates")
            }
            Self::BootImageHistory => (mosb_api::GROUP, "BootImageHistory", "bootimagehistories"),
            Self::BootImageStatus => ("mosb.dev", "BootImageStatus", "bootimagestatuses"),
            Self::MachineConfiguration => {
                (OPERATOR, "MachineConfiguration", "machineconfigurations")
            }
            Self::ClusterVersion => (CONFIG, "ClusterVersion", "clusterversions"),
            Self::Infrastructure => (CONFIG, "Infrastructure", "infrastructures"),
        }
    }

    pub fn group(self) -> &'static str {
        self.names().0
    }

    /// As the API spells it.
    pub fn as_str(self) -> &'static str {
        self.names().1
    }

    pub fn plural(self) -> &'static str {
        self.names().2
    }

    /// The versions to prefer, if the API server has them. Templates are read at the paths of the
    /// version that the API server prefers.
    pub(super) fn preferred_versions(self) -> &'static [&'static str] {
        match self {
            Self::ClusterApiMachineSet | Self::MachineDeployment | Self::Cluster => {
                &["v1beta2", "v1beta1"]
            }
            _ => &[],
        }
    }

    /// The only namespace that is watched; none for all, and for cluster-scoped kinds.
    pub(super) fn namespace(self) -> Option<&'static str> {
        matches!(self, Self::MachineApiMachineSet | Self::ControlPlaneMachineSet)
            .then_some(MACHINE_API_NAMESPACE)
    }

    /// Whether it is one of the kinds of infrastructure machine templates.
    pub fn is_template(self) -> bool {
        Self::TEMPLATES.contains(&self)
    }

    /// The kind of this group and name.
    pub fn find(group: &str, kind: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|one| one.group() == group && one.as_str() == kind)
    }

    pub fn resource(self, version: &str) -> ApiResource {
        let (group, kind, plural) = self.names();
        ApiResource {
            group: group.to_owned(),
            version: version.to_owned(),
            api_version: format!("{group}/{version}"),
            kind: kind.to_owned(),
            plural: plural.to_owned(),
        }
    }
}

/// `machinesets.cluster.x-k8s.io`.
impl fmt::Display for BootImageKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.plural(), self.group())
    }
}
