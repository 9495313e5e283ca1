//! `mosb serve-ignition`.

use tokio::signal::unix::{SignalKind, signal};

use crate::cli::Result;
use crate::cli::args::ServeIgnition;
use crate::cli::error::Error;
use mosb_ignition_server::{Limits, Server};

/// Serves until a signal.
///
/// # Errors
/// The directory can't be read, or an address can't be listened on.
pub async fn serve_ignition(wanted: &ServeIgnition) -> Result<()> {
    let mut terminated = signal(SignalKind::terminate()).map_err(Error::System)?;
    let mut interrupted = signal(SignalKind::interrupt()).map_err(Error::System)?;
    let addresses = (wanted.listen, wanted.health_listen);
    let server = Server::listen(&wanted.configs, addresses, Limits::default()).await?;
    let (machines, kubelet) = server.addresses().map_err(Error::System)?;
    tracing::info!("listening on {machines}, and on {kubelet} for the kubelet");
    let stop = async {
        tokio::select! {
            _ = terminated.recv() => {}
            _ = interrupted.recv() => {}
        }
        tracing::info!("ending what is under way");
    };
    server.run(stop).await?;
    Ok(())
}
