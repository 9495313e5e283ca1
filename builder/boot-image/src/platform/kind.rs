//! Platforms of OpenShift and kinds of templates of Cluster API.

use std::convert::Infallible;
use std::fmt;
use std::str::FromStr;

/// `status.platformStatus.type` of `Infrastructure` `cluster`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PlatformType {
    Aws,
    Azure,
    BareMetal,
    Gcp,
    KubeVirt,
    OpenStack,
    VSphere,
    /// `Nutanix`, `None` and all others, whose boot images are changed by hand.
    Other(String),
}

impl FromStr for PlatformType {
    type Err = Infallible;
    fn from_str(name: &str) -> Result<Self, Self::Err> {
        Ok(match name {
            "AWS" => Self::Aws,
            "Azure" => Self::Azure,
            "BareMetal" => Self::BareMetal,
            "GCP" => Self::Gcp,
            "KubeVirt" => Self::KubeVirt,
            "OpenStack" => Self::OpenStack,
            "VSphere" => Self::VSphere,
            other => Self::Other(other.chars().take(64).collect()),
        })
    }
}

impl fmt::Display for PlatformType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Aws => "AWS",
            Self::Azure => "Azure",
            Self::BareMetal => "BareMetal",
            Self::Gcp => "GCP",
            Self::KubeVirt => "KubeVirt",
            Self::OpenStack => "OpenStack",
            Self::VSphere => "VSphere",
            Self::Other(name) => name,
        })
    }
}

/// The infrastructure machine templates that mosb can read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum TemplateKind {
    Aws,
    Azure,
    Gcp,
    KubeVirt,
    Metal3,
    OpenStack,
    VSphere,
}

impl TemplateKind {
    pub const ALL: [Self; 7] = [
        Self::Aws,
        Self::Azure,
        Self::Gcp,
        Self::KubeVirt,
        Self::Metal3,
        Self::OpenStack,
        Self::VSphere,
    ];

    /// `AWSMachineTemplate`, …
    pub fn kind(self) -> &'static str {
        match self {
            Self::Aws => "AWSMachineTemplate",
            Self::Azure => "AzureMachineTemplate",
            Self::Gcp => "GCPMachineTemplate",
            Self::KubeVirt => "KubevirtMachineTemplate",
            Self::Metal3 => "Metal3MachineTemplate",
            Self::OpenStack => "OpenStackMachineTemplate",
            Self::VSphere => "VSphereMachineTemplate",
        }
    }

    /// By the template's `kind`; none for a provider that mosb does not know.
    pub fn from_kind(kind: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|one| one.kind() == kind)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_read_as_they_are_written() {
        let platforms =
            ["AWS", "Azure", "BareMetal", "GCP", "KubeVirt", "OpenStack", "VSphere", "Nutanix"];
        for name in platforms {
            let platform: PlatformType = name.parse().unwrap();
            assert_eq!(platform.to_string(), name);
            assert_eq!(matches!(platform, PlatformType::Other(_)), name == "Nutanix");
        }
        for kind in TemplateKind::ALL {
            assert_eq!(TemplateKind::from_kind(kind.kind()), Some(kind));
        }
        assert_eq!(TemplateKind::from_kind("NutanixMachineTemplate"), None);
    }
}
