//! The resource kinds that no library has a type for.

use kube::core::ApiResource;

/// The API group of machine configuration.
pub const GROUP: &str = "machineconfiguration.openshift.io";

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
}

impl Kind {
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

    /// Whether clusters without it are supported.
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
