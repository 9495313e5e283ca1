//! Events on objects, each told once: its name follows from what it says.

use k8s_openapi::api::core::v1::ObjectReference;
use k8s_openapi::api::events::v1::Event as Object;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::MicroTime;
use k8s_openapi::jiff::Timestamp;
use kube::api::{ObjectMeta, PostParams};
use kube::{Api, Client};
use sha2::{Digest as _, Sha256};

use super::error::{is_conflict, is_not_found, told};
use super::Error;
use crate::api::shortened;

/// Who tells, as the existing API has it.
const REPORTER: &str = "machineosbuilder";
/// What a note may hold, in characters: the API's own limit is 1 KiB.
const NOTE: usize = 1000;
/// Where events about objects without a namespace are kept.
const NAMESPACE: &str = "default";

/// What happened to an object.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Event {
    /// Kind, name, UID of the object.
    pub on: ObjectReference,
    /// Whether somebody should look at it.
    pub warning: bool,
    /// One word, such as `BuildStarted`.
    pub reason: String,
    /// A sentence for a reader.
    pub note: String,
    /// What makes two events of one reason on one object two, such as a build and its attempt.
    pub edge: String,
}

/// Tells events.
#[derive(Clone)]
pub struct Events {
    client: Client,
    instance: String,
}

impl std::fmt::Debug for Events {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Events").finish_non_exhaustive()
    }
}

impl Events {
    /// Told by this process.
    pub fn new(client: Client, instance: &str) -> Self {
        Self {
            client,
            instance: instance.to_owned(),
        }
    }

    /// Tells it, unless it was told. An event that can't be told holds nothing up, so only what may pass is an error.
    ///
    /// # Errors
    /// The API server did not answer.
    pub async fn tell(&self, event: &Event) -> Result<(), Error> {
        let object = object(event, &self.instance, Timestamp::now());
        let namespace = object.metadata.namespace.as_deref().unwrap_or(NAMESPACE);
        let api: Api<Object> = Api::namespaced(self.client.clone(), namespace);
        match api.create(&PostParams::default(), &object).await {
            Ok(_) => Ok(()),
            Err(error) if is_conflict(&error) => Ok(()),
            Err(error @ kube::Error::Api(_)) => {
                let name = object.metadata.name.as_deref().unwrap_or_default();
                let gone = is_not_found(&error);
                tracing::warn!(gone, "event {namespace}/{name}: not told: {}", told(&error));
                Ok(())
            }
            Err(error) => Err(Error::api(format!("event on {:?}", event.on.name), "create")(error)),
        }
    }
}

/// The event as the API has it.
fn object(event: &Event, instance: &str, now: Timestamp) -> Object {
    let namespace = event.on.namespace.as_deref().unwrap_or(NAMESPACE);
    let about = event.on.name.as_deref().unwrap_or_default();
    let mut hash = Sha256::new();
    for part in [
        event.on.kind.as_deref().unwrap_or_default(),
        event.on.uid.as_deref().unwrap_or_default(),
        &event.reason,
        &event.edge,
    ] {
        hash.update(part);
        hash.update([0]);
    }
    let hex: String = hash.finalize()[..8]
        .iter()
        .map(|byte| format!("{byte:02x}"))
        .collect();
    let note: String = event.note.chars().take(NOTE).collect();
    Object {
        metadata: ObjectMeta {
            // An object's name may fill all that a name has room for.
            name: Some(format!("{}.{hex}", shortened(about, 253 - 17))),
            namespace: Some(namespace.to_owned()),
            ..ObjectMeta::default()
        },
        action: Some(event.reason.clone()),
        event_time: Some(MicroTime(now)),
        note: Some(note),
        reason: Some(event.reason.clone()),
        regarding: Some(event.on.clone()),
        reporting_controller: Some(REPORTER.to_owned()),
        reporting_instance: Some(shortened(instance, 128)),
        type_: Some(if event.warning { "Warning" } else { "Normal" }.to_owned()),
        ..Object::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn event(name: &str, edge: &str) -> Event {
        Event {
            on: ObjectReference {
                kind: Some("MachineOSBuild".to_owned()),
                name: Some(name.to_owned()),
                uid: Some("u1".to_owned()),
                ..ObjectReference::default()
            },
            warning: true,
            reason: "BuildFailed".to_owned(),
            note: "é".repeat(3000),
            edge: edge.to_owned(),
        }
    }

    #[test]
    fn one_edge_has_one_name_and_every_name_fits() {
        let name = |event: &Event| object(event, "pod", Timestamp::UNIX_EPOCH).metadata.name;
        assert_eq!(name(&event("worker-1", "1")), name(&event("worker-1", "1")));
        assert_ne!(name(&event("worker-1", "1")), name(&event("worker-1", "2")));
        let long = name(&event(&"w".repeat(253), "1")).unwrap();
        assert_eq!(long.len(), 253);
        let told = object(&event("worker-1", "1"), "pod", Timestamp::UNIX_EPOCH);
        assert_eq!(told.metadata.namespace.as_deref(), Some("default"));
        assert_eq!(told.note.unwrap().chars().count(), 1000);
    }
}
