//! Tells events: each once, as its name follows from what it says.

use k8s_openapi::api::core::v1::ObjectReference;
use k8s_openapi::api::events::v1::Event as Object;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::MicroTime;
use k8s_openapi::jiff::Timestamp;
use kube::api::{ObjectMeta, PostParams};
use kube::{Api, Client};

use super::Error;
use super::error::{describe, is_conflict};
use crate::status::Event;
use mosb_plan::api::{API_VERSION, shortened};

/// Who tells, as the existing API has it.
const REPORTER: &str = "machineosbuilder";
/// Where events about objects without a namespace are kept.
const NAMESPACE: &str = "default";

/// Tells it, unless it was told. What the API server refuses is logged and holds nothing up.
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
            tracing::warn!("event {}: not told: {}", event.name, describe(&error));
            Ok(())
        }
        Err(error) => Err(Error::api(format!("event {}", event.name), "create")(error)),
    }
}

/// The event as the API has it.
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
            api_version: Some(API_VERSION.to_owned()),
            kind: Some(event.on.kind.to_owned()),
            name: Some(event.on.name.clone()),
            uid: Some(event.on.uid.clone()),
            ..ObjectReference::default()
        }),
        reporting_controller: Some(REPORTER.to_owned()),
        // The API allows no more.
        reporting_instance: Some(shortened(instance, 128)),
        type_: Some(event.kind.as_str().to_owned()),
        ..Object::default()
    }
}
