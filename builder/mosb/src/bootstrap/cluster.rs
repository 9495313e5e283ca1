//! The kind of cluster that an installation makes.

use clap::ValueEnum;

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Cluster {
    /// MachineOSConfigs for the installer, which creates the rest.
    Openshift,
    /// All first manifests of a cluster, and its machines' Ignition configs.
    Kubernetes,
}

impl Cluster {
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Openshift => "openshift",
            Self::Kubernetes => "kubernetes",
        }
    }
}
