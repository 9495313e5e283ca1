//! Connections, with their limits: machines by HTTPS, the kubelet by HTTP on another port, so that
//! machines can't take its connections.

use std::convert::Infallible;
use std::future::Future;
use std::io;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use hyper::Request;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use jiff::Timestamp;
use mosb_types::Diagnostic;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::{JoinSet, spawn_blocking};
use tokio::time::{MissedTickBehavior, interval, sleep, timeout};
use tokio_rustls::TlsAcceptor;

use crate::connections::{Connection, ConnectionLimits, Connections};
use crate::directory::{Directory, DirectoryError, Reload};
use crate::respond::{to_kubelet, to_machine};
use crate::tls::server_config;

/// The bytes of a request's line and headers; those of Ignition have a few hundred.
const MAX_HEADER_SIZE: usize = 8 * 1024;
const MAX_HEADERS: usize = 32;
/// Machines behind one address, as behind a load balancer, start at once. All together fit into the
/// 1024 open files that a process usually may have.
const MACHINES: ConnectionLimits =
    ConnectionLimits { all: 768, of_peer: 64, burst: 64, interval: Duration::from_millis(100) };
const KUBELET: ConnectionLimits =
    ConnectionLimits { all: 32, of_peer: 8, burst: 32, interval: Duration::from_millis(500) };
/// The most characters of a path that are logged.
const MAX_LOGGED_PATH: usize = 100;

/// Limits of time.
#[derive(Debug, Clone, Copy)]
pub struct Limits {
    /// From a connection to the end of the TLS handshake, and then to the end of the request.
    pub request: Duration,
    /// The whole connection, for slow readers.
    pub connection: Duration,
    /// How often the directory is read.
    pub reload: Duration,
    /// How long running connections may take after a signal.
    pub shutdown: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            request: Duration::from_secs(10),
            connection: Duration::from_secs(60),
            reload: Duration::from_secs(5),
            shutdown: Duration::from_secs(10),
        }
    }
}

/// Why the server can't start.
#[derive(Debug, thiserror::Error, Diagnostic)]
#[non_exhaustive]
pub enum ListenError {
    #[error("{address}: can't listen there; name a free address with --listen and --health-listen")]
    #[diagnostic(code = "not-listening", class = InvalidInput)]
    Listen { address: SocketAddr, source: io::Error },
    #[error(transparent)]
    #[diagnostic(transparent)]
    Directory(#[from] DirectoryError),
    #[error("TLS can't be set up; report it")]
    #[diagnostic(code = "no-tls", class = Internal)]
    Tls(#[from] rustls::Error),
}

/// A server that listens already.
#[derive(Debug)]
pub struct Server {
    directory: Arc<Directory>,
    machines: Port,
    kubelet: Port,
    limits: Limits,
}

/// A port, and the limits of its connections.
#[derive(Debug)]
struct Port {
    listener: TcpListener,
    connections: Arc<Connections>,
}

/// Who connects.
#[derive(Clone)]
enum Client {
    Machine(TlsAcceptor),
    Kubelet,
}

impl Server {
    /// Reads the directory and listens: for machines on the first address, for the kubelet on the
    /// second.
    ///
    /// # Errors
    /// [`ListenError`].
    pub async fn listen(
        configs: &Path,
        (machines, kubelet): (SocketAddr, SocketAddr),
        limits: Limits,
    ) -> Result<Self, ListenError> {
        let (directory, problems) = Directory::open(configs)?;
        log_content(&directory, &problems);
        Ok(Self {
            directory: Arc::new(directory),
            machines: Port::open(machines, MACHINES).await?,
            kubelet: Port::open(kubelet, KUBELET).await?,
            limits,
        })
    }

    /// The addresses for machines and for the kubelet, with the ports that the system chose for
    /// port 0.
    ///
    /// # Errors
    /// The system does not know them.
    pub fn addresses(&self) -> io::Result<(SocketAddr, SocketAddr)> {
        Ok((self.machines.listener.local_addr()?, self.kubelet.listener.local_addr()?))
    }

    /// Serves until `stop`; then waits for running connections.
    ///
    /// # Errors
    /// TLS can't be set up.
    pub async fn run(self, stop: impl Future<Output = ()>) -> Result<(), ListenError> {
        let Self { directory, machines, kubelet, limits } = self;
        let tls = TlsAcceptor::from(Arc::new(server_config(Arc::clone(&directory))?));
        let running = Arc::clone(&machines.connections);
        let mut tasks = JoinSet::new();
        tasks.spawn(watch(Arc::clone(&directory), limits.reload));
        tasks.spawn(machines.accept(Client::Machine(tls), Arc::clone(&directory), limits));
        tasks.spawn(kubelet.accept(Client::Kubelet, directory, limits));
        stop.await;
        drop(tasks);
        if timeout(limits.shutdown, running.ended()).await.is_err() {
            tracing::warn!("running connections are cut");
        }
        Ok(())
    }
}

impl Port {
    async fn open(address: SocketAddr, limits: ConnectionLimits) -> Result<Self, ListenError> {
        let listener = TcpListener::bind(address).await;
        let listener = listener.map_err(|source| ListenError::Listen { address, source })?;
        Ok(Self { listener, connections: Connections::new(limits) })
    }

    async fn accept(self, client: Client, directory: Arc<Directory>, limits: Limits) {
        loop {
            let (stream, peer) = match self.listener.accept().await {
                Ok(accepted) => accepted,
                Err(error) => {
                    // Most likely too many open files.
                    tracing::warn!("no connection accepted: {error}");
                    self.connections.close_oldest_silent();
                    sleep(Duration::from_millis(100)).await;
                    continue;
                }
            };
            // Before the handshake, which costs more than what a peer has done so far.
            let Some(connection) = self.connections.admit(peer.ip(), Instant::now()).await else {
                tracing::debug!("{peer}: it has too many connections");
                continue;
            };
            let (client, directory) = (client.clone(), Arc::clone(&directory));
            tokio::spawn(async move {
                let served = serve(stream, (peer, &connection), client, &directory, limits);
                tokio::select! {
                    served = timeout(limits.connection, served) => if served.is_err() {
                        tracing::info!("{peer}: cut after {} s", limits.connection.as_secs());
                    },
                    () = connection.gives_way() => {
                        tracing::debug!("{peer}: closed for another connection: it showed no token");
                    }
                }
            });
        }
    }
}

async fn serve(
    stream: TcpStream,
    (peer, connection): (SocketAddr, &Connection),
    client: Client,
    directory: &Directory,
    limits: Limits,
) {
    let ended = match client {
        Client::Machine(tls) => match timeout(limits.request, tls.accept(stream)).await {
            Ok(Ok(stream)) => answer(stream, (peer, connection), true, directory, limits).await,
            Ok(Err(error)) => return tracing::debug!("{peer}: no TLS: {error}"),
            Err(_) => return tracing::debug!("{peer}: no TLS in time"),
        },
        Client::Kubelet => answer(stream, (peer, connection), false, directory, limits).await,
    };
    if let Err(error) = ended {
        tracing::debug!("{peer}: the connection ended: {error}");
    }
}

/// Answers one request.
async fn answer(
    stream: impl AsyncRead + AsyncWrite + Unpin,
    (peer, connection): (SocketAddr, &Connection),
    is_machine: bool,
    directory: &Directory,
    limits: Limits,
) -> hyper::Result<()> {
    let service = service_fn(|request: Request<Incoming>| {
        let (served, now) = (directory.served(), Timestamp::now());
        let path = request.uri().path();
        let (response, refusal) = if is_machine {
            to_machine((request.method(), path, request.headers()), &served, now)
        } else {
            to_kubelet(path, &served, now)
        };
        if is_machine {
            let path: String = path.chars().take(MAX_LOGGED_PATH).collect();
            match refusal {
                None => {
                    connection.keep();
                    tracing::info!("{peer}: served {path:?}");
                }
                Some(refusal) => tracing::info!("{peer}: refused {path:?}: {refusal}"),
            }
        }
        async move { Ok::<_, Infallible>(response) }
    });
    http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(limits.request)
        .keep_alive(false)
        .max_header_size(MAX_HEADER_SIZE)
        .max_headers(MAX_HEADERS)
        // It would make two answers differ.
        .auto_date_header(false)
        .serve_connection(TokioIo::new(stream), service)
        .await
}

/// Reads the directory again and again.
async fn watch(directory: Arc<Directory>, every: Duration) {
    let mut ticks = interval(every);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut last_error = None;
    loop {
        ticks.tick().await;
        let reading = Arc::clone(&directory);
        let Ok(read) = spawn_blocking(move || reading.reload()).await else {
            // The runtime ends, or the reader panicked, which the log has.
            return;
        };
        match read {
            Ok(Reload::Unchanged) => last_error = None,
            Ok(Reload::Changed(problems)) => {
                log_content(&directory, &problems);
                last_error = None;
            }
            Err(error) => {
                let text = mosb_types::error_text(&error);
                if last_error.as_ref() != Some(&text) {
                    tracing::warn!("{text}; what it had before is served on");
                    last_error = Some(text);
                }
            }
        }
    }
}

fn log_content(directory: &Directory, problems: &[String]) {
    let served = directory.served();
    let pools: Vec<&str> = served.pools().collect();
    tracing::info!("configs of {} pools: {}", pools.len(), pools.join(", "));
    for problem in problems {
        tracing::warn!("not served: {problem}");
    }
    if let Some(reason) = served.not_ready(Timestamp::now()) {
        tracing::warn!("{reason}");
    }
}

#[cfg(test)]
mod tests;
