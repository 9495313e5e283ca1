//! The namespaces that the controller reads and writes.

use k8s_openapi::api::apps::v1::Deployment;
use kube::{Api, Client};

use super::error::code;
use super::observe::OPERATOR;

/// Where the Machine Config Operator is installed.
pub const OPERATOR_NAMESPACE: &str = "openshift-machine-config-operator";

/// The namespaces that the controller reads and writes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Namespaces {
    /// Ours: Jobs, pods and what they need, the settings, the Lease. Nothing is written in any other.
    pub own: String,
    /// The Machine Config Operator's, which has ConfigMaps and Secrets that builds are made of; ours on clusters without it.
    pub operator: String,
}

impl Namespaces {
    /// One for all.
    pub fn one(own: impl Into<String>) -> Self {
        let own = own.into();
        Self { operator: own.clone(), own }
    }

    /// Ours, and that of the Machine Config Operator if one is installed in this cluster.
    pub async fn find(client: &Client, own: String) -> Self {
        let deployments: Api<Deployment> = Api::namespaced(client.clone(), OPERATOR_NAMESPACE);
        match deployments.get_opt(OPERATOR).await {
            Ok(Some(_)) => Self { own, operator: OPERATOR_NAMESPACE.to_owned() },
            Ok(None) => Self::one(own),
            Err(error) => {
                // Without the right to read there, a person sees less of why a pool is not built.
                tracing::debug!(
                    code = code(&error),
                    "namespace {OPERATOR_NAMESPACE}: can't be read"
                );
                Self::one(own)
            }
        }
    }
}
