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
    /// The MachineConfigPool, for its selector; without, one among the inputs, else the role label decides
    #[arg(long, value_name = "FILE")]
    pub pool_file: Option<PathBuf>,
    /// The ControllerConfig, for the release's images; without, one among the inputs
    #[arg(long, value_name = "FILE")]
    pub controller_config: Option<PathBuf>,
    /// The base OS image, instead of the ControllerConfig's
    #[arg(long, value_name = "IMAGE@DIGEST")]
    pub os_image: Option<String>,
    /// The extensions image, instead of the ControllerConfig's
    #[arg(long, value_name = "IMAGE@DIGEST")]
    pub extensions_image: Option<String>,
    /// Ask a registry which digest an image's tag has now
    #[arg(long, conflicts_with = "offline")]
    pub resolve_tags: bool,
    /// Fetch nothing: what lies elsewhere is an error
    #[arg(long)]
    pub offline: bool,
    /// Headers for some hosts that contents are fetched from
    #[arg(long, value_name = "FILE")]
    pub http_headers_file: Option<PathBuf>,
    /// CAs (PEM) to trust where contents are fetched from, instead of the system's
    #[arg(long, value_name = "FILE")]
    pub ca: Option<PathBuf>,
    /// How long one reference may take, as 30s or 2m
    #[arg(long, value_name = "DURATION", default_value = "60s")]
    pub timeout: String,
    /// An earlier rendered config of the pool: lists what its nodes can't take without being installed anew
    #[arg(long, value_name = "FILE")]
    pub previous: Option<PathBuf>,
    /// Show where each file, unit and setting comes from, and whom it overrides, instead of the config
    #[arg(long)]
    pub explain: bool,
}
