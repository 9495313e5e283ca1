//! Operands of the commands that speak to a cluster.

use std::net::SocketAddr;
use std::path::PathBuf;

use clap::Args;

/// Which cluster.
#[derive(Debug, Args)]
#[command(next_help_heading = "Cluster")]
pub struct Cluster {
    /// How the cluster is reached [default: KUBECONFIG, else ~/.kube/config, else the pod's own]
    #[arg(long, value_name = "FILE")]
    pub kubeconfig: Option<PathBuf>,
    /// A context of the kubeconfig, instead of its current one
    #[arg(long, value_name = "NAME")]
    pub context: Option<String>,
    /// Where mosb is installed [default: where its Lease is, else the context's or the pod's own]
    #[arg(short, long, value_name = "NAME")]
    pub namespace: Option<String>,
}

/// `mosb controller`.
#[derive(Debug, Args)]
pub struct Controller {
    /// Which cluster.
    #[command(flatten)]
    pub cluster: Cluster,
    /// Where the Machine Config Operator runs: its ConfigMaps and Secrets are read there [default: where mosb is installed]
    #[arg(long, value_name = "NAME")]
    pub operator_namespace: Option<String>,
    /// Let each build's account use the SecurityContextConstraints of deploy/openshift that it needs
    #[arg(long)]
    pub security_context_constraints: bool,
    /// Render pools too, where nobody else does
    #[arg(long)]
    pub render: bool,
    /// Bring images to machines too, where nobody else does; needs the rights of deploy/rollout
    #[arg(long)]
    pub rollout: bool,
    /// Where /healthz, /readyz and /metrics are; may be given several times
    #[arg(long, value_name = "ADDRESS:PORT", default_value = "0.0.0.0:8797")]
    pub listen: Vec<SocketAddr>,
    /// The image that build pods run where the settings name none [default: $MOSB_BUILDER_IMAGE, else the controller's own]
    #[arg(long, value_name = "IMAGE")]
    pub builder_image: Option<String>,
    /// How long a registry may take for what is asked of it: seconds, or with s, m, h
    #[arg(long, value_name = "TIME", default_value = "60s")]
    pub lookup_timeout: String,
}

/// `mosb status`.
#[derive(Debug, Args)]
pub struct Status {
    /// A pool; without, all
    pub pool: Option<String>,
    /// Which cluster.
    #[command(flatten)]
    pub cluster: Cluster,
}

/// `mosb rebuild`.
#[derive(Debug, Args)]
pub struct Rebuild {
    /// The pool
    pub pool: String,
    /// Which cluster.
    #[command(flatten)]
    pub cluster: Cluster,
}

/// `mosb logs`.
#[derive(Debug, Args)]
pub struct Logs {
    /// A pool, or a build's name
    #[arg(value_name = "POOL|BUILD")]
    pub of: String,
    /// Wait for what is still to come
    #[arg(short, long)]
    pub follow: bool,
    /// Which cluster.
    #[command(flatten)]
    pub cluster: Cluster,
}

/// `mosb wait`.
#[derive(Debug, Args)]
pub struct Wait {
    /// The pool
    pub pool: String,
    /// How long at most: seconds, or with s, m, h
    #[arg(long, value_name = "TIME", default_value = "1h")]
    pub timeout: String,
    /// Which cluster.
    #[command(flatten)]
    pub cluster: Cluster,
}
