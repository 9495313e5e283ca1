//! The switch of a set of Cluster API to another template. Templates can't be changed, so a new one
//! is made of the old one. Pure.

use serde_json::{Value, json};

use super::effect::{BootImageWrite, ObjectRef};
use super::machine_set::{MachineSet, TEMPLATE_NAME, TemplateRef};
use super::obstacle::{Failure, Obstacle};
use super::snapshot::BootImageSnapshot;
use mosb_boot_image::{Change, CloneError, TemplateClone};
use mosb_cluster::cluster_cache::{SeenObject, object_key};
use mosb_types::Diagnostic as _;

impl From<CloneError> for Obstacle {
    fn from(error: CloneError) -> Self {
        Failure::new(error.code(), error.to_string()).into()
    }
}

/// The next write: of the template, then of the set's reference.
pub(super) fn next_write(
    set: MachineSet<'_>,
    (reference, template): (&TemplateRef, &SeenObject),
    change: &Change,
    snapshot: &BootImageSnapshot,
) -> Result<BootImageWrite, Obstacle> {
    let mut spec = template.spec.clone();
    let applied = change.apply(&mut spec);
    applied.map_err(|error| Failure::new(error.code(), error.to_string()))?;
    let clone = TemplateClone::new(&whole(template), &spec)?;
    for attempt in 0.. {
        // Ends with an error after a few attempts.
        let name = clone.name(attempt)?;
        let key = object_key(&template.namespace, &name);
        let Some(there) = snapshot.get(reference.kind, &key) else {
            return Ok(BootImageWrite::Create {
                kind: reference.kind,
                namespace: template.namespace.clone(),
                name,
                body: clone.object(attempt)?,
                also: change.object.clone(),
            });
        };
        if there.is_being_deleted {
            let kind = template.kind.as_str();
            return Err(Obstacle::Wait(format!("{kind} {key} is being deleted")));
        }
        if clone.is(&whole(there), there.is_ours) {
            return Ok(BootImageWrite::Patch {
                target: ObjectRef::of(set.object),
                operations: operations(&reference.name, &name),
            });
        }
    }
    unreachable!("the number of names is limited")
}

/// The switch of the reference, with a test of the old one.
pub(super) fn operations(old: &str, new: &str) -> Vec<Value> {
    vec![
        json!({ "op": "test", "path": TEMPLATE_NAME, "value": old }),
        json!({ "op": "replace", "path": TEMPLATE_NAME, "value": new }),
    ]
}

/// The object as the API server has it, without a status.
fn whole(template: &SeenObject) -> Value {
    json!({
        "apiVersion": template.api_version,
        "kind": template.kind.as_str(),
        "metadata": {
            "namespace": template.namespace,
            "name": template.name,
            "labels": template.labels,
            "annotations": template.annotations,
            "ownerReferences": template.owners,
        },
        "spec": template.spec,
    })
}
