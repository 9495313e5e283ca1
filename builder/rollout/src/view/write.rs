//! Reads what a request needs, and writes its change.

use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::api::core::v1::Namespace;
use kube::api::{Patch, PatchParams};
use kube::core::DynamicObject;
use kube::{Api, Client};
use serde_json::{Value, json};

use super::request::{RolloutChange, RolloutRequest};
use super::request_error::RolloutRequestError;
use super::retry::Retry;
use crate::snapshot::RolloutSnapshot;
use mosb_api::rollout::PinnedBuild;
use mosb_api::{RenderedConfig, condition, labels};
use mosb_cluster::cluster_names::ROLLOUT_NAMESPACE;
use mosb_cluster::kinds;
use mosb_cluster::name_list::name_list;
use mosb_cluster::status::{NOT_ENABLED, ROLLOUT_DEGRADED};
use mosb_plan::plan::machine_part;
use mosb_reconcile::Error;
use mosb_reconcile::Kind;
use mosb_reconcile::error::{describe, is_forbidden};

/// The most kernel arguments that a note names.
const MAX_ARGUMENTS: usize = 20;
/// The most configs that are read for a note. Machines of a pool have two during a roll-out.
const MAX_CONFIGS: usize = 10;

/// The change of a request about the pool.
///
/// # Errors
/// [`Error`] if the cluster can't be read; the request's own error if it is refused.
pub async fn decide_request(
    client: &Client,
    snapshot: &RolloutSnapshot,
    request: &RolloutRequest,
) -> Result<Result<RolloutChange, RolloutRequestError>, Error> {
    let is_enabled = is_enabled(client, snapshot).await?;
    let os_image = match request {
        RolloutRequest::Undo(Some(to)) if to.is_stock() => os_image(client, snapshot).await?,
        RolloutRequest::Start
        | RolloutRequest::Pause
        | RolloutRequest::Resume
        | RolloutRequest::Adopt
        | RolloutRequest::Undo(_) => None,
    };
    let mut change = request.change(snapshot, is_enabled, os_image.as_deref());
    if let Ok(change) = &mut change
        && change.build.as_ref().is_some_and(PinnedBuild::is_stock)
        && !change.is_empty()
    {
        // Only for a note, which is not worth refusing the request.
        change.notes.extend(match configs_of_machines(client, snapshot).await {
            Ok(configs) => arguments_that_stay(configs),
            Err(error) => Some(format!(
                "the stock image does not take away kernel arguments; which ones stay on the machines is not known: {error}"
            )),
        });
    }
    Ok(change)
}

/// What a person should know before machines go to the stock image, which takes no kernel arguments
/// away. `configs`: the rendered configs that the machines have.
fn arguments_that_stay(configs: Vec<Value>) -> Option<String> {
    let configs = configs.into_iter().filter_map(|config| RenderedConfig::from_value(config).ok());
    let arguments = configs.flat_map(|config| machine_part(&config).kernel_arguments);
    let arguments: Vec<String> = arguments.collect::<BTreeSet<String>>().into_iter().collect();
    (!arguments.is_empty()).then(|| {
        format!(
            "the stock image does not take away kernel arguments; these stay on the machines: {}; for machines without them, roll out a config without them before",
            name_list(&arguments, MAX_ARGUMENTS)
        )
    })
}

/// Writes a change to the very versions of the objects that it was decided on.
///
/// # Errors
/// The API server rejects it; a conflict if an object was changed meanwhile.
pub async fn write_request(
    client: &Client,
    snapshot: &RolloutSnapshot,
    change: &RolloutChange,
) -> Result<(), Error> {
    if let (Some(config), false) = (&snapshot.config, change.annotations.is_empty()) {
        let metadata = &config.metadata;
        let annotations: BTreeMap<_, _> = change.annotations.iter().collect();
        let patch = json!({ "metadata": {
            "resourceVersion": metadata.resource_version(), "annotations": annotations,
        } });
        write(client, kinds::MACHINE_OS_CONFIG, &metadata.name, &patch).await?;
    }
    for Retry { node, resource_version, slot } in &change.retries {
        // Removed, whether it is there or not.
        let mut annotations = json!({ labels::NODE_FALLBACK: null, labels::NODE_SOAK: null });
        if let Some(slot) = slot {
            let slot = serde_json::to_string(slot).expect("a slot is JSON");
            annotations[labels::NODE_SLOT] = slot.into();
        }
        let patch = json!({ "metadata": {
            "resourceVersion": resource_version, "annotations": annotations,
        } });
        write(client, kinds::NODE, node, &patch).await?;
    }
    if let Some(paused) = change.paused {
        let metadata = &snapshot.pool.metadata;
        let patch = json!({
            "metadata": { "resourceVersion": metadata.resource_version() },
            "spec": { "paused": paused },
        });
        write(client, kinds::MACHINE_CONFIG_POOL, &metadata.name, &patch).await?;
    }
    Ok(())
}

async fn write(client: &Client, kind: Kind, name: &str, patch: &Value) -> Result<(), Error> {
    let api: Api<DynamicObject> = Api::all_with(client.clone(), &kind.resource());
    let written = api.patch(name, &PatchParams::default(), &Patch::Merge(patch)).await;
    let object = format!("{kind} {name}");
    written.map(drop).map_err(Error::api(object, "patch"))
}

/// Whether a controller rolls out, as far as this user can see.
async fn is_enabled(client: &Client, snapshot: &RolloutSnapshot) -> Result<bool, Error> {
    let reported = condition(&snapshot.pool.status.conditions, ROLLOUT_DEGRADED);
    if reported.is_some_and(|one| one.is_true() && one.reason == NOT_ENABLED) {
        return Ok(false);
    }
    let namespaces: Api<Namespace> = Api::all(client.clone());
    match namespaces.get_opt(ROLLOUT_NAMESPACE).await {
        Ok(found) => Ok(found.is_some()),
        Err(error) if is_forbidden(&error) => {
            // The controller's own condition shows it later.
            tracing::debug!("namespace {ROLLOUT_NAMESPACE}: {}", describe(&error));
            Ok(true)
        }
        Err(error) => Err(Error::api(format!("namespace {ROLLOUT_NAMESPACE}"), "get")(error)),
    }
}

/// `osImageURL` of the pool's rendered config.
async fn os_image(client: &Client, snapshot: &RolloutSnapshot) -> Result<Option<String>, Error> {
    let name = &snapshot.pool.spec.configuration.name;
    if name.is_empty() {
        return Ok(None);
    }
    let found = machine_config(client, name).await?;
    Ok(found.and_then(|found| Some(found["spec"]["osImageURL"].as_str()?.to_owned())))
}

/// The rendered configs that the machines have, as far as these still exist.
async fn configs_of_machines(
    client: &Client,
    snapshot: &RolloutSnapshot,
) -> Result<Vec<Value>, Error> {
    let names = snapshot.machines.iter();
    let names = names.filter_map(|one| one.node.metadata.annotation(labels::NODE_CURRENT_CONFIG));
    let names: BTreeSet<&str> = names.filter(|name| !name.is_empty()).collect();
    let mut configs = Vec::new();
    for name in names.into_iter().take(MAX_CONFIGS) {
        configs.extend(machine_config(client, name).await?);
    }
    Ok(configs)
}

async fn machine_config(client: &Client, name: &str) -> Result<Option<Value>, Error> {
    let api: Api<DynamicObject> = Api::all_with(client.clone(), &kinds::MACHINE_CONFIG.resource());
    let object = format!("machineconfig {name}");
    let found = api.get_opt(name).await.map_err(Error::api(object, "get"))?;
    Ok(found.map(|found| serde_json::to_value(found).expect("it was JSON")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arguments_of_all_configs_stay_on_the_machines() {
        let config = |arguments: Value| {
            json!({ "apiVersion": "machineconfiguration.openshift.io/v1", "kind": "MachineConfig",
                "metadata": { "name": "rendered-worker-0123456789abcdef0123456789abcdef" },
                "spec": { "kernelArguments": arguments,
                    "config": { "ignition": { "version": "3.5.0" } } } })
        };
        let note = arguments_that_stay(vec![config(json!(["b=2"])), config(json!(["a=1 b=2"]))]);
        assert!(note.unwrap().contains("stay on the machines: a=1, b=2; "));
        assert_eq!(arguments_that_stay(vec![config(json!([])), json!({})]), None);
    }
}
