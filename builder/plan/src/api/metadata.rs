//! The part of `metadata` that matters here, of every kind.

use std::collections::BTreeMap;
use std::hash::{Hash, Hasher};

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use serde::{Deserialize, Serialize};

/// `metadata`, as far as it is read or written here.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Metadata {
    pub name: String,
    /// Labels.
    #[serde(deserialize_with = "null_is_empty")]
    pub labels: BTreeMap<String, String>,
    /// Annotations.
    #[serde(deserialize_with = "null_is_empty")]
    pub annotations: BTreeMap<String, String>,
    /// Owners.
    #[serde(deserialize_with = "null_is_empty")]
    pub owner_references: Vec<OwnerReference>,
    /// Given by the API server.
    pub uid: Option<String>,
    /// Raised by the API server with each change of the spec.
    pub generation: Option<i64>,
    /// Changed by the API server with each write.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub resource_version: Option<String>,
    /// When the object was created.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub creation_timestamp: Option<Time>,
    /// The time of the request to delete it; the object is deleted once it has no finalizers.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub deletion_timestamp: Option<Time>,
    /// The controllers that must act before the object is deleted.
    #[serde(skip_serializing_if = "Vec::is_empty", deserialize_with = "null_is_empty")]
    pub finalizers: Vec<String>,
}

/// By hand, because `Time` has none.
impl Hash for Metadata {
    fn hash<H: Hasher>(&self, state: &mut H) {
        let Self {
            name,
            labels,
            annotations,
            owner_references,
            uid,
            generation,
            resource_version,
            creation_timestamp,
            deletion_timestamp,
            finalizers,
        } = self;
        let times =
            [creation_timestamp, deletion_timestamp].map(|time| time.as_ref().map(|at| at.0));
        (name, labels, annotations, owner_references, uid).hash(state);
        (generation, resource_version, times, finalizers).hash(state);
    }
}

/// An entry of `metadata.ownerReferences`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct OwnerReference {
    /// API version of the owner.
    #[serde(skip_serializing_if = "String::is_empty", deserialize_with = "null_is_empty")]
    pub api_version: String,
    /// `MachineConfigPool` for a rendered config.
    pub kind: String,
    pub name: String,
    /// The very instance of it.
    #[serde(skip_serializing_if = "String::is_empty", deserialize_with = "null_is_empty")]
    pub uid: String,
    /// Whether it is the one that controls the object.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub controller: Option<bool>,
    /// Whether the owner, deleted in the foreground, waits for the object.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub block_owner_deletion: Option<bool>,
}

impl Metadata {
    /// The UID; empty before the API server gave one.
    pub fn uid(&self) -> &str {
        self.uid.as_deref().unwrap_or_default()
    }

    /// The resourceVersion; empty before the API server gave one.
    pub fn resource_version(&self) -> &str {
        self.resource_version.as_deref().unwrap_or_default()
    }

    /// The value of an annotation; `None` if it is empty.
    pub fn annotation(&self, key: &str) -> Option<&str> {
        let value = self.annotations.get(key)?;
        (!value.is_empty()).then_some(value)
    }

    /// Whether its deletion was asked for.
    pub fn is_being_deleted(&self) -> bool {
        self.deletion_timestamp.is_some()
    }

    /// Whether this very instance of an object controls it.
    pub fn is_controlled_by(&self, uid: &str) -> bool {
        let mut owners = self.owner_references.iter();
        !uid.is_empty() && owners.any(|owner| owner.controller == Some(true) && owner.uid == uid)
    }
}

/// Reads null as no value.
pub(super) fn null_is_empty<'de, D, T>(deserializer: D) -> Result<T, D::Error>
where
    D: serde::Deserializer<'de>,
    T: Default + Deserialize<'de>,
{
    Ok(Option::deserialize(deserializer)?.unwrap_or_default())
}
