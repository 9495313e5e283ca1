//! What `preflight` takes.

use clap::Args;

/// `mosb preflight`.
#[derive(Debug, Args)]
pub struct Preflight {
    /// host/repo[:tag][@digest]
    #[arg(value_name = "IMAGE", required = true)]
    pub images: Vec<String>,
    /// Where later images are pushed to
    #[arg(long, value_name = "REPO")]
    pub push: Option<String>,
    /// What the machines are, as linux/amd64
    #[arg(long, value_name = "OS/ARCH")]
    pub platform: Option<String>,
    /// The cluster's own OS image, whose release and architecture the images must have
    #[arg(long, value_name = "IMAGE")]
    pub base: Option<String>,
}
