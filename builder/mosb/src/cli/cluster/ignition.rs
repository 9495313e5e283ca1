//! `mosb ignition` prints the Ignition config of a pool's new machines; `mosb serve-ignition` serves it to them.

use std::fmt;
use std::net::SocketAddr;
use std::path::PathBuf;

use clap::Args;
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::Value;
use tokio::task::spawn_blocking;

use super::Cluster;
use mosb_build::new_machine::OwnConfig;
use mosb_commands::context::Session;
use mosb_commands::error::Error;
use mosb_commands::input::{FILE_LIMIT, Input};
use mosb_commands::output::Object;
use mosb_commands::signals::stop_signal;
use mosb_commands::{ExitCode, Result, arguments};
use mosb_controller::new_machines::{self, IgnitionRequest};
use mosb_ignition_server::{Limits, Server};
use mosb_types::{Finding, canonical_json};

/// Prints the Ignition config of a new machine of a pool
///
/// The machine boots the image in service (or the build to which the pool is pinned) and joins the cluster, if
/// userData.joinSecret of ConfigMap mosb-config names the Secret with what joins it. The same config is in the Secret of the
/// annotation mosb.dev/user-data. It contains a login that can pull the image: give it only to machines.
///
/// Examples:
///
///   mosb ignition worker > worker.ign
///   mosb ignition worker --build worker-0123456789abcdef0123456789abcdef --merge node-7.ign > node-7-complete.ign
#[derive(Debug, Args)]
#[command(verbatim_doc_comment)]
pub struct Ignition {
    /// The pool
    pub pool: String,
    /// A build of `mosb builds` whose image the machine boots [default: the one in service]
    #[arg(long, value_name = "NAME")]
    pub build: Option<String>,
    /// An Ignition config of the machine's own, such as its address and hostname, that takes precedence; - is stdin
    #[arg(long, value_name = "FILE", value_parser = arguments::input())]
    pub merge: Option<Input>,
    #[command(flatten)]
    pub cluster: Cluster,
}

impl Ignition {
    pub async fn run(self, session: &Session) -> Result<ExitCode> {
        let (client, namespaces) = self.cluster.connect().await?;
        let own = match self.merge.clone() {
            Some(file) => Some(read(file).await?),
            None => None,
        };
        let request = IgnitionRequest { pool: self.pool, build: self.build, own };
        let found = new_machines::machine_ignition(&client, &namespaces, &request).await?;
        for notice in &found.notices {
            tracing::warn!("{}: {} [{}]", request.pool, notice.message, notice.code);
        }
        session.print(&MachineIgnition {
            pool: request.pool,
            machine_os_config: found.machine_os_config,
            build: found.build,
            image: found.image,
            rendered_config: found.rendered_config,
            joins: found.joins,
            holds_credentials: found.has_logins,
            config: found.config.expose().clone(),
            notices: found.notices,
        })
    }
}

async fn read(file: Input) -> Result<OwnConfig> {
    // Reading stdin may never end, so it must not delay a signal.
    let read = spawn_blocking(move || -> Result<OwnConfig> {
        let bytes = file.bytes("Ignition config", FILE_LIMIT)?;
        Ok(OwnConfig::parse(&file.to_string(), &bytes)?)
    });
    read.await.map_err(Error::stopped("reading"))?
}

/// The Ignition config of a pool's new machines.
#[derive(Clone, PartialEq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct MachineIgnition {
    /// The pool.
    pub pool: String,
    /// Its MachineOSConfig.
    #[serde(rename = "machineOSConfig")]
    pub machine_os_config: String,
    /// The build whose image machines boot.
    pub build: String,
    /// That image, with its digest.
    pub image: String,
    /// The rendered config that it was built of.
    pub rendered_config: String,
    /// Whether it contains what joins a machine to the cluster.
    pub joins: bool,
    /// Whether it contains credentials of registries.
    pub holds_credentials: bool,
    /// The config, in the oldest spec that has all of it.
    pub config: Value,
    /// Notices for the administrator.
    pub notices: Vec<Finding>,
}

/// The config contains credentials.
impl fmt::Debug for MachineIgnition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MachineIgnition").field("pool", &self.pool).finish_non_exhaustive()
    }
}

impl Object for MachineIgnition {
    const KIND: &'static str = "MachineIgnition";

    /// The config alone: the bytes of the Secret, and a line feed.
    fn text(&self) -> String {
        String::from_utf8(canonical_json(&self.config)).expect("JSON is UTF-8") + "\n"
    }
}

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
        let stop = stop_signal()?;
        let addresses = (self.listen, self.health_listen);
        let server = Server::listen(&self.configs, addresses, Limits::default()).await?;
        let (machines, kubelet) = server.addresses().map_err(Error::System)?;
        tracing::info!("listening on {machines}, and on {kubelet} for the kubelet");
        server.run(stop).await?;
        Ok(0)
    }
}
