//! Emits Events, each once: its name is derived from its content.

use k8s_openapi::api::core::v1::ObjectReference;
use k8s_openapi::api::events::v1::Event as Object;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::MicroTime;
use k8s_openapi::jiff::Timestamp;
use kube::api::{ObjectMeta, PostParams};
use kube::{Api, Client};

use crate::status::Event;
use mosb_plan::api::shortened;
use mosb_reconcile::Error;
use mosb_reconcile::error::{describe, is_conflict};

/// The reporting controller, as in the Machine Config Operator.
const REPORTER: &str = "machineosbuilder";
/// The namespace of Events about cluster-scoped objects.
const NAMESPACE: &str = "default";

/// Creates the Event unless it exists. If the API server rejects it, this is logged only.
///
/// # Errors
/// The API server did not answer.
pub async fn emit(client: &Client, instance: &str, event: &Event) -> Result<(), Error> {
    let object = object(event, instance, Timestamp::now());
    let api: Api<Object> = Api::namespaced(client.clone(), NAMESPACE);
    match api.create(&PostParams::default(), &object).await {
        Ok(_) => Ok(()),
        Err(error) if is_conflict(&error) => Ok(()),
        Err(error @ kube::Error::Api(_)) => {
            tracing::warn!("event {}: not created: {}", event.name, describe(&error));
            Ok(())
        }
        Err(error) => Err(Error::api(format!("event {}", event.name), "create")(error)),
    }
}

fn object(event: &Event, instance: &str, now: Timestamp) -> Object {
    Object {
        metadata: ObjectMeta {
            name: Some(event.name.clone()),
            namespace: Some(NAMESPACE.to_owned()),
            ..ObjectMeta::default()
        },
        action: Some(event.reason.as_str().to_owned()),
        event_time: Some(MicroTime(now)),
        note: Some(event.note.clone()),
        reason: Some(event.reason.as_str().to_owned()),
        regarding: Some(ObjectReference {
            api_version: Some(event.on.api_version.to_owned()),
            kind: Some(event.on.kind.to_owned()),
            name: Some(event.on.name.clone()),
            uid: Some(event.on.uid.clone()),
            ..ObjectReference::default()
        }),
        reporting_controller: Some(REPORTER.to_owned()),
        // The longest value that the API allows.
        reporting_instance: Some(shortened(instance, 128)),
        type_: Some(event.kind.as_str().to_owned()),
        ..Object::default()
    }
}
