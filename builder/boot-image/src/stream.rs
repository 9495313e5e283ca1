//! A stream: the images of one release on all platforms, in the format of Fedora CoreOS and RHEL
//! CoreOS. Any part may be missing, so every field is optional; unknown fields are ignored.

use std::collections::BTreeMap;

use serde::Deserialize;

use crate::Architecture;

#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct Stream {
    /// `stable`, `rhel-9.6`.
    pub stream: Option<String>,
    /// By RPM name of the architecture.
    pub architectures: BTreeMap<String, ArchitectureImages>,
}

/// The images of one architecture.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct ArchitectureImages {
    /// By platform: `aws`, `metal`, `openstack`, `vmware`, …
    pub artifacts: BTreeMap<String, Artifact>,
    pub images: Images,
    #[serde(rename = "rhel-coreos-extensions")]
    pub extensions: Extensions,
}

/// Files to download for a platform.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct Artifact {
    pub release: Option<String>,
    /// By format, `qcow2.xz` for example.
    pub formats: BTreeMap<String, Format>,
}

/// The files of a format.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct Format {
    pub disk: Option<File>,
}

/// A file to download.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct File {
    pub location: Option<String>,
    /// Of the file as it is at its location, often compressed.
    pub sha256: Option<String>,
}

/// Images that exist in clouds.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct Images {
    pub aws: Option<Regions>,
    pub gcp: Option<GcpImage>,
    pub kubevirt: Option<KubevirtImage>,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct Regions {
    pub regions: BTreeMap<String, RegionImage>,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct RegionImage {
    pub release: Option<String>,
    pub image: Option<String>,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct GcpImage {
    pub release: Option<String>,
    pub project: Option<String>,
    pub name: Option<String>,
}

impl GcpImage {
    /// `projects/<project>/global/images/<name>`.
    pub fn path(&self) -> Option<String> {
        let (project, name) = (self.project.as_deref()?, self.name.as_deref()?);
        Some(format!("projects/{project}/global/images/{name}"))
    }
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct KubevirtImage {
    pub release: Option<String>,
    pub image: Option<String>,
    #[serde(rename = "digest-ref")]
    pub digest_ref: Option<String>,
}

/// What only RHEL CoreOS has.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct Extensions {
    pub marketplace: Marketplace,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct Marketplace {
    /// By plan: `no-purchase-plan`, `ocp`, `ocp-emea`, …
    pub azure: BTreeMap<String, AzureGenerations>,
}

/// The images of a plan, by generation of the virtual hardware.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct AzureGenerations {
    #[serde(rename = "hyperVGen1")]
    pub gen1: Option<AzureImage>,
    #[serde(rename = "hyperVGen2")]
    pub gen2: Option<AzureImage>,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct AzureImage {
    pub publisher: Option<String>,
    pub offer: Option<String>,
    pub sku: Option<String>,
    pub version: Option<String>,
}

impl Stream {
    /// The images of an architecture.
    pub fn images_of(&self, architecture: Architecture) -> Option<&ArchitectureImages> {
        self.architectures.get(architecture.rpm_name())
    }

    /// The release of a platform's artifacts.
    pub fn release(&self, architecture: Architecture, platform: &str) -> Option<&str> {
        self.images_of(architecture)?.artifacts.get(platform)?.release.as_deref()
    }
}
