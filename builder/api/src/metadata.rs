//! The part of `metadata` that matters here, of every kind.

use std::collections::BTreeMap;
use std::hash::{Hash, Hasher};

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use mosb_types::null_is_empty;
use serde::{Deserialize, Serialize};

/// `metadata`, as far as it is read or written here.
#[null_is_empty]
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Metadata {
    pub name: String,
    pub labels: BTreeMap<String, String>,
    pub annotations: BTreeMap<String, String>,
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
    #[serde(skip_serializing_if = "Vec::is_empty")]
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
#[null_is_empty]
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct OwnerReference {
    /// API version of the owner.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub api_version: String,
    /// `MachineConfigPool` for a rendered config.
    pub kind: String,
    pub name: String,
    /// The very instance of it.
    #[serde(skip_serializing_if = "String::is_empty")]
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

/// One of `status.conditions`: `metav1.Condition`, and those of a pool, which have no generation.
#[null_is_empty]
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Condition {
    /// Of a fixed set for each kind.
    #[serde(rename = "type")]
    pub kind: String,
    /// `True`, `False` or `Unknown`.
    pub status: String,
    /// The last change of `status`, to whole seconds; a pool's may have none.
    pub last_transition_time: Option<Time>,
    /// One word for programs.
    pub reason: String,
    /// A text for people.
    pub message: String,
    /// The generation of the object that it speaks of.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
}

/// By hand, because `Time` has none.
impl Hash for Condition {
    fn hash<H: Hasher>(&self, state: &mut H) {
        let Self { kind, status, last_transition_time, reason, message, observed_generation } =
            self;
        let since = last_transition_time.as_ref().map(|time| time.0);
        (kind, status, since, reason, message, observed_generation).hash(state);
    }
}

impl Condition {
    /// Whether `status` is `True`.
    pub fn is_true(&self) -> bool {
        self.status == "True"
    }

    /// Whether it equals the other one but for the time of the transition.
    pub fn matches(&self, status: &str, reason: &str, message: &str) -> bool {
        self.status == status && self.reason == reason && self.message == message
    }
}

/// The condition of this type.
pub fn condition<'a>(conditions: &'a [Condition], kind: &str) -> Option<&'a Condition> {
    conditions.iter().find(|condition| condition.kind == kind)
}
