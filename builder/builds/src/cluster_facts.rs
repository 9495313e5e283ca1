//! Facts about the cluster that no watch shows: the results of [`probe`], and when to probe again.

use std::sync::{Arc, Mutex, MutexGuard};

use kube::Client;
use tokio::sync::{oneshot, watch};
use tokio::time::sleep;

use super::observe::Facts;
use super::probe;
use super::snapshot::Support;
use mosb_api::{MachineOsConfig, labels};
use mosb_image::ImageRef;
use mosb_reconcile::waits::{FAILED_NODE_PROBE, NODE_PROBE};

#[derive(Debug)]
pub struct ClusterFacts {
    results: Mutex<ProbeResults>,
    /// Whether SecurityContextConstraints say which user a pod runs as.
    security_context_constraints: bool,
}

#[derive(Debug, Default)]
struct ProbeResults {
    user_namespaces: Support,
    /// Whether the CRDs reject digests in nested repositories, once that is known.
    nested_digests_refused: Option<bool>,
}

impl ClusterFacts {
    pub fn new(security_context_constraints: bool) -> Self {
        Self { results: Mutex::default(), security_context_constraints }
    }

    /// The facts that matter for this MachineOSConfig.
    pub fn of(&self, config: Option<&MachineOsConfig>) -> Facts {
        let results = self.lock();
        Facts {
            user_namespaces: results.user_namespaces,
            security_context_constraints: self.security_context_constraints,
            nested_digests_refused: results.nested_digests_refused == Some(true)
                && config.is_some_and(has_nested_image),
        }
    }

    /// Probes once whether the CRDs reject nested digests, for the first MachineOSConfig with one.
    pub async fn probe_for(&self, config: &MachineOsConfig, client: &Client) {
        if self.lock().nested_digests_refused.is_some() || !has_nested_image(config) {
            return;
        }
        match probe::nested_digests_refused(client, &config.metadata.name).await {
            Ok(refused) => self.lock().nested_digests_refused = Some(refused),
            // The write of the status will then fail and report it.
            Err(error) => tracing::warn!("{error}"),
        }
    }

    /// Probes user namespaces regularly, and when the set of nodes changes. `first_probe` gets a
    /// signal after the first attempt. Returns when the sender of `nodes_changed` is dropped.
    pub async fn probe_nodes(
        self: Arc<Self>,
        client: Client,
        namespace: String,
        mut nodes_changed: watch::Receiver<()>,
        first_probe: oneshot::Sender<()>,
        on_change: impl Fn(),
    ) {
        let mut first_probe = Some(first_probe);
        loop {
            let probed = probe::user_namespaces(&client, &namespace).await;
            if let Ok(support) = probed {
                let before = std::mem::replace(&mut self.lock().user_namespaces, support);
                if before != support {
                    tracing::info!("user namespaces of pods: {support:?}");
                    on_change();
                }
            }
            if let Some(first_probe) = first_probe.take() {
                // The receiver is dropped if the probe took too long.
                let _ = first_probe.send(());
            }
            match probed {
                Ok(_) => tokio::select! {
                    changed = nodes_changed.changed() => if changed.is_err() {
                        return;
                    },
                    () = sleep(NODE_PROBE) => {}
                },
                Err(error) => {
                    tracing::warn!("{error}");
                    sleep(FAILED_NODE_PROBE).await;
                }
            }
        }
    }

    fn lock(&self) -> MutexGuard<'_, ProbeResults> {
        self.results.lock().expect("it is not poisoned: no code panics while it is locked")
    }
}

fn has_nested_image(config: &MachineOsConfig) -> bool {
    let pre_built = config.metadata.annotation(labels::PRE_BUILT_IMAGE);
    let images = [Some(&*config.spec.rendered_image_push_spec), pre_built];
    let mut images = images.into_iter().flatten().map(str::parse::<ImageRef>);
    images.any(|image| image.is_ok_and(|image| probe::is_nested(image.repo())))
}
