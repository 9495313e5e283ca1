//! Why a machine set keeps its boot image.

use crate::Architecture;

/// A set that is left alone on purpose. Displayed as one sentence with the remedy.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Skip {
    #[error("{owner} owns it; change the boot image there")]
    Owned { owner: String },
    #[error("it belongs to MachineDeployment {deployment}, whose reference counts")]
    PartOfDeployment { deployment: String },
    #[error("its topology is managed by a ClusterClass; change the template of the class")]
    ClusterClass,
    #[error("{object} is paused; the boot image follows when it is resumed")]
    Paused { object: String },
    #[error("it is being deleted")]
    Deleting,
    #[error("machine-config-controller manages the boot images of this kind; mosb writes nothing")]
    OtherController,
    #[error("the authoritative object is the {authority}; the boot image is changed there")]
    OtherAuthority { authority: String },
    #[error("it follows the OS stream {label:?}, which the golden ConfigMap does not have")]
    OsStream { label: String },
    #[error("its machines run Windows")]
    Windows,
    #[error(
        "its architecture is unknown; set annotation \
         capacity.cluster-autoscaler.kubernetes.io/labels with kubernetes.io/arch=amd64 or another"
    )]
    NoArchitecture,
    #[error(
        "a new template would replace all its machines; allow it with annotation \
         mosb.dev/boot-image-roll: \"true\", or set its rollout strategy to OnDelete"
    )]
    RollsMachines,
    #[error("pinned ({until}); `mosb boot-images unpin` ends it")]
    Pinned { until: String },
    #[error("boot images of {platform} can't be changed without its own API; do it by hand")]
    Platform { platform: String },
    #[error("boot images of {platform} machines are managed elsewhere: {by}")]
    ManagedElsewhere { platform: String, by: String },
    #[error("{image} is not an image of the stream ({want}); set one of those to have it managed")]
    Custom { image: String, want: String },
    #[error(
        "nothing proves that {image} is an image of a stream; list it in stockImages of the \
         settings, or set annotation mosb.dev/boot-image-is-stock: \"true\""
    )]
    Unproven { image: String },
    #[error("{field} looks its image up when a machine is made; name one image to have it managed")]
    Lookup { field: String },
    #[error("the region of its cluster is unknown; set spec.region of its infrastructure object")]
    NoRegion,
    #[error("the stream has no image for region {region}; copy one there and set it by hand")]
    Region { region: String },
    #[error("the stream has no {what}; set the image by hand, or use a stream that has it")]
    NotInStream { what: String },
    #[error(
        "the settings have no image for release {release}; upload one, and add its name to images \
         of bootImages"
    )]
    NoImageForRelease { release: String },
    #[error(
        "the stream has no image of generation {generation} any more, and machines of that size \
         may not start from another; choose a size and an image of generation 2"
    )]
    Generation { generation: u8 },
    #[error("security type {security_type} needs an image made for it; set one by hand")]
    SecurityType { security_type: String },
    #[error("Azure has no images for {architecture}")]
    AzureArchitecture { architecture: Architecture },
}

impl Skip {
    /// A fixed, documented word.
    pub fn code(&self) -> &'static str {
        match self {
            Self::Owned { .. } => "owned",
            Self::PartOfDeployment { .. } => "part-of-deployment",
            Self::ClusterClass => "cluster-class",
            Self::Paused { .. } => "paused",
            Self::Deleting => "deleting",
            Self::OtherController => "other-controller",
            Self::OtherAuthority { .. } => "other-authority",
            Self::OsStream { .. } => "os-stream",
            Self::Windows => "windows",
            Self::NoArchitecture => "no-architecture",
            Self::RollsMachines => "rolls-machines",
            Self::Pinned { .. } => "pinned",
            Self::Platform { .. } => "platform",
            Self::ManagedElsewhere { .. } => "managed-elsewhere",
            Self::Custom { .. } => "custom-image",
            Self::Unproven { .. } => "unproven-image",
            Self::Lookup { .. } => "looked-up-image",
            Self::NoRegion => "no-region",
            Self::Region { .. } => "region-not-in-stream",
            Self::NotInStream { .. } => "not-in-stream",
            Self::NoImageForRelease { .. } => "no-image-for-release",
            Self::Generation { .. } => "generation-not-in-stream",
            Self::SecurityType { .. } => "security-type",
            Self::AzureArchitecture { .. } => "azure-architecture",
        }
    }

    /// Whether the set may have an old image, so that the oldest image in use is not known to be
    /// that of the stream.
    pub fn blocks_skew(&self) -> bool {
        match self {
            Self::Owned { .. }
            | Self::ClusterClass
            | Self::Paused { .. }
            | Self::NoArchitecture
            | Self::RollsMachines
            | Self::Pinned { .. }
            | Self::Custom { .. }
            | Self::Unproven { .. }
            | Self::Lookup { .. }
            | Self::NoRegion
            | Self::Region { .. }
            | Self::NotInStream { .. }
            | Self::NoImageForRelease { .. }
            | Self::Generation { .. }
            | Self::SecurityType { .. } => true,
            Self::PartOfDeployment { .. }
            | Self::Deleting
            | Self::OtherController
            | Self::OtherAuthority { .. }
            | Self::OsStream { .. }
            | Self::Windows
            | Self::Platform { .. }
            | Self::ManagedElsewhere { .. }
            | Self::AzureArchitecture { .. } => false,
        }
    }
}
