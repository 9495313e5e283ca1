//! The inputs of an image, as they are typed for `build` and `plan`.

use std::path::PathBuf;

use clap::{Args, ValueEnum};

use mosb_plan::api::BuildOn;
use mosb_plan::plan::MethodChoice;

/// The inputs of an image.
#[derive(Debug, Args)]
pub struct Inputs {
    /// The rendered MachineConfig: a YAML or JSON file, or - for stdin
    #[arg(value_name = "CONFIG")]
    pub config: PathBuf,
    /// The base OS image [default: the config's spec.osImageURL]
    #[arg(long, value_name = "IMAGE")]
    pub base: Option<String>,
    /// The platform to select from an index, such as linux/amd64; the host's is never assumed
    #[arg(long, value_name = "OS/ARCH")]
    pub platform: Option<String>,
    /// The build method: auto (direct if possible), direct, containerfile
    #[arg(long, default_value = "auto", value_parser = |s: &str| s.parse::<MethodChoice>(), value_name = "METHOD")]
    pub method: MethodChoice,
    /// Your own Containerfile, which runs before or after the config is written
    #[arg(long, value_name = "FILE")]
    pub containerfile: Option<PathBuf>,
    /// The directory that your Containerfile copies of; what it uses of it counts as an input
    #[arg(long, value_name = "DIR", requires = "containerfile")]
    pub context: Option<PathBuf>,
    /// The image with the packages of spec.extensions
    #[arg(long, value_name = "IMAGE")]
    pub extensions_image: Option<String>,
    /// Certificates (PEM) to add to the trust store
    #[arg(long, value_name = "FILE")]
    pub trust_bundle: Option<PathBuf>,
    /// An ARG of your Containerfile; may be repeated. It can be read in the image's history
    #[arg(long, value_name = "K=V", requires = "containerfile")]
    pub build_arg: Vec<String>,
    /// The image with what must be run, which build --prepare-only made of the same inputs: host/repo@sha256:…, or oci:DIR@sha256:…
    #[arg(long, value_name = "IMAGE")]
    pub prepared: Option<String>,
    /// A folder for RUN lines, such as entitlements: read-only, or a copy to write to; may be repeated. Never in a layer
    #[arg(long, value_name = "SRC:DST[:ro|copy]")]
    pub volume: Vec<String>,
    /// How buildah isolates RUN lines from this machine
    #[arg(long, value_enum)]
    pub isolation: Option<Isolation>,
    /// How buildah stores layers
    #[arg(long, value_enum, value_name = "DRIVER")]
    pub storage_driver: Option<StorageDriver>,
    /// The base may itself be built from a rendered config
    #[arg(long)]
    pub on_top: bool,
    /// As the annotation mosb.dev/build-on of the pool: with every-config, the image brings files below /var to machines that run an older one [default: os-change if the Machine Config Operator rendered the config, else every-config]
    #[arg(long, value_parser = |s: &str| s.parse::<BuildOn>(), value_name = "CONFIGS")]
    pub build_on: Option<BuildOn>,
}

/// `--isolation`, as for buildah.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Isolation {
    /// A container by an OCI runtime.
    Oci,
    /// The same, without root.
    Rootless,
    /// A chroot.
    Chroot,
}

impl Isolation {
    /// As buildah spells it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Oci => "oci",
            Self::Rootless => "rootless",
            Self::Chroot => "chroot",
        }
    }
}

/// `--storage-driver`, as for buildah.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum StorageDriver {
    /// Layers on each other.
    Overlay,
    /// A whole copy for each layer.
    Vfs,
}

impl StorageDriver {
    /// As buildah spells it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Overlay => "overlay",
            Self::Vfs => "vfs",
        }
    }
}

/// `mosb build`.
#[derive(Debug, Args)]
pub struct Build {
    #[command(flatten)]
    pub inputs: Inputs,
    /// The target: host/repo, or oci:DIR
    #[arg(long, value_name = "TARGET")]
    pub output: String,
    /// Write the image's digest to this file once the target has the image
    #[arg(long, value_name = "FILE")]
    pub digestfile: Option<PathBuf>,
    /// Show the plan without building
    #[arg(long)]
    pub dry_run: bool,
    /// Make only the image with what must be run, for --prepared
    #[arg(long, conflicts_with_all = ["prepared", "dry_run"])]
    pub prepare_only: bool,
}

/// `mosb plan`.
#[derive(Debug, Args)]
pub struct Plan {
    #[command(flatten)]
    pub inputs: Inputs,
    /// The target; part of the build name
    #[arg(long, value_name = "TARGET")]
    pub output: Option<String>,
    /// The config or image that machines have: shows what this one costs them
    #[arg(long, value_name = "CONFIG|IMAGE")]
    pub previous: Option<String>,
}
