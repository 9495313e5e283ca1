//! Handles an existing object with the name of a new one. Pure.

use kube::ResourceExt as _;
use kube::api::ObjectMeta;
use kube::core::DynamicObject;
use serde_json::Value;

use super::error::ApplyError;
use crate::action::NewObject;
use crate::lookup::Problem;
use mosb_plan::api::labels;
use mosb_reconcile::Error;
use mosb_types::ErrorClass;

/// Compares the object that exists, if it still does, with the one that would be created: it is the
/// same, or why it can't be created.
///
/// # Errors
/// A conflict if it is being deleted, or if the watch will show it; else that it is not ours.
pub(super) fn compare(
    new: &NewObject,
    there: Option<&DynamicObject>,
    object: String,
) -> Result<(), ApplyError> {
    let Some(there) = there else {
        return Err(ApplyError::Conflict(object));
    };
    let (meta, owner) = (&there.metadata, new.owner_uid().unwrap_or_default());
    // It belongs to an earlier attempt or build and is being deleted.
    let is_leftover = there.labels().contains_key(labels::EPHEMERAL_BUILD_OBJECT);
    let is_outdated = match new {
        NewObject::Rendered(rendered) => return compare_rendered(there, rendered),
        NewObject::MachineOsConfig(_) | NewObject::Component(_) => true,
        // Created by an earlier pass, or being deleted: the watch will show it.
        NewObject::MachineOsBuild(_) => {
            is_controlled_by(meta, owner) || meta.deletion_timestamp.is_some()
        }
        NewObject::Workload(workload) => {
            let attempt = there.annotations().get(labels::ATTEMPT).map(String::as_str);
            if is_controlled_by(meta, owner) && attempt == workload.annotation(labels::ATTEMPT) {
                return Ok(());
            }
            is_leftover
        }
        // Its name has verb, node, target and number, so no other node has one of this name.
        NewObject::NodeJob(_) => {
            if meta.owner_references.iter().flatten().any(|one| one.uid == owner) {
                return Ok(());
            }
            meta.deletion_timestamp.is_some()
        }
        NewObject::Input(_) => {
            if meta.owner_references.iter().flatten().any(|one| one.uid == owner) {
                return Ok(());
            }
            is_leftover
        }
    };
    if is_outdated {
        Err(ApplyError::Conflict(object))
    } else {
        Err(Error::NotOurs { object }.into())
    }
}

/// Whether the owner with this UID controls the object.
fn is_controlled_by(meta: &ObjectMeta, uid: &str) -> bool {
    let mut owners = meta.owner_references.iter().flatten();
    !uid.is_empty() && owners.any(|owner| owner.controller == Some(true) && owner.uid == uid)
}

/// The same for a rendered MachineConfig, which is equal if its content is, regardless of its
/// creator.
pub(crate) fn compare_rendered(there: &DynamicObject, wanted: &Value) -> Result<(), ApplyError> {
    let object = format!("machineconfig {}", there.name_any());
    if there.metadata.deletion_timestamp.is_some() {
        return Err(ApplyError::Conflict(object));
    }
    if there.data.get("spec") != wanted.get("spec") {
        return Err(ApplyError::Problem(Problem {
            class: ErrorClass::InvalidInput,
            reason: "not-ours".to_owned(),
            message: format!(
                "{object}: exists with other content than the pool's MachineConfigs give; delete it, and mosb creates it again"
            ),
        }));
    }
    let owner = wanted.pointer("/metadata/ownerReferences/0");
    let owners = there.metadata.owner_references.iter().flatten();
    let mut controllers = owners.filter(|owner| owner.controller == Some(true));
    match controllers.next() {
        // It belongs to an earlier pool of this name, and is deleted with it.
        Some(other) if owner.is_some_and(|owner| owner["uid"] != other.uid.as_str()) => {
            Err(ApplyError::Conflict(object))
        }
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::workload::{Input, Workload};

    /// An object of a build with this owner and attempt.
    fn object(owner: &str, attempt: &str) -> Value {
        json!({ "metadata": {
            "name": "x",
            "labels": { labels::EPHEMERAL_BUILD_OBJECT: "" },
            "annotations": { labels::ATTEMPT: attempt },
            "ownerReferences": [{ "apiVersion": "v1", "kind": "X", "name": "x", "uid": owner, "controller": true }],
        } })
    }

    fn read<T: serde::de::DeserializeOwned>(value: Value) -> T {
        serde_json::from_value(value).unwrap()
    }

    #[test]
    fn an_existing_object_is_ours_or_deleted_or_a_conflict() {
        let new = object("owner", "2");
        let build = NewObject::MachineOsBuild(Box::new(read(new.clone())));
        let job = NewObject::Workload(Workload::Job(read(new.clone())));
        let secret = NewObject::Input(Box::new(Input::Secret(read(new.clone()))));
        let mut foreign = object("other", "2");
        foreign["metadata"]["labels"] = json!({});
        let mut deleted = foreign.clone();
        deleted["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
        for (what, new, there, want) in [
            ("our build", &build, Some(&new), "conflict"),
            ("a build that is being deleted", &build, Some(&deleted), "conflict"),
            ("another's build", &build, Some(&foreign), "not ours"),
            ("no build any more", &build, None, "conflict"),
            ("this workload", &job, Some(&new), "same"),
            ("one of an earlier attempt", &job, Some(&object("owner", "1")), "conflict"),
            ("one of an earlier build", &job, Some(&object("other", "2")), "conflict"),
            ("another's Job", &job, Some(&foreign), "not ours"),
            ("this input", &secret, Some(&object("owner", "1")), "same"),
            ("an input of an earlier workload", &secret, Some(&object("other", "2")), "conflict"),
            ("another's Secret", &secret, Some(&foreign), "not ours"),
        ] {
            let there: Option<DynamicObject> = there.map(|there| read(there.clone()));
            let compared = match compare(new, there.as_ref(), "x".to_owned()) {
                Ok(()) => "same",
                Err(ApplyError::Conflict(_)) => "conflict",
                Err(ApplyError::Api(Error::NotOurs { .. })) => "not ours",
                Err(error) => panic!("{what}: {error}"),
            };
            assert_eq!(compared, want, "{what}");
        }
    }
}
