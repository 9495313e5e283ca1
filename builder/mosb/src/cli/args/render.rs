//! What `render` takes.

use std::path::PathBuf;

use clap::Args;

/// `mosb render`.
#[derive(Debug, Args)]
pub struct Render {
    /// MachineConfigs: files, directories (their *.yaml, *.yml and *.json), or - for stdin
    #[arg(value_name = "FILE|DIR|-", required = true)]
    pub inputs: Vec<PathBuf>,
    /// The pool's name
    #[arg(long, value_name = "NAME")]
    pub pool: String,
    /// The MachineConfigPool, for its selector [default: one among the inputs; without one, the role label decides]
    #[arg(long, value_name = "FILE")]
    pub pool_file: Option<PathBuf>,
    /// The ControllerConfig, for the release's images [default: one among the inputs]
    #[arg(long, value_name = "FILE")]
    pub controller_config: Option<PathBuf>,
    /// The base OS image, instead of the ControllerConfig's
    #[arg(long, value_name = "IMAGE@DIGEST")]
    pub os_image: Option<String>,
    /// The extensions image, instead of the ControllerConfig's
    #[arg(long, value_name = "IMAGE@DIGEST")]
    pub extensions_image: Option<String>,
    /// Resolve image tags to their current digests
    #[arg(long, conflicts_with = "offline")]
    pub resolve_tags: bool,
    /// Fetch nothing: a reference to remote contents is an error
    #[arg(long)]
    pub offline: bool,
    /// HTTP headers for fetching contents, by host
    #[arg(long, value_name = "FILE")]
    pub http_headers_file: Option<PathBuf>,
    /// CAs (PEM) to trust when fetching contents, instead of the system's
    #[arg(long, value_name = "FILE")]
    pub ca: Option<PathBuf>,
    /// The time limit of one reference, such as 30s or 2m
    #[arg(long, value_name = "DURATION", default_value = "60s")]
    pub timeout: String,
    /// An earlier rendered config of the pool: list the changes that nodes can't apply without a reinstallation
    #[arg(long, value_name = "FILE")]
    pub previous: Option<PathBuf>,
    /// Instead of the config, show which MachineConfig each file, unit and setting comes from, and what it overrides
    #[arg(long)]
    pub explain: bool,
}
