//! How the API server applies patches, and what it counts.

use kube::core::Status;
use mosb_reconcile::Error;
use mosb_reconcile::write::ApplyError;
use serde_json::{Value, json};

/// Operations of RFC 6902; a test that fails is a defect of the decision.
pub fn json_patch(object: &mut Value, operations: &[Value]) {
    for one in operations {
        let path = one["path"].as_str().unwrap();
        let (parent, key) = path.rsplit_once('/').unwrap();
        let key = key.replace("~1", "/");
        match one["op"].as_str().unwrap() {
            "test" => assert_eq!(object.pointer(path), Some(&one["value"]), "{path}"),
            "add" | "replace" => {
                let parent = object.pointer_mut(parent).unwrap();
                match (parent.as_array_mut(), key.parse::<usize>()) {
                    (Some(list), Ok(at)) => list[at] = one["value"].clone(),
                    _ => parent[key] = one["value"].clone(),
                }
            }
            "remove" => {
                let parent = object.pointer_mut(parent).unwrap().as_object_mut().unwrap();
                assert!(parent.remove(&key).is_some(), "{path}");
            }
            other => panic!("{other}"),
        }
    }
}

/// The fields of a merge patch, one level deep.
pub fn merge(object: &mut Value, fields: &Value) {
    for (field, value) in fields.as_object().unwrap() {
        if value.is_null() {
            if let Some(object) = object.as_object_mut() {
                object.remove(field);
            }
        } else {
            object[field] = value.clone();
        }
    }
}

/// A change of the spec is counted, and the set's controller has seen it.
pub fn changed(object: &mut Value) {
    let generation = object["metadata"]["generation"].as_i64().unwrap() + 1;
    object["metadata"]["generation"] = json!(generation);
    if !object["status"]["observedGeneration"].is_null() {
        object["status"]["observedGeneration"] = json!(generation);
    }
}

/// An answer of the API server to a write.
pub fn refused(code: u16) -> ApplyError {
    let status = Status::failure("by policy", "Reason").with_code(code).boxed();
    Error::api("object x", "patch")(kube::Error::Api(status)).into()
}
