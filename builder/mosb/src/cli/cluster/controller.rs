//! `mosb controller`.

use std::hash::{BuildHasher as _, Hasher as _};
use std::net::SocketAddr;
use std::time::Duration;

use clap::Args;

use super::Cluster;
use mosb_commands::arguments::{self, usage};
use mosb_commands::settings::Environment;
use mosb_commands::signals::stop_signal;
use mosb_commands::{ExitCode, Result};
use mosb_controller::{self as controller, Namespaces, Options};

/// A longer time would block a worker for hours: a reconcile may look up several things.
const LONGEST_LOOKUP: Duration = Duration::from_secs(3600);

/// Builds images in a cluster whenever a pool's config changes: the program of the Deployment
///
/// Watches MachineOSConfigs, pools and builds, creates a Job for each build, and updates their statuses. If several
/// controllers run in a namespace, a Lease selects the one that acts.
///
/// Example:
///
///   mosb controller --namespace mosb-system --kubeconfig ~/.kube/config
#[derive(Debug, Args)]
#[command(verbatim_doc_comment)]
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
    #[arg(long, value_name = "TIME", default_value = "60s", value_parser = lookup_timeout)]
    pub lookup_timeout: Duration,
}

fn lookup_timeout(text: &str) -> Result<Duration> {
    let given = arguments::duration("--lookup-timeout")(text)?;
    if given.is_zero() || given > LONGEST_LOOKUP {
        return usage(format!("--lookup-timeout {text:?}: want 1s to 1h"));
    }
    Ok(given)
}

impl Controller {
    /// Runs until a signal, finishes running work and releases its Lease.
    ///
    /// # Errors
    /// The cluster, the Lease or the address to listen on is not available.
    pub async fn run(self, environment: &Environment) -> Result<ExitCode> {
        let (client, found) = self.cluster.client().await?;
        let Cluster { kubeconfig, context, namespace } = self.cluster;
        let namespace = namespace.unwrap_or(found);
        let pod = environment.pod_name.as_deref();
        let builder_image = match self.builder_image.or_else(|| environment.builder_image.clone()) {
            Some(image) => Some(image),
            None => controller::own_image(&client, &namespace, pod).await,
        };
        let options = Options {
            namespaces: Namespaces {
                operator: self.operator_namespace.unwrap_or_else(|| namespace.clone()),
                own: namespace,
            },
            listen: self.listen,
            identity: identity(pod),
            builder_image,
            render: self.render,
            rollout: self.rollout,
            boot_images: self.boot_images,
            node: environment.node_name.clone(),
            security_context_constraints: self.security_context_constraints,
            times: controller::LeaseTimes::default(),
            lookup_timeout: self.lookup_timeout,
        };
        let stop = stop_signal()?;
        let evictions = controller::connect_for_evictions(kubeconfig, context).await?;
        controller::run(client, evictions, options, stop).await?;
        Ok(0)
    }
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
