//! Output files.

use serde_json::{Map, Value};

use mosb_api::{is_object_name, shortened, yaml};
use mosb_image::Digest;

/// A file to write.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct File {
    /// Below the output directory: plain names with `/` between.
    pub path: String,
    pub bytes: Vec<u8>,
    /// Whether only its owner may read it.
    pub is_private: bool,
}

/// Longest object name in a file name, so that kind and extension fit too.
const MAX_NAME_LEN: usize = 200;
/// Metadata that the API server sets. It can't be applied to another cluster.
const SERVER_FIELDS: [&str; 8] = [
    "uid",
    "resourceVersion",
    "generation",
    "creationTimestamp",
    "deletionTimestamp",
    "managedFields",
    "selfLink",
    "ownerReferences",
];
/// Annotation of `kubectl apply`: what was applied before.
const LAST_APPLIED: &str = "kubectl.kubernetes.io/last-applied-configuration";
/// A field of a ControllerConfig that holds logins.
const LOGINS_FIELD: &str = "internalRegistryPullSecret";

impl File {
    /// A file with one object, named after the kind and name of the object.
    pub(super) fn of_object(object: &Value) -> Self {
        let text = |path: &str| object.pointer(path).and_then(Value::as_str).unwrap_or_default();
        let (kind, name) = (text("/kind").to_lowercase(), text("/metadata/name"));
        // An invalid object name may contain a path.
        let name = if is_object_name(name) {
            shortened(name, MAX_NAME_LEN)
        } else {
            Digest::of(name.as_bytes()).hex()
        };
        Self {
            path: format!("{kind}-{name}.yaml"),
            bytes: yaml::to_text(object).into_bytes(),
            is_private: false,
        }
    }
}

/// Removes the fields that an API server adds, and the logins that a cluster adds to its
/// ControllerConfig.
pub(super) fn by_hand(raw: &Value) -> Value {
    let mut object = raw.clone();
    if let Some(fields) = object.as_object_mut() {
        fields.remove("status");
    }
    if let Some(metadata) = object.get_mut("metadata").and_then(Value::as_object_mut) {
        for field in SERVER_FIELDS {
            metadata.remove(field);
        }
        if let Some(annotations) = metadata.get_mut("annotations").and_then(Value::as_object_mut) {
            annotations.remove(LAST_APPLIED);
        }
        metadata.retain(|_, value| !is_nothing(value));
    }
    if let Some(spec) = object.get_mut("spec").and_then(Value::as_object_mut) {
        spec.remove(LOGINS_FIELD);
    }
    object
}

fn is_nothing(value: &Value) -> bool {
    value.is_null() || value.as_object().is_some_and(Map::is_empty)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn fields_that_an_api_server_added_are_not_written() {
        let read = json!({
            "kind": "ControllerConfig",
            "metadata": {
                "name": "c", "uid": "u", "resourceVersion": "1", "generation": 2, "managedFields": [], "labels": {},
                "ownerReferences": [{ "uid": "u" }], "annotations": { LAST_APPLIED: "{}", "a": "b" },
            },
            "spec": { "a": 1, "internalRegistryPullSecret": "aHVudGVyMg==" },
            "status": { "observedGeneration": 2 },
        });
        let want = json!({ "kind": "ControllerConfig", "metadata": { "name": "c", "annotations": { "a": "b" } }, "spec": { "a": 1 } });
        assert_eq!(by_hand(&read), want);
    }

    #[test]
    fn a_file_is_named_by_its_object_however_long_that_is_called() {
        let object = |name: &str| json!({ "kind": "MachineConfig", "metadata": { "name": name } });
        assert_eq!(File::of_object(&object("a")).path, "machineconfig-a.yaml");
        let [one, other] =
            ["x", "y"].map(|end| File::of_object(&object(&("a".repeat(252) + end))).path);
        assert!(one.len() < 255 && one != other);
        let path = File::of_object(&object("../../etc/x")).path;
        assert!(!path.contains('/') && path.len() < 255, "{path}");
    }
}
