//! The rendered MachineConfig as an object, and whether one that exists is the same. Pure.

use std::sync::Arc;

use kube::ResourceExt as _;
use kube::core::DynamicObject;
use serde_json::Value;

use mosb_cluster::kinds;
use mosb_reconcile::Problem;
use mosb_reconcile::write::{Existing, IfExists, NewObject};
use mosb_types::ErrorClass;

pub fn rendered_object(rendered: &Arc<Value>) -> NewObject {
    NewObject {
        kind: kinds::MACHINE_CONFIG,
        name: rendered["metadata"]["name"].as_str().unwrap_or_default().to_owned(),
        owner_uid: None,
        body: Arc::clone(rendered),
        if_exists: IfExists::CompareWhole(|new, there| compare_rendered(there, &new.body)),
    }
}

/// Whether a rendered MachineConfig is the wanted one: its content is, regardless of its creator.
pub fn compare_rendered(there: &DynamicObject, wanted: &Value) -> Existing {
    if there.metadata.deletion_timestamp.is_some() {
        return Existing::Outdated;
    }
    if there.data.get("spec") != wanted.get("spec") {
        return Existing::Problem(Problem {
            class: ErrorClass::InvalidInput,
            reason: "not-ours".to_owned(),
            message: format!(
                "machineconfig {}: exists with other content than the pool's MachineConfigs give; delete it, and mosb creates it again",
                there.name_any()
            ),
        });
    }
    let owner = wanted.pointer("/metadata/ownerReferences/0");
    let owners = there.metadata.owner_references.iter().flatten();
    let mut controllers = owners.filter(|owner| owner.controller == Some(true));
    match controllers.next() {
        // It belongs to an earlier pool of this name, and is deleted with it.
        Some(other) if owner.is_some_and(|owner| owner["uid"] != other.uid.as_str()) => {
            Existing::Outdated
        }
        _ => Existing::Same,
    }
}
