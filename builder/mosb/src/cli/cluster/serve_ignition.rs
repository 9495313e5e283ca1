//! `mosb serve-ignition`.

use std::net::SocketAddr;
use std::path::PathBuf;

use clap::Args;

use crate::cli::error::Error;
use crate::cli::signals::first_signal;
use crate::cli::{ExitCode, Result};
use mosb_ignition_server::{Limits, Server};

/// Serves the Ignition configs of new machines, where a provider takes fewer bytes: the program of a Deployment
///
/// The user data of machines then is a small config, which fetches that of its pool with a token. Reads only a
/// directory, in which Kubernetes mounts the Secret mosb-ignition-server, and uses no API. Any other request than that of
/// a pool's config with a token of that pool gets the same 404.
///
/// Example:
///
///   mosb serve-ignition --configs /configs
#[derive(Debug, Args)]
#[command(verbatim_doc_comment)]
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

impl ServeIgnition {
    /// Serves until a signal.
    ///
    /// # Errors
    /// The directory can't be read, or an address can't be listened on.
    pub async fn run(&self) -> Result<ExitCode> {
        let signal = first_signal()?;
        let addresses = (self.listen, self.health_listen);
        let server = Server::listen(&self.configs, addresses, Limits::default()).await?;
        let (machines, kubelet) = server.addresses().map_err(Error::System)?;
        tracing::info!("listening on {machines}, and on {kubelet} for the kubelet");
        let stop = async {
            signal.await;
            tracing::info!("ending what is under way");
        };
        server.run(stop).await?;
        Ok(0)
    }
}
