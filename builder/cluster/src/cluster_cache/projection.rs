//! What the cache keeps of each object: only the fields that are read, because there may be
//! thousands of objects.

use std::collections::BTreeMap;

use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::core::v1::{Container, Node, Pod, PodSpec, Secret};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use kube::api::{ObjectMeta, PartialObjectMeta};
use kube::core::DynamicObject;
use kube::{Resource, ResourceExt as _};
use serde::de::DeserializeOwned;

use super::IndexKey;
use super::trigger::Trigger;
use crate::object::is_workload_owner;
use mosb_api::{component_pool, labels};

/// The cached fields of a node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SeenNode {
    pub name: String,
    /// Changes when the node is registered again.
    pub uid: String,
    pub labels: BTreeMap<String, String>,
}

/// Metadata of an object that a build's pod is given, or may be given. Its content is never cached.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ManagedObject {
    /// `metadata.name`
    pub name: String,
    /// `metadata.uid`
    pub uid: String,
    /// `metadata.resourceVersion`
    pub resource_version: Option<String>,
    /// The MachineOSConfig that it belongs to.
    pub config: Option<String>,
    /// The MachineOSBuild that it was created for.
    pub build: Option<String>,
    /// UID of the Job, Pod or Build that owns it.
    pub workload: Option<String>,
    /// Whether it is deleted together with its build.
    pub ephemeral: bool,
    pub deleting: bool,
}

/// The cached fields of the Secret with the login of a roll-out's Job.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct NodeSecret {
    /// UID of the Job that owns it.
    pub job_uid: String,
    /// The pool that the Job is for.
    pub pool: String,
}

/// The node that a Job of a roll-out is for: the one that owns it.
pub fn owning_node(meta: &ObjectMeta) -> Option<&OwnerReference> {
    meta.owner_references.iter().flatten().find(|owner| owner.kind == "Node")
}

/// Index keys of a Job of a roll-out.
pub(super) fn node_job_index_keys(job: &Job) -> Vec<IndexKey> {
    let pool = non_empty_annotation(&job.metadata, labels::POOL).map(IndexKey::Pool);
    let node = owning_node(&job.metadata).map(|node| IndexKey::Node(node.name.clone()));
    pool.into_iter().chain(node).collect()
}

/// Index key of a pod of such a Job.
pub(super) fn node_pod_index_keys(pod: &Pod) -> Vec<IndexKey> {
    let owners = pod.metadata.owner_references.iter().flatten();
    let controllers = owners.filter(|owner| owner.controller == Some(true));
    controllers.map(|owner| IndexKey::Controller(owner.uid.clone())).collect()
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
            config: owning_config(&meta),
            build: annotation_or_label(&meta, labels::MACHINE_OS_BUILD),
            workload: owners.find(|owner| is_workload_owner(owner)).map(|owner| owner.uid.clone()),
            ephemeral: labels.is_some_and(|all| all.contains_key(labels::EPHEMERAL_BUILD_OBJECT)),
            deleting: meta.deletion_timestamp.is_some(),
            name: meta.name.unwrap_or_default(),
            uid: meta.uid.unwrap_or_default(),
            resource_version: meta.resource_version,
        }
    }
}

/// Index keys of an object that belongs to a build.
pub(super) fn index_keys(meta: &ObjectMeta) -> Vec<IndexKey> {
    let owners = meta.owner_references.iter().flatten();
    let controllers = owners.filter(|owner| owner.controller == Some(true));
    let controllers = controllers.map(|owner| IndexKey::Controller(owner.uid.clone()));
    controllers.chain(owning_config(meta).map(IndexKey::Config)).collect()
}

/// Index keys of a component MachineConfig; other MachineConfigs have none.
pub(super) fn component_index_keys(meta: &ObjectMeta) -> Vec<IndexKey> {
    let Some(pool) = meta.name.as_deref().and_then(component_pool) else {
        return Vec::new();
    };
    let claim = non_empty_annotation(meta, labels::SERVES).map(IndexKey::Config);
    [IndexKey::Pool(pool.to_string())].into_iter().chain(claim).collect()
}

/// The value of an annotation; an empty one counts as absent.
pub fn non_empty_annotation(meta: &ObjectMeta, key: &str) -> Option<String> {
    let value = meta.annotations.as_ref()?.get(key)?;
    (!value.is_empty()).then(|| value.clone())
}

/// The MachineOSConfig that an object belongs to. The annotation has the whole name; the label may
/// be cut.
pub(super) fn owning_config(meta: &ObjectMeta) -> Option<String> {
    annotation_or_label(meta, labels::MACHINE_OS_CONFIG)
}

/// The value of an annotation, else of the label with the same key.
fn annotation_or_label(meta: &ObjectMeta, key: &str) -> Option<String> {
    let annotation = meta.annotations.as_ref().and_then(|all| all.get(key));
    let label = || meta.labels.as_ref().and_then(|all| all.get(key));
    annotation.or_else(label).cloned()
}

/// Reads a dynamic object as its kind. An object that can't be read keeps the state that was last
/// seen.
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

/// Keeps of the pod template, which is nearly all of a Job, only where its pods may run and their
/// commands.
pub(super) fn job(mut object: Job) -> Option<(String, Job)> {
    if let Some(spec) = &mut object.spec {
        let pod = std::mem::take(&mut spec.template).spec;
        let known = |container: Container| Container {
            name: container.name,
            command: container.command,
            ..Container::default()
        };
        spec.template.spec = pod.map(|pod| PodSpec {
            affinity: pod.affinity,
            node_selector: pod.node_selector,
            containers: pod.containers.into_iter().map(known).collect(),
            ..PodSpec::default()
        });
    }
    typed(object)
}

/// Keeps of the spec only the scheduling gates, where the pod may run, the names of the containers,
/// and the Secrets that the pod can read. Those are redacted from archived logs.
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
            affinity: spec.affinity,
            node_selector: spec.node_selector,
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
    // The annotation `last-applied-configuration` of kubectl holds all of a MachineConfig.
    if let Some(annotations) = &mut meta.annotations {
        annotations.retain(|key, _| is_known(key));
    }
    Some((meta.name.clone()?, meta))
}

/// Whether an annotation is one of machine configuration or of mosb.
pub(super) fn is_known(key: &str) -> bool {
    labels::ANNOTATION_PREFIXES.iter().any(|prefix| key.starts_with(prefix))
}

pub(super) fn node(object: PartialObjectMeta<Node>) -> Option<(String, SeenNode)> {
    let meta = object.metadata;
    let node = SeenNode {
        name: meta.name?,
        uid: meta.uid.unwrap_or_default(),
        labels: meta.labels.unwrap_or_default(),
    };
    Some((node.name.clone(), node))
}

#[expect(clippy::unnecessary_wraps, reason = "one of several readers")]
pub(super) fn deployment(object: Deployment) -> Option<(String, i32)> {
    let name = object.name_any();
    // The API's default is one replica.
    let replicas = object.spec.and_then(|spec| spec.replicas).unwrap_or(1);
    Some((name, replicas))
}

pub(super) fn existence<K>(object: PartialObjectMeta<K>) -> Option<(String, ())> {
    Some((object.metadata.name?, ()))
}

/// Whether the Secret of a roll-out's Job exists; its content is never cached.
pub(super) fn node_secret(object: PartialObjectMeta<Secret>) -> Option<(String, NodeSecret)> {
    let meta = object.metadata;
    let owners = meta.owner_references.iter().flatten();
    let job = owners.into_iter().find(|owner| owner.kind == "Job");
    let job_uid = job.map(|job| job.uid.clone()).unwrap_or_default();
    let pool = non_empty_annotation(&meta, labels::POOL).unwrap_or_default();
    Some((meta.name?, NodeSecret { job_uid, pool }))
}

/// Metadata of an object that belongs to a build, or that builds may be given.
#[expect(clippy::unnecessary_wraps, reason = "one of several readers")]
pub(super) fn managed_object<K>(object: PartialObjectMeta<K>) -> Option<(String, ManagedObject)> {
    let managed_object = ManagedObject::from(object.metadata);
    Some((managed_object.name.clone(), managed_object))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_job_keeps_where_it_runs_and_its_command() {
        let pod = json!({
            "nodeSelector": { "a": "b" },
            "affinity": { "nodeAffinity": {} },
            "containers": [{ "name": "stage", "command": ["mosb"] }],
        });
        let mut whole = pod.clone();
        whole["containers"][0]["image"] = json!("quay.io/mosb");
        whole["serviceAccountName"] = json!("build");
        let object = json!({ "metadata": { "name": "a" },
            "spec": { "template": { "metadata": { "labels": { "a": "b" } }, "spec": whole } } });
        let (_, cached) = job(serde_json::from_value(object).unwrap()).unwrap();
        let want = json!({ "template": { "spec": pod } });
        assert_eq!(serde_json::to_value(cached.spec).unwrap(), want);
    }

    #[test]
    fn the_last_applied_annotation_is_not_cached() {
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
        let (_, cached) = meta(object).unwrap();
        let cached: Vec<String> = cached.annotations.unwrap().into_keys().collect();
        assert_eq!(cached, [labels::MACHINE_OS_BUILD, labels::ATTEMPT]);
    }
}
