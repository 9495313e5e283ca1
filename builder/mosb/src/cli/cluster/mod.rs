//! The commands that use the API of a cluster, or serve its machines.

pub mod approve;
pub mod base;
pub mod boot_images;
pub mod builds;
mod confirm;
pub mod controller;
pub mod ignition;
pub mod images;
pub mod logs;
pub mod nodes;
pub mod rebuild;
pub mod rollout;
pub mod rollout_status;
pub mod status;
pub mod support_bundle;
pub mod wait;

use std::path::PathBuf;

use clap::{Args, Subcommand};
use kube::Client;

use mosb_commands::context::Session;
use mosb_commands::error::Error;
use mosb_commands::{ExitCode, Result};
use mosb_controller::Namespaces;

#[derive(Debug, Subcommand)]
pub enum ClusterCommand {
    Controller(controller::Controller),
    Status(status::Status),
    Rebuild(rebuild::Rebuild),
    Logs(logs::Logs),
    Wait(wait::Wait),
    Builds(builds::Builds),
    Approve(approve::Approve),
    Reject(approve::Reject),
    Nodes(nodes::Nodes),
    Ignition(ignition::Ignition),
    ServeIgnition(ignition::ServeIgnition),
    SupportBundle(support_bundle::SupportBundle),
    /// Shows whether the bases of pools have newer images, and builds on them
    ///
    /// Example:
    ///
    ///   mosb base status
    #[command(verbatim_doc_comment, arg_required_else_help = true)]
    Base {
        #[command(subcommand)]
        command: base::Base,
    },
    /// Lists the images of a pool in their registry, and deletes old ones
    ///
    /// A controller deletes them by itself if ConfigMap mosb-config has retention.
    ///
    /// Example:
    ///
    ///   mosb images prune worker --dry-run
    #[command(verbatim_doc_comment, arg_required_else_help = true)]
    Images {
        #[command(subcommand)]
        command: images::Images,
    },
    /// Brings a pool's image to its machines, or takes it back
    ///
    /// A controller with --rollout does the work: these commands set what it follows, and show how far it is.
    ///
    /// Example:
    ///
    ///   mosb rollout start worker
    #[command(verbatim_doc_comment, arg_required_else_help = true)]
    Rollout {
        #[command(subcommand)]
        command: rollout::Rollout,
    },
}

impl ClusterCommand {
    pub async fn run(self, session: &Session) -> Result<ExitCode> {
        match self {
            Self::Controller(command) => command.run(&session.settings.environment).await,
            Self::Status(command) => command.run(session).await,
            Self::Rebuild(command) => command.run(session).await,
            Self::Logs(command) => command.run().await,
            Self::Wait(command) => command.run(session).await,
            Self::Builds(command) => command.run(session).await,
            Self::Approve(command) => command.run(session).await,
            Self::Reject(command) => command.run(session).await,
            Self::Nodes(command) => command.run(session).await,
            Self::Ignition(command) => command.run(session).await,
            Self::ServeIgnition(command) => command.run().await,
            Self::SupportBundle(command) => Box::pin(command.run(session)).await,
            Self::Base { command } => command.run(session).await,
            Self::Images { command } => command.run(session).await,
            Self::Rollout { command } => command.run(session).await,
        }
    }
}

/// How often a request is decided at most, if others change the object meanwhile.
const CONFLICT_TRIES: usize = 5;

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

/// A command about one pool.
#[derive(Debug, Args)]
pub struct OnePool {
    /// The pool
    pub pool: String,
    #[command(flatten)]
    pub cluster: Cluster,
}

impl Cluster {
    /// The client, and mosb's namespace and the operator's.
    ///
    /// # Errors
    /// There is no cluster, or its kubeconfig is not valid.
    async fn connect(&self) -> Result<(Client, Namespaces)> {
        let (client, namespace) = self.client().await?;
        let namespace = match &self.namespace {
            Some(namespace) => namespace.clone(),
            None => mosb_controller::installed_in(&client, namespace).await,
        };
        let namespaces = Namespaces::find(&client, namespace).await;
        Ok((client, namespaces))
    }

    /// The client, and the namespace of the context or the pod.
    async fn client(&self) -> Result<(Client, String)> {
        Ok(mosb_controller::connect(self.kubeconfig.clone(), self.context.clone()).await?)
    }
}

fn no_pool(pool: &str) -> Error {
    Error::NoPool { pool: pool.to_owned() }
}
