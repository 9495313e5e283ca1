//! The commands that inspect an image.

use clap::{Args, ValueEnum};

/// `mosb diff`.
#[derive(Debug, Args)]
pub struct Diff {
    /// The old config or image
    #[arg(value_name = "CONFIG|IMAGE")]
    pub from: String,
    /// The new config or image
    #[arg(value_name = "CONFIG|IMAGE")]
    pub to: String,
    /// The base of a CONFIG [default: its spec.osImageURL]
    #[arg(long, value_name = "IMAGE")]
    pub base: Option<String>,
    /// The platform to select from an index, such as linux/amd64
    #[arg(long, value_name = "OS/ARCH")]
    pub platform: Option<String>,
}

/// `mosb inspect`.
#[derive(Debug, Args)]
pub struct Inspect {
    /// host/repo[:tag][@digest], or oci:DIR[:TAG][@digest]
    pub image: String,
    /// The platform to select from an index, such as linux/amd64
    #[arg(long, value_name = "OS/ARCH")]
    pub platform: Option<String>,
}

/// `mosb files`.
#[derive(Debug, Args)]
pub struct Files {
    /// host/repo[:tag][@digest], or oci:DIR[:TAG][@digest]
    pub image: String,
    /// Only this one of the layers that the build added
    #[arg(long, value_enum)]
    pub layer: Option<LayerChoice>,
    /// The platform to select from an index, such as linux/amd64
    #[arg(long, value_name = "OS/ARCH")]
    pub platform: Option<String>,
}

/// `--layer`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum LayerChoice {
    /// The layer with the rendered config.
    Config,
}
