//! Resolves the lookups: reads Secrets, and what a config is made of; generates keys.

use jiff::Timestamp;
use k8s_openapi::api::core::v1;
use kube::{Api, Client};

use crate::ignition_server::{ServerKeys, authority_secret};
use crate::snapshot::{Lookup, Snapshot, Subject};
use crate::user_data::{ClusterInfo, MachineInputs, new_machine};
use mosb_api::MachineOsConfig;
use mosb_api::rollout::NodeTarget;
use mosb_cluster::cluster_names::{CLUSTER_INFO, PUBLIC_NAMESPACE};
use mosb_cluster::resolver::{NO_RENDERED_CONFIG, Resolver};
use mosb_cluster::user_data_secret::{FoundSecret, read_secret};
use mosb_ignition_server::AuthorityError;
use mosb_reconcile::driver::NoDecision;
use mosb_reconcile::error::{is_forbidden, is_not_found};
use mosb_reconcile::write::ApplyError;
use mosb_reconcile::{Error, Problem};
use mosb_types::ErrorClass;

/// Adds the results of all lookups to the snapshot.
pub async fn look_up(
    resolver: &Resolver,
    lookups: &[Lookup],
    snapshot: &mut Snapshot,
) -> Result<(), NoDecision> {
    for lookup in lookups {
        match (lookup, &snapshot.subject) {
            (Lookup::Secret(secret), _) => {
                let found = read_secret(resolver, secret).await?;
                snapshot.lookup_results.secrets.insert(secret.clone(), found);
            }
            (Lookup::Inputs(target), Subject::UserData(user_data)) => {
                let inputs = inputs(resolver, &user_data.config, target).await?;
                snapshot.lookup_results.inputs = Some(inputs);
            }
            (Lookup::ClusterInfo, _) => {
                let info = read_cluster_info(&resolver.client).await?;
                snapshot.lookup_results.cluster_info = Some(info);
            }
            (Lookup::Keys | Lookup::Certificate { .. }, _) => {
                generate(lookup, snapshot, Timestamp::now())
                    .map_err(|error| ApplyError::Problem(error.into()))?;
            }
            (Lookup::Inputs(_), Subject::Server(_)) => {}
        }
    }
    Ok(())
}

/// Makes the keys, or the certificate, that a decision lacks.
pub fn generate(
    lookup: &Lookup,
    snapshot: &mut Snapshot,
    now: Timestamp,
) -> Result<(), AuthorityError> {
    let secret = authority_secret(&snapshot.namespace);
    let results = &mut snapshot.lookup_results;
    let Some(FoundSecret::Found(authority)) = results.secrets.get(&secret) else {
        return Ok(());
    };
    match lookup {
        Lookup::Keys => results.keys = Some(ServerKeys::renew(authority.expose(), now)?),
        Lookup::Certificate { host } => {
            let keys = results.keys.clone().or_else(|| ServerKeys::in_secret(authority.expose()));
            if let Some(keys) = keys {
                results.certificate = Some(keys.authority.issue(host, now)?);
            }
        }
        Lookup::Secret(_) | Lookup::Inputs(_) | Lookup::ClusterInfo => {}
    }
    Ok(())
}

/// Reads ConfigMap `cluster-info`. Clusters that were not made by kubeadm may not have it, and the
/// right to it is optional.
pub async fn read_cluster_info(client: &Client) -> Result<ClusterInfo, Error> {
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
