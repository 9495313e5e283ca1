//! The kinds of the cluster that no library has a type for.

use kube::core::ApiResource;

/// The API group of machine configuration.
pub const GROUP: &str = "machineconfiguration.openshift.io";

/// A kind of the cluster: group, version, plural.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Asks for images of a pool.
    MachineOsConfig,
    /// One build.
    MachineOsBuild,
    /// A pool of machines.
    MachineConfigPool,
    /// A piece of configuration, or a rendered one.
    MachineConfig,
    /// What an OpenShift release says.
    ControllerConfig,
    /// Settings of kubelets, of which a cluster makes MachineConfigs.
    KubeletConfig,
    /// Settings of container runtimes, the same.
    ContainerRuntimeConfig,
    /// Mirrors of images by digest.
    ImageDigestMirrorSet,
    /// Mirrors of images by tag.
    ImageTagMirrorSet,
    /// Mirrors by digest, older.
    ImageContentSourcePolicy,
    /// Which registries may be used.
    ImageConfig,
}

impl Kind {
    /// As a client names it.
    pub fn resource(self) -> ApiResource {
        let (group, version, kind, plural) = match self {
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
        };
        ApiResource {
            group: group.to_owned(),
            version: version.to_owned(),
            api_version: format!("{group}/{version}"),
            kind: kind.to_owned(),
            plural: plural.to_owned(),
        }
    }

    /// Whether a cluster may well be without it.
    pub fn is_optional(self) -> bool {
        match self {
            Self::MachineOsConfig
            | Self::MachineOsBuild
            | Self::MachineConfigPool
            | Self::MachineConfig => false,
            Self::ControllerConfig
            | Self::KubeletConfig
            | Self::ContainerRuntimeConfig
            | Self::ImageDigestMirrorSet
            | Self::ImageTagMirrorSet
            | Self::ImageContentSourcePolicy
            | Self::ImageConfig => true,
        }
    }
}
