//! The commands that use the API of a cluster.

mod boot_images;
mod confirm;
mod control;
mod ignition;
mod look;
mod rollout;

use std::io::Write as _;

use kube::Client;

use crate::cli::ExitCode;
use crate::cli::Result;
use crate::cli::objects::Object;
use crate::cli::output;
use crate::cli::progress::Progress;
use crate::cli::resolve::{ClusterJob, InCluster, Settings};
use mosb_controller::{self as controller, Namespaces};

pub use control::control;

/// How often a request is decided at most, if others change the object meanwhile.
const CONFLICT_TRIES: usize = 5;

/// Runs a command.
///
/// # Errors
/// The cluster can't be reached or rejects a request.
pub async fn in_cluster(
    job: &InCluster,
    settings: &Settings,
    progress: &Progress,
) -> Result<ExitCode> {
    let (client, namespace) = found(job).await?;
    let namespace = match &job.namespace {
        Some(namespace) => namespace.clone(),
        None => controller::installed_in(&client, namespace).await,
    };
    let namespaces = Namespaces::find(&client, namespace).await;
    match &job.what {
        ClusterJob::Controller(_) => {
            unreachable!("it handles signals itself, so it is called otherwise")
        }
        ClusterJob::Status(pool) => {
            let status = look::status(&client, &namespaces, pool.as_deref()).await?;
            print(settings, &status)
        }
        ClusterJob::Rebuild { pool, config_only } => {
            let request = look::rebuild(&client, &namespaces, pool, *config_only).await?;
            print(settings, &request)
        }
        ClusterJob::Logs { of, follow } => {
            look::logs(&client, &namespaces, of, *follow).await?;
            Ok(0)
        }
        ClusterJob::Wait { pool, timeout } => {
            let (status, code) = look::wait(&client, &namespaces, pool, *timeout).await?;
            print(settings, &status)?;
            Ok(code)
        }
        ClusterJob::Builds(pool) => {
            print(settings, &rollout::builds(&client, &namespaces, pool.as_deref()).await?)
        }
        ClusterJob::Nodes(pool) => {
            print(settings, &rollout::nodes(&client, &namespaces, pool.as_deref()).await?)
        }
        ClusterJob::Drift(pool) => {
            print(settings, &rollout::drift(&client, &namespaces, pool).await?)
        }
        ClusterJob::Adopt(change) => {
            let request = rollout::request(&client, &namespaces, change).await?;
            request.notes.iter().for_each(|note| progress.step(note));
            print(settings, &rollout::drift(&client, &namespaces, &change.pool).await?)
        }
        ClusterJob::Ignition(wanted) => {
            print(settings, &ignition::ignition(&client, &namespaces, wanted).await?)
        }
        ClusterJob::BootImages(job) => {
            boot_images::boot_images(&client, &namespaces, job, settings).await
        }
        ClusterJob::Rollout(change) => {
            print(settings, &rollout::request(&client, &namespaces, change).await?)
        }
        ClusterJob::RolloutStatus { pool, watch: None } => {
            print(settings, &rollout::status(&client, &namespaces, pool).await?)
        }
        ClusterJob::RolloutStatus { pool, watch: Some(limit) } => {
            let (status, code) =
                rollout::watch(&client, &namespaces, pool, *limit, progress).await?;
            progress.end();
            print(settings, &status)?;
            Ok(code)
        }
    }
}

async fn found(job: &InCluster) -> Result<(Client, String)> {
    let kubeconfig = job.kubeconfig.clone();
    Ok(controller::connect(kubeconfig, job.context.clone()).await?)
}

fn print<T: Object>(settings: &Settings, object: &T) -> Result<ExitCode> {
    output::print(settings.format, object)?;
    Ok(0)
}

/// Prints a log line; returns whether stdout is still open.
fn print_line(line: &str) -> bool {
    let mut out = std::io::stdout().lock();
    writeln!(out, "{line}").and_then(|()| out.flush()).is_ok()
}
