//! The commands that look at an image.

use clap::{Args, ValueEnum};

/// `mosb diff`.
#[derive(Debug, Args)]
pub struct Diff {
    /// The side before
    #[arg(value_name = "CONFIG|IMAGE")]
    pub from: String,
    /// The side after
    #[arg(value_name = "CONFIG|IMAGE")]
    pub to: String,
    /// The base that a CONFIG would be built on; without, its own spec.osImageURL
    #[arg(long, value_name = "IMAGE")]
    pub base: Option<String>,
    /// Which image of an index, as linux/amd64
    #[arg(long, value_name = "OS/ARCH")]
    pub platform: Option<String>,
}

/// `mosb inspect`.
#[derive(Debug, Args)]
pub struct Inspect {
    /// host/repo[:tag][@digest], or oci:DIR[:TAG][@digest]
    pub image: String,
    /// Which image of an index, as linux/amd64
    #[arg(long, value_name = "OS/ARCH")]
    pub platform: Option<String>,
}

/// `mosb files`.
#[derive(Debug, Args)]
pub struct Files {
    /// host/repo[:tag][@digest], or oci:DIR[:TAG][@digest]
    pub image: String,
    /// Only this layer of those that the build added
    #[arg(long, value_enum)]
    pub layer: Option<LayerChoice>,
    /// Which image of an index, as linux/amd64
    #[arg(long, value_name = "OS/ARCH")]
    pub platform: Option<String>,
}

/// `--layer`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum LayerChoice {
    /// The one that holds the rendered config.
    Config,
}
