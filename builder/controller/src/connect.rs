//! Connects to a cluster, and finds the namespace and the image of the controller.

use std::path::PathBuf;
use std::time::Duration;

use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::{Container, Pod};
use kube::client::ClientBuilder;
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Api, Client, Config};
use tokio::time::{Instant, sleep};
use tower::timeout::TimeoutLayer;

use super::run::LEASE;
use mosb_image::{ImageRef, PinnedRef};
use mosb_reconcile::Error;
use mosb_reconcile::error::{code, describe};
use mosb_reconcile::response_timeout::{BodyTimeoutLayer, RESPONSE_TIMEOUT};

/// Namespace of the overlays.
const NAMESPACE: &str = "mosb-system";

/// A client of the cluster that a file and a context name, else that kubectl would use, else of the
/// pod that this process runs in; and the cluster's default namespace.
///
/// # Errors
/// [`Error::NoCluster`].
pub async fn connect(
    kubeconfig: Option<PathBuf>,
    context: Option<String>,
) -> Result<(Client, String), Error> {
    let config = config(kubeconfig, context).await?;
    let namespace = config.default_namespace.clone();
    Ok((client(config)?, namespace))
}

/// The same client for evictions: a refusal (429) is its answer at once, and is not retried until
/// the PodDisruptionBudget allows the eviction.
///
/// # Errors
/// [`Error::NoCluster`].
pub async fn connect_for_evictions(
    kubeconfig: Option<PathBuf>,
    context: Option<String>,
) -> Result<Client, Error> {
    let mut config = config(kubeconfig, context).await?;
    config.default_retry = false;
    client(config)
}

fn no_cluster(cause: String) -> Error {
    Error::NoCluster { cause }
}

fn client(config: Config) -> Result<Client, Error> {
    let builder = ClientBuilder::try_from(config).map_err(|error| no_cluster(describe(&error)))?;
    let begins = TimeoutLayer::new(RESPONSE_TIMEOUT);
    Ok(builder.with_layer(&BodyTimeoutLayer).with_layer(&begins).build())
}

async fn config(kubeconfig: Option<PathBuf>, context: Option<String>) -> Result<Config, Error> {
    let options = KubeConfigOptions { context, ..KubeConfigOptions::default() };
    let config = match kubeconfig {
        Some(file) => {
            let wrong = |error: kube::config::KubeconfigError| {
                no_cluster(format!("{}: {}", file.display(), mosb_types::error_text(&error)))
            };
            let read = Kubeconfig::read_from(&file).map_err(wrong)?;
            let config = Config::from_custom_kubeconfig(read, &options).await;
            config.map_err(wrong)?
        }
        None if options.context.is_some() => {
            let config = Config::from_kubeconfig(&options).await;
            config.map_err(|error| no_cluster(mosb_types::error_text(&error)))?
        }
        None => {
            let config = Config::infer().await;
            config.map_err(|_| no_cluster("no kubeconfig, and not in a pod".to_owned()))?
        }
    };
    Ok(config)
}

/// The namespace in which a controller runs or ran: that of the overlays if it has its Lease, else
/// the given one.
pub async fn installed_in(client: &Client, otherwise: String) -> String {
    let leases: Api<Lease> = Api::namespaced(client.clone(), NAMESPACE);
    match leases.get_opt(LEASE).await {
        Ok(Some(_)) => NAMESPACE.to_owned(),
        Ok(None) => otherwise,
        // A missing permission is reported where it matters.
        Err(error) => {
            tracing::debug!(code = code(&error), "namespace {NAMESPACE}: can't be read");
            otherwise
        }
    }
}

/// The container of the Deployment in `deploy/base`. A service mesh adds others, also before it.
const CONTAINER: &str = "controller";

/// How long to wait for the image ID of our container, which the kubelet reports shortly after its
/// start.
const IMAGE_ID_WAIT: Duration = Duration::from_secs(10);
/// How often the pod is read until then.
const IMAGE_ID_POLL: Duration = Duration::from_millis(500);

/// The image of our own container, by digest if the node reports one.
pub async fn own_image(client: &Client, namespace: &str, pod: Option<&str>) -> Option<String> {
    let pods: Api<Pod> = Api::namespaced(client.clone(), namespace);
    let name = pod?;
    let begun = Instant::now();
    loop {
        match pods.get(name).await {
            Ok(pod) if awaits_image_id(&pod) && begun.elapsed() < IMAGE_ID_WAIT => {
                sleep(IMAGE_ID_POLL).await
            }
            Ok(pod) => {
                let image = image_of(&pod);
                if image.is_none() {
                    tracing::warn!(
                        "pod {namespace}/{name}: several containers, none of them named {CONTAINER}; give --builder-image, or set builderImage in ConfigMap mosb-config"
                    );
                }
                return image;
            }
            Err(error) => {
                // The settings may name one.
                tracing::warn!("the controller's own image is not known: {}", describe(&error));
                return None;
            }
        }
    }
}

/// Our container: the one named `controller`, or the only one.
fn own_container(pod: &Pod) -> Option<&Container> {
    let containers = &pod.spec.as_ref()?.containers;
    let named = containers.iter().find(|one| one.name == CONTAINER);
    match (named, containers.as_slice()) {
        (Some(named), _) => Some(named),
        (None, [only]) => Some(only),
        (None, _) => None,
    }
}

/// The image ID that the node reports for a container; empty before it does.
fn image_id_of<'a>(pod: &'a Pod, container: &Container) -> &'a str {
    let statuses = pod.status.iter();
    let mut statuses = statuses.flat_map(|status| status.container_statuses.iter().flatten());
    let status = statuses.find(|status| status.name == container.name);
    status.map_or("", |status| &status.image_id)
}

/// Whether the node has yet to report the image ID of our container.
fn awaits_image_id(pod: &Pod) -> bool {
    own_container(pod).is_some_and(|own| {
        let image = own.image.as_deref().unwrap_or_default();
        image.parse::<PinnedRef>().is_err() && image_id_of(pod, own).is_empty()
    })
}

/// The image of our container. The digest counts only if the node reports the repository that the
/// pod names: for an image that was loaded into the node it reports a name that can't be pulled.
fn image_of(pod: &Pod) -> Option<String> {
    let own = own_container(pod)?;
    let image = own.image.clone()?;
    let pinned = pinned(&image, image_id_of(pod, own));
    Some(pinned.map_or(image, |pinned| pinned.to_string()))
}

/// The image that a pod names, with the digest that its node runs.
fn pinned(image: &str, image_id: &str) -> Option<PinnedRef> {
    let image: ImageRef = image.parse().ok()?;
    // Prefix that cri-dockerd adds.
    let id = image_id.trim_start_matches("docker-pullable://");
    let id: PinnedRef = id.parse().ok()?;
    (image.digest().is_none() && image.repo() == id.repo()).then_some(id)
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use serde_json::{Value, json};

    use super::*;
    use mosb_reconcile::fake_api::FakeApi;

    #[tokio::test(start_paused = true)]
    async fn a_node_that_has_not_reported_yet_what_runs_is_waited_for() {
        let by_digest = format!("quay.io/acme/mosb@{}", id("a"));
        let tag = "quay.io/acme/mosb:1";
        for (what, reports_at, image, want, reads) in [
            ("at once", 0, tag, &*by_digest, 1),
            ("after two seconds", 4, tag, &by_digest, 5),
            ("never", usize::MAX, tag, tag, 21),
            ("needless", usize::MAX, &by_digest, &by_digest, 1),
        ] {
            let asked = AtomicUsize::new(0);
            let (sent, reported) = (image.to_owned(), by_digest.clone());
            let api = FakeApi::new(move |_| {
                let has_reported = asked.fetch_add(1, Ordering::SeqCst) >= reports_at;
                let image_id = if has_reported { &*reported } else { "" };
                json!({
                    "apiVersion": "v1", "kind": "Pod", "metadata": { "name": "x" },
                    "spec": { "containers": [{ "name": CONTAINER, "image": sent }] },
                    "status": { "containerStatuses": [{
                        "name": CONTAINER, "image": "", "imageID": image_id, "ready": false, "restartCount": 0,
                    }] },
                })
            });
            let found = own_image(&api.client, "mosb-system", Some("x")).await;
            assert_eq!(found.as_deref(), Some(want), "{what}");
            assert_eq!(api.requests().len(), reads, "{what}");
        }
    }

    fn id(character: &str) -> String {
        format!("sha256:{}", character.repeat(64))
    }

    #[test]
    fn our_own_image_is_that_of_our_container_by_the_digest_that_runs() {
        let ours = |name: &str, image: &str| json!({ "name": name, "image": image });
        let proxy = ours("istio-proxy", "mesh.example.com/proxy:1");
        let mosb = ours("controller", "quay.io/acme/mosb:1");
        let by_digest = format!("quay.io/acme/mosb@{}", id("a"));
        let fixed = format!("quay.io/acme/mosb:1@{}", id("b"));
        let runs = |name: &str, image_id: &str| json!({ "name": name, "image": "", "imageID": image_id, "ready": true, "restartCount": 0 });
        let mesh = runs("istio-proxy", &format!("mesh.example.com/proxy@{}", id("c")));
        let tag = Some("quay.io/acme/mosb:1");
        let cases: [(&str, Value, Value, Option<&str>); 10] = [
            (
                "injected before ours",
                json!([proxy, mosb]),
                json!([mesh, runs("controller", &by_digest)]),
                Some(&by_digest),
            ),
            ("not started yet", json!([mosb]), json!([runs("controller", "")]), tag),
            ("no status", json!([mosb]), Value::Null, tag),
            ("only the other one reports", json!([proxy, mosb]), json!([mesh]), tag),
            (
                "loaded by hand: the id of a config",
                json!([mosb]),
                json!([runs("controller", &id("d"))]),
                tag,
            ),
            (
                "loaded by hand: a name of the node's own",
                json!([mosb]),
                json!([runs("controller", &format!("docker.io/library/import@{}", id("d")))]),
                tag,
            ),
            (
                "cri-dockerd",
                json!([mosb]),
                json!([runs("controller", &format!("docker-pullable://{by_digest}"))]),
                Some(&by_digest),
            ),
            (
                "named by digest already",
                json!([ours("controller", &fixed)]),
                json!([runs("controller", &by_digest)]),
                Some(&fixed),
            ),
            (
                "the only one, by another name",
                json!([ours("mosb", "quay.io/acme/mosb:1")]),
                Value::Null,
                tag,
            ),
            (
                "two of other names",
                json!([proxy, ours("mosb", "quay.io/acme/mosb:1")]),
                Value::Null,
                None,
            ),
        ];
        for (what, containers, statuses, want) in cases {
            let pod = json!({ "spec": { "containers": containers }, "status": { "containerStatuses": statuses } });
            let pod: Pod = serde_json::from_value(pod).unwrap();
            assert_eq!(image_of(&pod).as_deref(), want, "{what}");
        }
    }
}
