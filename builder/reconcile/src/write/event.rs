//! Events, each emitted once: its name is derived from its content.

use k8s_openapi::api::core::v1::ObjectReference;
use k8s_openapi::api::events::v1::Event as Object;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::MicroTime;
use k8s_openapi::jiff::Timestamp;
use kube::api::{ObjectMeta, PostParams};
use kube::{Api, Client};

use crate::Error;
use crate::error::{describe, is_conflict};

/// The reporting controller, as in the Machine Config Operator.
const REPORTER: &str = "machineosbuilder";
/// The namespace of Events about cluster-scoped objects.
const NAMESPACE: &str = "default";

/// An event. Its name is derived from its content, so it is created only once.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Event {
    pub name: String,
    pub on: Regarding,
    pub kind: EventKind,
    /// What happened, in one word.
    pub reason: &'static str,
    /// A sentence, at most 1024 characters.
    pub note: String,
}

/// The object that an event is about; all of them are cluster-scoped.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Regarding {
    pub api_version: &'static str,
    pub kind: &'static str,
    pub name: String,
    pub uid: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EventKind {
    Normal,
    Warning,
}

impl EventKind {
    /// As the API spells it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Normal => "Normal",
            Self::Warning => "Warning",
        }
    }
}

/// Creates the Event unless it exists. If the API server rejects it, this is logged only.
/// `instance`: the reporting instance, at most 128 characters.
///
/// # Errors
/// The API server did not answer.
pub(super) async fn emit(client: &Client, instance: &str, event: &Event) -> Result<(), Error> {
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
        action: Some(event.reason.to_owned()),
        event_time: Some(MicroTime(now)),
        note: Some(event.note.clone()),
        reason: Some(event.reason.to_owned()),
        regarding: Some(ObjectReference {
            api_version: Some(event.on.api_version.to_owned()),
            kind: Some(event.on.kind.to_owned()),
            name: Some(event.on.name.clone()),
            uid: Some(event.on.uid.clone()),
            ..ObjectReference::default()
        }),
        reporting_controller: Some(REPORTER.to_owned()),
        reporting_instance: Some(instance.to_owned()),
        type_: Some(event.kind.as_str().to_owned()),
        ..Object::default()
    }
}
