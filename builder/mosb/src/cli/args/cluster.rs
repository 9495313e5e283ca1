//! The arguments of commands that use a cluster.

use std::net::SocketAddr;
use std::path::PathBuf;

use clap::Args;

/// The cluster, and mosb's namespace in it.
#[derive(Debug, Args)]
#[command(next_help_heading = "Cluster")]
pub struct Cluster {
    /// The kubeconfig [default: KUBECONFIG, else ~/.kube/config, else the pod's service account]
    #[arg(long, value_name = "FILE")]
    pub kubeconfig: Option<PathBuf>,
    /// A context of the kubeconfig, instead of its current one
    #[arg(long, value_name = "NAME")]
    pub context: Option<String>,
    /// mosb's namespace [default: that of its Lease, else that of the context or the pod]
    #[arg(short, long, value_name = "NAME")]
    pub namespace: Option<String>,
}

/// `mosb controller`.
#[derive(Debug, Args)]
pub struct Controller {
    #[command(flatten)]
    pub cluster: Cluster,
    /// The Machine Config Operator's namespace, whose ConfigMaps and Secrets are read [default: mosb's namespace]
    #[arg(long, value_name = "NAME")]
    pub operator_namespace: Option<String>,
    /// Let each build's account use the SecurityContextConstraints of deploy/openshift that it needs
    #[arg(long)]
    pub security_context_constraints: bool,
    /// Also render pools, unless another controller does
    #[arg(long)]
    pub render: bool,
    /// Also bring images to machines, unless another controller does; needs the rights of deploy/rollout
    #[arg(long)]
    pub rollout: bool,
    /// Also keep the boot images of machine sets that the settings select; needs the rights of deploy/boot-images
    #[arg(long)]
    pub boot_images: bool,
    /// The address of /healthz, /readyz and /metrics; may be repeated
    #[arg(long, value_name = "ADDRESS:PORT", default_value = "0.0.0.0:8797")]
    pub listen: Vec<SocketAddr>,
    /// The image of build pods, if the settings name none [default: $MOSB_BUILDER_IMAGE, else the controller's own]
    #[arg(long, value_name = "IMAGE")]
    pub builder_image: Option<String>,
    /// The time limit of a registry request: seconds, or with s, m, h
    #[arg(long, value_name = "TIME", default_value = "60s")]
    pub lookup_timeout: String,
}

/// `mosb status`.
#[derive(Debug, Args)]
pub struct Status {
    /// The pool [default: all]
    pub pool: Option<String>,
    #[command(flatten)]
    pub cluster: Cluster,
}

/// `mosb rebuild`.
#[derive(Debug, Args)]
pub struct Rebuild {
    /// The pool
    pub pool: String,
    /// Run nothing again: build on the prepared base that the pool has
    #[arg(long)]
    pub config_only: bool,
    #[command(flatten)]
    pub cluster: Cluster,
}

/// `mosb logs`.
#[derive(Debug, Args)]
pub struct Logs {
    /// A pool, or a build's name
    #[arg(value_name = "POOL|BUILD")]
    pub of: String,
    /// Follow the log
    #[arg(short, long)]
    pub follow: bool,
    #[command(flatten)]
    pub cluster: Cluster,
}

/// `mosb wait`.
#[derive(Debug, Args)]
pub struct Wait {
    /// The pool
    pub pool: String,
    /// The time limit: seconds, or with s, m, h
    #[arg(long, value_name = "TIME", default_value = "1h")]
    pub timeout: String,
    #[command(flatten)]
    pub cluster: Cluster,
}
