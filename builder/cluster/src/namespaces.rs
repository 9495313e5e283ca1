//! The namespaces that the controller reads and writes.

use k8s_openapi::api::apps::v1::Deployment;
use kube::{Api, Client};

use super::cluster_names::{OPERATOR, OPERATOR_NAMESPACE};
use mosb_reconcile::error::code;

/// The namespaces that the controller reads and writes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Namespaces {
    /// mosb's namespace, for Jobs, pods and what they need, the settings and the Lease. Elsewhere,
    /// only Jobs of a roll-out, evictions and the Secrets of user data are written.
    pub own: String,
    /// The namespace of the Machine Config Operator, whose ConfigMaps and Secrets are inputs of
    /// builds; `own` on clusters without it.
    pub operator: String,
}

impl Namespaces {
    /// The same namespace for both.
    pub fn one(own: impl Into<String>) -> Self {
        let own = own.into();
        Self { operator: own.clone(), own }
    }

    /// mosb's namespace, and that of the Machine Config Operator if one is installed.
    pub async fn find(client: &Client, own: String) -> Self {
        let deployments: Api<Deployment> = Api::namespaced(client.clone(), OPERATOR_NAMESPACE);
        match deployments.get_opt(OPERATOR).await {
            Ok(Some(_)) => Self { own, operator: OPERATOR_NAMESPACE.to_owned() },
            Ok(None) => Self::one(own),
            Err(error) => {
                // Without this permission, a user sees fewer reasons.
                tracing::debug!(
                    code = code(&error),
                    "namespace {OPERATOR_NAMESPACE}: can't be read"
                );
                Self::one(own)
            }
        }
    }
}
