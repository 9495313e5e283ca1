//! Reads what a request needs, and writes its change.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::Namespace;
use kube::api::{Patch, PatchParams};
use kube::core::DynamicObject;
use kube::{Api, Client};
use serde_json::json;

use super::request::{RolloutChange, RolloutRequest};
use super::request_error::RolloutRequestError;
use super::retry::Retry;
use crate::rollout::snapshot::RolloutSnapshot;
use crate::status::{NOT_ENABLED, ROLLOUT_DEGRADED};
use mosb_plan::api::{condition, labels};
use mosb_reconcile::Error;
use mosb_reconcile::error::{describe, is_forbidden};
use mosb_reconcile::kinds::Kind;
use mosb_reconcile::kinds::ROLLOUT_NAMESPACE;

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
    Ok(request.change(snapshot, is_enabled, os_image.as_deref()))
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
        write(client, Kind::MachineOsConfig, &metadata.name, &patch).await?;
    }
    for Retry { node, resource_version, slot } in &change.retries {
        // Removed, whether it is there or not.
        let mut annotations = json!({ labels::NODE_FALLBACK: null });
        if let Some(slot) = slot {
            let slot = serde_json::to_string(slot).expect("a slot is JSON");
            annotations[labels::NODE_SLOT] = slot.into();
        }
        let patch = json!({ "metadata": {
            "resourceVersion": resource_version, "annotations": annotations,
        } });
        write(client, Kind::Node, node, &patch).await?;
    }
    if let Some(paused) = change.paused {
        let metadata = &snapshot.pool.metadata;
        let patch = json!({
            "metadata": { "resourceVersion": metadata.resource_version() },
            "spec": { "paused": paused },
        });
        write(client, Kind::MachineConfigPool, &metadata.name, &patch).await?;
    }
    Ok(())
}

async fn write(
    client: &Client,
    kind: Kind,
    name: &str,
    patch: &serde_json::Value,
) -> Result<(), Error> {
    let api: Api<DynamicObject> = Api::all_with(client.clone(), &kind.resource());
    let written = api.patch(name, &PatchParams::default(), &Patch::Merge(patch)).await;
    let object = format!("{} {name}", kind.as_str().to_lowercase());
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
    let api: Api<DynamicObject> = Api::all_with(client.clone(), &Kind::MachineConfig.resource());
    let object = format!("machineconfig {name}");
    let found = api.get_opt(name).await.map_err(Error::api(object, "get"))?;
    let image = found.and_then(|found| Some(found.data["spec"]["osImageURL"].as_str()?.to_owned()));
    Ok(image)
}
