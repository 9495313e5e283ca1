//! `mosb controller`.

use std::hash::{BuildHasher as _, Hasher as _};

use tokio::signal::unix::{SignalKind, signal};

use super::found;
use crate::cli::ExitCode;
use crate::cli::Result;
use crate::cli::error::Error;
use crate::cli::resolve::{Controller, InCluster};
use mosb_controller::{self as controller, Namespaces, Options};

/// Runs until a signal; a second signal ends it immediately.
///
/// # Errors
/// The cluster, the Lease or the address to listen on is not available.
pub async fn control(job: &InCluster, wanted: &Controller) -> Result<ExitCode> {
    let (client, own) = found(job).await?;
    let namespace = job.namespace.clone().unwrap_or(own);
    let builder_image = match &wanted.builder_image {
        Some(image) => Some(image.clone()),
        None => controller::own_image(&client, &namespace, wanted.pod.as_deref()).await,
    };
    let options = Options {
        namespaces: Namespaces {
            operator: wanted.operator_namespace.clone().unwrap_or_else(|| namespace.clone()),
            own: namespace,
        },
        listen: wanted.listen.clone(),
        identity: identity(wanted.pod.as_deref()),
        builder_image,
        render: wanted.render,
        rollout: wanted.rollout,
        boot_images: wanted.boot_images,
        node: wanted.node.clone(),
        security_context_constraints: wanted.security_context_constraints,
        times: controller::LeaseTimes::default(),
        lookup_timeout: wanted.lookup_timeout,
    };
    let mut terminated = signal(SignalKind::terminate()).map_err(no_signals)?;
    let mut interrupted = signal(SignalKind::interrupt()).map_err(no_signals)?;
    let stop = async {
        tokio::select! {
            _ = terminated.recv() => {}
            _ = interrupted.recv() => {}
        }
        tracing::info!("ending what is under way");
    };
    let evictions =
        controller::connect_for_evictions(job.kubeconfig.clone(), job.context.clone()).await?;
    controller::run(client, evictions, options, stop).await?;
    Ok(0)
}

fn no_signals(error: std::io::Error) -> Error {
    Error::Usage(format!("signals: {error}"))
}

/// The identity for the Lease. In a pod, it is the pod's name, so that a restarted container
/// continues with its Lease; elsewhere it is unique.
fn identity(pod: Option<&str>) -> String {
    match pod {
        Some(pod) => pod.to_owned(),
        None => {
            // The standard library seeds it randomly.
            let random = std::hash::RandomState::new().build_hasher().finish();
            format!("mosb-{}-{random:016x}", std::process::id())
        }
    }
}
