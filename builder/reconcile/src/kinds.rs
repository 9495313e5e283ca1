//! The resource kinds that mosb reads without a library's type, and those that it writes.

use std::fmt;

use kube::core::ApiResource;

/// The API group of machine configuration.
pub const GROUP: &str = "machineconfiguration.openshift.io";
/// Where the Jobs on machines run, whatever namespace the controller is in.
pub const ROLLOUT_NAMESPACE: &str = "mosb-rollout";
const RBAC: &str = "rbac.authorization.k8s.io";

/// A resource kind: group, version, plural.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    MachineOsConfig,
    MachineOsBuild,
    MachineConfigPool,
    MachineConfig,
    /// Configuration of an OpenShift release.
    ControllerConfig,
    KubeletConfig,
    ContainerRuntimeConfig,
    /// Mirrors for images that are pulled by digest.
    ImageDigestMirrorSet,
    /// Mirrors for images that are pulled by tag.
    ImageTagMirrorSet,
    /// The older form of ImageDigestMirrorSet.
    ImageContentSourcePolicy,
    /// `Image` of OpenShift's configuration: which registries may be used.
    ImageConfig,
    Job,
    Pod,
    Node,
    /// A Job of a roll-out, in the namespace of these Jobs.
    NodeJob,
    /// `Build` of OpenShift's API.
    OpenShiftBuild,
    ConfigMap,
    Secret,
    ServiceAccount,
    Role,
    RoleBinding,
}

impl Kind {
    /// Group, version, name and plural.
    fn names(self) -> (&'static str, &'static str, &'static str, &'static str) {
        match self {
            Self::MachineOsConfig => (GROUP, "v1", "MachineOSConfig", "machineosconfigs"),
            Self::MachineOsBuild => (GROUP, "v1", "MachineOSBuild", "machineosbuilds"),
            Self::MachineConfigPool => (GROUP, "v1", "MachineConfigPool", "machineconfigpools"),
            Self::MachineConfig => (GROUP, "v1", "MachineConfig", "machineconfigs"),
            Self::ControllerConfig => (GROUP, "v1", "ControllerConfig", "controllerconfigs"),
            Self::KubeletConfig => (GROUP, "v1", "KubeletConfig", "kubeletconfigs"),
            Self::ContainerRuntimeConfig => {
                (GROUP, "v1", "ContainerRuntimeConfig", "containerruntimeconfigs")
            }
            Self::ImageDigestMirrorSet => {
                ("config.openshift.io", "v1", "ImageDigestMirrorSet", "imagedigestmirrorsets")
            }
            Self::ImageTagMirrorSet => {
                ("config.openshift.io", "v1", "ImageTagMirrorSet", "imagetagmirrorsets")
            }
            Self::ImageConfig => ("config.openshift.io", "v1", "Image", "images"),
            Self::ImageContentSourcePolicy => (
                "operator.openshift.io",
                "v1alpha1",
                "ImageContentSourcePolicy",
                "imagecontentsourcepolicies",
            ),
            Self::Job | Self::NodeJob => ("batch", "v1", "Job", "jobs"),
            Self::Node => ("", "v1", "Node", "nodes"),
            Self::Pod => ("", "v1", "Pod", "pods"),
            Self::OpenShiftBuild => ("build.openshift.io", "v1", "Build", "builds"),
            Self::ConfigMap => ("", "v1", "ConfigMap", "configmaps"),
            Self::Secret => ("", "v1", "Secret", "secrets"),
            Self::ServiceAccount => ("", "v1", "ServiceAccount", "serviceaccounts"),
            Self::Role => (RBAC, "v1", "Role", "roles"),
            Self::RoleBinding => (RBAC, "v1", "RoleBinding", "rolebindings"),
        }
    }

    pub fn resource(self) -> ApiResource {
        let (group, version, kind, plural) = self.names();
        ApiResource {
            group: group.to_owned(),
            version: version.to_owned(),
            api_version: if group.is_empty() {
                version.to_owned()
            } else {
                format!("{group}/{version}")
            },
            kind: kind.to_owned(),
            plural: plural.to_owned(),
        }
    }

    /// As the API spells it.
    pub fn as_str(self) -> &'static str {
        self.names().2
    }

    /// The namespace of its objects, if they have one. `own`: that of the controller.
    pub fn namespace(self, own: &str) -> Option<&str> {
        if self == Self::NodeJob {
            Some(ROLLOUT_NAMESPACE)
        } else {
            self.is_namespaced().then_some(own)
        }
    }

    /// Whether its objects are in a namespace.
    pub fn is_namespaced(self) -> bool {
        match self {
            Self::MachineOsConfig
            | Self::MachineOsBuild
            | Self::MachineConfigPool
            | Self::MachineConfig
            | Self::ControllerConfig
            | Self::KubeletConfig
            | Self::ContainerRuntimeConfig
            | Self::ImageDigestMirrorSet
            | Self::ImageTagMirrorSet
            | Self::ImageContentSourcePolicy
            | Self::ImageConfig
            | Self::Node => false,
            Self::Job
            | Self::NodeJob
            | Self::Pod
            | Self::OpenShiftBuild
            | Self::ConfigMap
            | Self::Secret
            | Self::ServiceAccount
            | Self::Role
            | Self::RoleBinding => true,
        }
    }

    /// Whether it is Kubernetes' own, for which the API server has strategic merge patches.
    pub fn is_built_in(self) -> bool {
        !self.names().0.ends_with(".openshift.io")
    }

    /// Whether clusters without it are supported.
    pub fn is_optional(self) -> bool {
        match self {
            Self::MachineOsConfig
            | Self::MachineOsBuild
            | Self::MachineConfigPool
            | Self::MachineConfig
            | Self::Job
            | Self::Pod
            | Self::Node
            | Self::NodeJob
            | Self::ConfigMap
            | Self::Secret
            | Self::ServiceAccount
            | Self::Role
            | Self::RoleBinding => false,
            Self::ControllerConfig
            | Self::KubeletConfig
            | Self::ContainerRuntimeConfig
            | Self::ImageDigestMirrorSet
            | Self::ImageTagMirrorSet
            | Self::ImageContentSourcePolicy
            | Self::ImageConfig
            | Self::OpenShiftBuild => true,
        }
    }
}

/// As messages name it: `machineosbuild`.
impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.as_str().to_lowercase())
    }
}
