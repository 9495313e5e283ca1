//! Objects that exist as targets of actions, by their metadata; the kinds of workloads.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use serde::de::DeserializeOwned;
use serde::{Deserialize as _, Serialize};
use serde_json::json;

use crate::kinds;
use mosb_api::{Condition, ImageBuilderType, Metadata, yaml};
use mosb_reconcile::Kind;
use mosb_reconcile::write::{Action, NewStatus, Patch, Target};

pub fn target(kind: Kind, metadata: &Metadata) -> Target {
    Target {
        kind,
        name: metadata.name.clone(),
        uid: metadata.uid().to_owned(),
        version: metadata.resource_version.clone(),
    }
}

pub fn patch<E>(kind: Kind, metadata: &Metadata, patch: Patch) -> Action<E> {
    Action::Patch(target(kind, metadata), patch)
}

/// Deletes the object whatever has changed of it.
pub fn delete<E>(kind: Kind, metadata: &Metadata) -> Action<E> {
    Action::Delete(target(kind, metadata).any_version())
}

pub fn replace_status<E>(kind: Kind, metadata: &Metadata, status: &impl Serialize) -> Action<E> {
    Action::ReplaceStatus(target(kind, metadata), NewStatus::Whole(json!(status)))
}

/// The conditions that an action writes with [`replace_conditions`].
pub fn conditions_in<E>(action: &Action<E>) -> Option<Vec<Condition>> {
    match action {
        Action::ReplaceStatus(target, NewStatus::Fields(fields))
            if target.kind == kinds::MACHINE_CONFIG_POOL =>
        {
            Vec::deserialize(&fields["conditions"]).ok()
        }
        _ => None,
    }
}

/// The conditions of a pool, in which only our entry changes: the API replaces the list as one.
pub fn replace_conditions<E>(pool: &Metadata, conditions: &[Condition]) -> Action<E> {
    let fields = json!({ "conditions": conditions });
    Action::ReplaceStatus(target(kinds::MACHINE_CONFIG_POOL, pool), NewStatus::Fields(fields))
}

/// An object of `job-templates/`, of which a test reads each.
///
/// # Panics
/// The text is not an object of this type.
pub fn template<T: DeserializeOwned>(text: &str) -> T {
    let value = yaml::parse_one(text.as_bytes()).expect("a test reads every template");
    serde_json::from_value(value).expect("a test reads every template")
}

/// The kind of the workload that a builder runs as.
pub fn workload_kind(builder: ImageBuilderType) -> Kind {
    match builder {
        ImageBuilderType::Job => kinds::JOB,
        ImageBuilderType::CustomPod => kinds::POD,
        ImageBuilderType::OpenShiftImage => kinds::OPENSHIFT_BUILD,
    }
}

/// Whether an owner is a workload.
pub fn is_workload_owner(owner: &OwnerReference) -> bool {
    let mut all = ImageBuilderType::ALL.into_iter();
    all.any(|builder| workload_kind(builder).name == owner.kind)
}
