//! Resolves the lookups: reads the Secret, and what its config is made of.

use k8s_openapi::api::core::v1;
use kube::{Api, Client};

use super::content::MachineInputs;
use super::decide::UserDataLookup;
use super::join_tokens::ClusterInfo;
use super::machine_inputs::new_machine;
use super::secret_ref::SecretRef;
use super::snapshot::{FoundSecret, UserDataSnapshot};
use crate::cluster_names::{CLUSTER_INFO, PUBLIC_NAMESPACE};
use crate::lookups::Resolver;
use mosb_cluster::resolver::NO_RENDERED_CONFIG;
use mosb_plan::api::MachineOsConfig;
use mosb_plan::api::rollout::NodeTarget;
use mosb_reconcile::Error;
use mosb_reconcile::Problem;
use mosb_reconcile::driver::NoDecision;
use mosb_reconcile::error::{describe, is_forbidden, is_not_found};
use mosb_reconcile::write::ApplyError;
use mosb_types::ErrorClass;
use mosb_types::Secret;

/// Adds the results of all lookups to the snapshot.
pub(super) async fn look_up(
    resolver: &Resolver,
    lookups: &[UserDataLookup],
    snapshot: &mut UserDataSnapshot,
) -> Result<(), NoDecision> {
    for lookup in lookups {
        match lookup {
            UserDataLookup::Secret(secret) => {
                let found = read_secret(resolver, secret).await?;
                snapshot.lookup_results.secrets.insert(secret.clone(), found);
            }
            UserDataLookup::Inputs(target) => {
                let inputs = inputs(resolver, &snapshot.config, target).await?;
                snapshot.lookup_results.inputs = Some(inputs);
            }
            UserDataLookup::ClusterInfo => {
                let info = read_cluster_info(&resolver.client).await?;
                snapshot.lookup_results.cluster_info = Some(info);
            }
        }
    }
    Ok(())
}

/// The Secret, read from etcd: a cache may show it as it was before our last write.
pub(crate) async fn read_secret(
    resolver: &Resolver,
    secret: &SecretRef,
) -> Result<FoundSecret, NoDecision> {
    let api: Api<v1::Secret> = Api::namespaced(resolver.client.clone(), secret.namespace());
    match api.get(secret.name()).await {
        Ok(found) => Ok(FoundSecret::Found(Box::new(Secret::new(found.into())))),
        Err(error) if is_not_found(&error) => Ok(FoundSecret::Missing),
        Err(error) if is_forbidden(&error) => Ok(FoundSecret::Forbidden(describe(&error))),
        Err(error) => Err(Error::api(format!("secret {secret}"), "get")(error).into()),
    }
}

/// Reads ConfigMap `cluster-info`. Clusters that were not made by kubeadm may not have it, and the
/// right to it is optional.
pub(super) async fn read_cluster_info(client: &Client) -> Result<ClusterInfo, Error> {
    let api: Api<v1::ConfigMap> = Api::namespaced(client.clone(), PUBLIC_NAMESPACE);
    match api.get(CLUSTER_INFO).await {
        Ok(info) => Ok(info.into()),
        Err(error) if is_not_found(&error) || is_forbidden(&error) => Ok(ClusterInfo::Unknown),
        Err(error) => Err(Error::api("configmap kube-public/cluster-info", "get")(error)),
    }
}

/// A transient problem ends the pass, which is tried again.
async fn inputs(
    resolver: &Resolver,
    config: &MachineOsConfig,
    target: &NodeTarget,
) -> Result<Result<MachineInputs, Problem>, NoDecision> {
    let what = || format!("the user data of machineosconfig {}", config.metadata.name);
    match resolver.limits.with_timeout(what, new_machine(resolver, config, target)).await {
        Err(problem) if is_passing(&problem) => {
            Err(NoDecision::Failed(ApplyError::Problem(problem)))
        }
        found => Ok(found),
    }
}

/// A rendered config that was deleted does not come back by itself.
fn is_passing(problem: &Problem) -> bool {
    problem.class == ErrorClass::Transient && problem.reason != NO_RENDERED_CONFIG
}
