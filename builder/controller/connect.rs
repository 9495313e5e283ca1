//! Which cluster, and which namespace of it.

use std::path::PathBuf;

use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::Pod;
use kube::client::ClientBuilder;
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Api, Client, Config};
use tower::timeout::TimeoutLayer;

use super::Error;
use super::error::{code, told};
use super::limit::{ANSWER, PartsLayer};
use super::run::LEASE;

/// Where the controller is installed: by `deploy/kubernetes`, by `deploy/openshift`.
const NAMESPACES: [&str; 2] = ["mosb-system", "openshift-machine-config-operator"];

/// A client of the cluster that is named: by a file and a context, else as kubectl finds it, else that of the pod we run in;
/// and the namespace that goes with it.
///
/// # Errors
/// [`Error::NoCluster`].
pub async fn connect(
    kubeconfig: Option<PathBuf>,
    context: Option<String>,
) -> Result<(Client, String), Error> {
    let options = KubeConfigOptions {
        context,
        ..KubeConfigOptions::default()
    };
    let none = |said: String| Error::NoCluster { said };
    let config = match kubeconfig {
        Some(file) => {
            let wrong = |error: kube::config::KubeconfigError| {
                none(format!(
                    "{}: {}",
                    file.display(),
                    crate::report::said(&error)
                ))
            };
            let read = Kubeconfig::read_from(&file).map_err(wrong)?;
            let config = Config::from_custom_kubeconfig(read, &options).await;
            config.map_err(wrong)?
        }
        None if options.context.is_some() => {
            let config = Config::from_kubeconfig(&options).await;
            config.map_err(|error| none(crate::report::said(&error)))?
        }
        None => {
            let config = Config::infer().await;
            config.map_err(|_| none("no kubeconfig, and this is no pod".to_owned()))?
        }
    };
    let namespace = config.default_namespace.clone();
    let builder = ClientBuilder::try_from(config).map_err(|error| none(told(&error)))?;
    let begins = TimeoutLayer::new(ANSWER);
    let client = builder.with_layer(&PartsLayer).with_layer(&begins).build();
    Ok((client, namespace))
}

/// The namespace in which a controller runs or ran: the first that has its Lease, else the one that goes with the cluster.
pub async fn installed_in(client: &Client, otherwise: String) -> String {
    for namespace in NAMESPACES {
        let leases: Api<Lease> = Api::namespaced(client.clone(), namespace);
        match leases.get_opt(LEASE).await {
            Ok(Some(_)) => return namespace.to_owned(),
            Ok(None) => {}
            // Who may not look there is told when it matters.
            Err(error) => {
                tracing::debug!(code = code(&error), "namespace {namespace}: not looked at")
            }
        }
    }
    otherwise
}

/// The image of the pod that we run in.
pub async fn own_image(client: &Client, namespace: &str, pod: Option<&str>) -> Option<String> {
    let pods: Api<Pod> = Api::namespaced(client.clone(), namespace);
    match pods.get(pod?).await {
        Ok(pod) => pod.spec?.containers.into_iter().next()?.image,
        Err(error) => {
            // The settings may name one.
            tracing::warn!("the controller's own image is not known: {}", told(&error));
            None
        }
    }
}
