//! What is kept of the objects that the watches tell of: what somebody asks for, as there are thousands of them.

use std::collections::BTreeMap;

use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::core::v1::{Container, Node, Pod, PodSpec, PodTemplateSpec};
use kube::api::{ObjectMeta, PartialObjectMeta};
use kube::core::DynamicObject;
use kube::{Resource, ResourceExt as _};
use serde::de::DeserializeOwned;

use super::super::indexed_store::IndexKey;
use super::super::kinds::GROUP;
use super::super::observe;
use super::Trigger;
use crate::workload::is_workload_owner;
use mosb_plan::api::labels;

/// What matters of a node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SeenNode {
    /// Changes when the node is made anew.
    pub uid: String,
    /// Its labels.
    pub labels: BTreeMap<String, String>,
}

/// What matters of an object that a build's pod is given, or may be: nothing of what is in it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ManagedObject {
    /// `metadata.name`
    pub name: String,
    /// `metadata.uid`
    pub uid: String,
    /// `metadata.resourceVersion`
    pub resource_version: Option<String>,
    /// The MachineOSConfig that it serves.
    pub config: Option<String>,
    /// The MachineOSBuild that it was made for.
    pub build: Option<String>,
    /// UID of the Job, Pod or Build that owns it.
    pub workload: Option<String>,
    /// Whether it is thrown away with its build.
    pub ephemeral: bool,
    /// Whether it is being deleted.
    pub deleting: bool,
}

impl ManagedObject {
    pub(super) fn index_keys(&self) -> Vec<IndexKey> {
        self.config.iter().cloned().map(IndexKey::Config).collect()
    }

    pub(super) fn trigger(&self) -> Trigger {
        self.config.clone().map_or(Trigger::Unrelated, Trigger::ManagedObject)
    }
}

impl From<ObjectMeta> for ManagedObject {
    fn from(meta: ObjectMeta) -> Self {
        let labels = meta.labels.as_ref();
        let mut owners = meta.owner_references.iter().flatten();
        Self {
            config: observe::owning_config(&meta),
            build: observe::annotation_or_label(&meta, labels::MACHINE_OS_BUILD),
            workload: owners.find(|owner| is_workload_owner(owner)).map(|owner| owner.uid.clone()),
            ephemeral: labels.is_some_and(|all| all.contains_key(labels::EPHEMERAL_BUILD_OBJECT)),
            deleting: meta.deletion_timestamp.is_some(),
            name: meta.name.unwrap_or_default(),
            uid: meta.uid.unwrap_or_default(),
            resource_version: meta.resource_version,
        }
    }
}

/// By what an object that serves a build is found.
pub(super) fn index_keys(meta: &ObjectMeta) -> Vec<IndexKey> {
    let owners = meta.owner_references.iter().flatten();
    let controllers = owners.filter(|owner| owner.controller == Some(true));
    let controllers = controllers.map(|owner| IndexKey::Controller(owner.uid.clone()));
    controllers.chain(observe::owning_config(meta).map(IndexKey::Config)).collect()
}

/// Of an object that the API serves; one that is not as its kind should be is left as it was last seen.
pub(super) fn read<T: DeserializeOwned>(mut object: DynamicObject) -> Option<(String, T)> {
    object.metadata.managed_fields = None;
    let name = object.name_any();
    let kind = object.types.as_ref().map(|types| types.kind.clone());
    let value = serde_json::to_value(object).and_then(serde_json::from_value);
    match value {
        Ok(value) => Some((name, value)),
        Err(error) => {
            let kind = kind.unwrap_or_default();
            tracing::warn!("{kind}/{name}: not readable as its kind: {error}");
            None
        }
    }
}

#[expect(clippy::unnecessary_wraps, reason = "one of several readers")]
pub(super) fn typed<K: Resource>(mut object: K) -> Option<(String, K)> {
    object.meta_mut().managed_fields = None;
    Some((object.name_any(), object))
}

/// What its pods are made of is nearly all of a Job, and nobody asks for it.
pub(super) fn job(mut object: Job) -> Option<(String, Job)> {
    if let Some(spec) = &mut object.spec {
        spec.template = PodTemplateSpec::default();
    }
    typed(object)
}

/// Of its making only what holds it back, the names of its containers, and which Secrets it can read: these are hidden in what is kept of
/// its logs.
pub(super) fn pod(mut object: Pod) -> Option<(String, Pod)> {
    let known = |all: Vec<Container>| {
        let known = |container: Container| Container {
            name: container.name,
            env_from: container.env_from,
            ..Container::default()
        };
        all.into_iter().map(known).collect()
    };
    object.spec = object.spec.map(|spec| {
        let volumes = spec.volumes.into_iter().flatten();
        PodSpec {
            scheduling_gates: spec.scheduling_gates,
            init_containers: spec.init_containers.map(known),
            containers: known(spec.containers),
            volumes: Some(volumes.filter(|volume| volume.secret.is_some()).collect()),
            ..PodSpec::default()
        }
    });
    typed(object)
}

pub(super) fn meta<K: Resource>(object: PartialObjectMeta<K>) -> Option<(String, ObjectMeta)> {
    let mut meta = object.metadata;
    meta.managed_fields = None;
    // Among those of others is what kubectl last applied: all of a MachineConfig.
    if let Some(annotations) = &mut meta.annotations {
        annotations.retain(|key, _| is_known(key));
    }
    Some((meta.name.clone()?, meta))
}

/// Whether an annotation is of machine configuration or of mosb.
fn is_known(key: &str) -> bool {
    key.split_once('/').is_some_and(|(prefix, _)| prefix == GROUP || prefix == "mosb.dev")
}

pub(super) fn node(object: PartialObjectMeta<Node>) -> Option<(String, SeenNode)> {
    let meta = object.metadata;
    let node =
        SeenNode { uid: meta.uid.unwrap_or_default(), labels: meta.labels.unwrap_or_default() };
    Some((meta.name?, node))
}

#[expect(clippy::unnecessary_wraps, reason = "one of several readers")]
pub(super) fn deployment(object: Deployment) -> Option<(String, i32)> {
    let name = object.name_any();
    // Not said is one, as the API has it.
    let replicas = object.spec.and_then(|spec| spec.replicas).unwrap_or(1);
    Some((name, replicas))
}

pub(super) fn existence<K>(object: PartialObjectMeta<K>) -> Option<(String, ())> {
    Some((object.metadata.name?, ()))
}

/// Of an object that serves a build, or of one that builds may be given.
#[expect(clippy::unnecessary_wraps, reason = "one of several readers")]
pub(super) fn managed_object<K>(object: PartialObjectMeta<K>) -> Option<(String, ManagedObject)> {
    let managed_object = ManagedObject::from(object.metadata);
    Some((managed_object.name.clone(), managed_object))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_kubectl_applied_is_not_kept() {
        let annotations = [
            ("kubectl.kubernetes.io/last-applied-configuration", "hunter2"),
            (labels::MACHINE_OS_BUILD, "worker-b"),
            (labels::ATTEMPT, "1"),
        ];
        let object = PartialObjectMeta::<Pod> {
            metadata: ObjectMeta {
                name: Some("push".to_owned()),
                annotations: Some(
                    annotations.map(|(key, value)| (key.to_owned(), value.to_owned())).into(),
                ),
                ..ObjectMeta::default()
            },
            ..PartialObjectMeta::default()
        };
        let (_, kept) = meta(object).unwrap();
        let kept: Vec<String> = kept.annotations.unwrap().into_keys().collect();
        assert_eq!(kept, [labels::MACHINE_OS_BUILD, labels::ATTEMPT]);
    }
}
