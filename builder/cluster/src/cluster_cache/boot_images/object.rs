//! What is cached of an object: metadata, spec and status as JSON values.

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ManagedFieldsEntry, OwnerReference};
use kube::core::DynamicObject;
use serde_json::Value;

use super::kind::BootImageKind;
use mosb_reconcile::write::FIELD_MANAGER;

/// The most bytes of JSON that are cached of an object. Sets and templates have a few thousand.
const MAX_BODY: usize = 256 << 10;
/// Holds a copy of the whole object, and nobody reads it.
const LAST_APPLIED: &str = "kubectl.kubernetes.io/last-applied-configuration";

/// An object of one of the kinds.
#[derive(Debug, Clone, PartialEq)]
pub struct SeenObject {
    pub kind: BootImageKind,
    /// `group/version` in which it was read.
    pub api_version: String,
    /// Empty for cluster-scoped kinds.
    pub namespace: String,
    pub name: String,
    pub uid: String,
    pub resource_version: String,
    pub generation: i64,
    pub labels: BTreeMap<String, String>,
    pub annotations: BTreeMap<String, String>,
    pub owners: Vec<OwnerReference>,
    pub is_being_deleted: bool,
    /// Only mosb wrote its spec.
    pub is_ours: bool,
    pub spec: Value,
    pub status: Value,
    /// Spec and status are larger than is cached, and `null` here.
    pub is_too_large: bool,
}

/// Whether the spec of an object with these records has a writer, and no other one than us.
pub fn has_only_our_spec(managed_fields: &[ManagedFieldsEntry]) -> bool {
    let has_spec = |entry: &&ManagedFieldsEntry| {
        entry.fields_v1.as_ref().is_some_and(|fields| fields.0.get("f:spec").is_some())
    };
    let writers: Vec<_> = managed_fields.iter().filter(has_spec).collect();
    let is_ours = |entry: &&ManagedFieldsEntry| entry.manager.as_deref() == Some(FIELD_MANAGER);
    !writers.is_empty() && writers.iter().all(is_ours)
}

impl SeenObject {
    /// None without a name.
    pub fn new(kind: BootImageKind, object: DynamicObject) -> Option<Self> {
        let api_version = object.types.map(|types| types.api_version).unwrap_or_default();
        let (meta, mut data) = (object.metadata, object.data);
        let is_too_large = data.to_string().len() > MAX_BODY;
        let mut take = |field: &str| match data.get_mut(field) {
            Some(value) if !is_too_large => value.take(),
            _ => Value::Null,
        };
        let mut annotations = meta.annotations.unwrap_or_default();
        annotations.remove(LAST_APPLIED);
        Some(Self {
            kind,
            api_version,
            namespace: meta.namespace.unwrap_or_default(),
            name: meta.name?,
            uid: meta.uid.unwrap_or_default(),
            resource_version: meta.resource_version.unwrap_or_default(),
            generation: meta.generation.unwrap_or_default(),
            labels: meta.labels.unwrap_or_default(),
            annotations,
            owners: meta.owner_references.unwrap_or_default(),
            is_being_deleted: meta.deletion_timestamp.is_some(),
            is_ours: has_only_our_spec(meta.managed_fields.as_deref().unwrap_or_default()),
            spec: take("spec"),
            status: take("status"),
            is_too_large,
        })
    }

    /// `namespace/name`; the bare name of a cluster-scoped object.
    pub fn key(&self) -> String {
        object_key(&self.namespace, &self.name)
    }

    pub fn annotation(&self, key: &str) -> Option<&str> {
        self.annotations.get(key).map(String::as_str)
    }

    /// The version of its group in which it was read.
    pub fn version(&self) -> &str {
        self.api_version.rsplit('/').next().unwrap_or_default()
    }

    /// The status of a condition. In `v1beta1`, Cluster API keeps the conditions of `v1beta2` apart.
    pub fn condition(&self, kind: &str) -> Option<&str> {
        let lists = [&self.status["conditions"], &self.status["v1beta2"]["conditions"]];
        let mut all = lists.into_iter().filter_map(Value::as_array).flatten();
        all.find(|one| one["type"] == kind)?.get("status")?.as_str()
    }
}

/// The key of an object in its store.
pub fn object_key(namespace: &str, name: &str) -> String {
    if namespace.is_empty() { name.to_owned() } else { format!("{namespace}/{name}") }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn read(value: Value) -> SeenObject {
        let object = serde_json::from_value(value).unwrap();
        SeenObject::new(BootImageKind::ClusterApiMachineSet, object).unwrap()
    }

    #[test]
    fn spec_and_status_are_cached_unless_they_are_large() {
        let object = |text: &str| {
            read(json!({ "apiVersion": "cluster.x-k8s.io/v1beta2", "kind": "MachineSet",
                "metadata": { "namespace": "a", "name": "b",
                    "annotations": { LAST_APPLIED: "{}", "mine": "1" } },
                "spec": { "text": text },
                "status": { "conditions": [{ "type": "Available", "status": "True" }],
                    "v1beta2": { "conditions": [
                        { "type": "Available", "status": "False" },
                        { "type": "RollingOut", "status": "True" }] } } }))
        };
        let small = object("x");
        assert_eq!((&*small.key(), small.version()), ("a/b", "v1beta2"));
        assert_eq!(small.spec["text"], "x");
        let found = ["Available", "RollingOut", "Ready"].map(|kind| small.condition(kind));
        assert_eq!(found, [Some("True"), Some("True"), None]);
        assert_eq!(small.annotations.keys().collect::<Vec<_>>(), ["mine"]);
        let large = object(&"x".repeat(MAX_BODY));
        assert!(large.is_too_large && large.spec.is_null() && large.status.is_null());
    }
}
