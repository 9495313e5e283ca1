//! What `preflight` takes.

use std::path::PathBuf;

use clap::Args;

use super::ClusterKind;

/// `mosb preflight`.
#[derive(Debug, Args)]
pub struct Preflight {
    /// host/repo[:tag][@digest]
    #[arg(value_name = "IMAGE", required_unless_present = "manifests")]
    pub images: Vec<String>,
    /// Check the images of an installation: the cluster's first manifests, as for `mosb bootstrap`
    #[arg(long, value_name = "DIR", num_args = 1.., conflicts_with_all = ["images", "push", "base"])]
    pub manifests: Vec<PathBuf>,
    /// The kind of cluster, as for `mosb bootstrap`
    #[arg(long = "for", value_name = "CLUSTER", value_enum, conflicts_with = "images")]
    pub cluster: Option<ClusterKind>,
    /// Credentials that machines pull their image with, instead of a Secret among the manifests
    #[arg(long, value_name = "FILE", conflicts_with = "images")]
    pub pull_secret: Option<PathBuf>,
    /// The repository for later images
    #[arg(long, value_name = "REPO")]
    pub push: Option<String>,
    /// The platform of the machines, such as linux/amd64 [default: that of the cluster's own OS image]
    #[arg(long, value_name = "OS/ARCH")]
    pub platform: Option<String>,
    /// The cluster's own OS image, whose release and architecture the images must have
    #[arg(long, value_name = "IMAGE")]
    pub base: Option<String>,
}
