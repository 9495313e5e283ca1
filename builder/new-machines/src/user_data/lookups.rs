//! Resolves the lookups: reads the Secret, and what its config is made of.

use k8s_openapi::api::core::v1;
use kube::{Api, Client};

use super::content::MachineInputs;
use super::decide::UserDataLookup;
use super::join_tokens::ClusterInfo;
use super::machine_inputs::new_machine;
use super::snapshot::UserDataSnapshot;
use mosb_cluster::cluster_names::{CLUSTER_INFO, PUBLIC_NAMESPACE};
use mosb_cluster::resolver::{NO_RENDERED_CONFIG, Resolver};
use mosb_cluster::user_data_secret::read_secret;
use mosb_plan::api::MachineOsConfig;
use mosb_plan::api::rollout::NodeTarget;
use mosb_reconcile::driver::NoDecision;
use mosb_reconcile::error::{is_forbidden, is_not_found};
use mosb_reconcile::write::ApplyError;
use mosb_reconcile::{Error, Problem};
use mosb_types::ErrorClass;

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
