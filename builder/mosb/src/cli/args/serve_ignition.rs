//! The arguments of `serve-ignition`.

use std::net::SocketAddr;
use std::path::PathBuf;

use clap::Args;

/// `mosb serve-ignition`.
#[derive(Debug, Args)]
pub struct ServeIgnition {
    /// The directory with certificate, tokens and configs; it is read again whenever it changes
    #[arg(long, value_name = "DIR")]
    pub configs: PathBuf,
    /// The address for machines (HTTPS)
    #[arg(long, value_name = "ADDRESS:PORT", default_value = "0.0.0.0:8443")]
    pub listen: SocketAddr,
    /// The address of /healthz and /readyz (HTTP), for the kubelet
    #[arg(long, value_name = "ADDRESS:PORT", default_value = "0.0.0.0:8798")]
    pub health_listen: SocketAddr,
}
