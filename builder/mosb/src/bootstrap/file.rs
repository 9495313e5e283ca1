//! A file to be written.

use serde_json::{Map, Value};

use mosb_image::Digest;
use mosb_plan::api::{is_object_name, shortened, yaml};

/// A file of the output.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct File {
    /// Below the output directory: plain names with `/` between.
    pub path: String,
    pub bytes: Vec<u8>,
    /// Whether only its owner may read it.
    pub is_private: bool,
}

/// The most that a name leaves room for in a file's name, with kind and extension.
const NAME: usize = 200;
/// What an API server gives an object; to apply them again somewhere else is an error or does nothing.
const GIVEN: [&str; 8] = [
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
const APPLIED: &str = "kubectl.kubernetes.io/last-applied-configuration";
/// A field of a ControllerConfig that holds logins.
const LOGINS: &str = "internalRegistryPullSecret";

impl File {
    /// An object to be applied, in a file that is named by it.
    pub(super) fn of_object(object: &Value) -> Self {
        let text = |path: &str| object.pointer(path).and_then(Value::as_str).unwrap_or_default();
        let (kind, name) = (text("/kind").to_lowercase(), text("/metadata/name"));
        // A name that no API server takes may be a path.
        let name = match is_object_name(name) {
            true => shortened(name, NAME),
            false => Digest::of(name.as_bytes()).hex(),
        };
        Self {
            path: format!("{kind}-{name}.yaml"),
            bytes: yaml::to_text(object).into_bytes(),
            is_private: false,
        }
    }
}

/// An object as one would write it by hand: without what an API server adds, and without the logins that a cluster puts into its
/// ControllerConfig.
pub(super) fn by_hand(raw: &Value) -> Value {
    let mut object = raw.clone();
    if let Some(fields) = object.as_object_mut() {
        fields.remove("status");
    }
    if let Some(metadata) = object.get_mut("metadata").and_then(Value::as_object_mut) {
        for field in GIVEN {
            metadata.remove(field);
        }
        if let Some(annotations) = metadata.get_mut("annotations").and_then(Value::as_object_mut) {
            annotations.remove(APPLIED);
        }
        metadata.retain(|_, value| !is_nothing(value));
    }
    if let Some(spec) = object.get_mut("spec").and_then(Value::as_object_mut) {
        spec.remove(LOGINS);
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
    fn what_an_api_server_added_is_not_written() {
        let read = json!({
            "kind": "ControllerConfig",
            "metadata": {
                "name": "c", "uid": "u", "resourceVersion": "1", "generation": 2, "managedFields": [], "labels": {},
                "ownerReferences": [{ "uid": "u" }], "annotations": { APPLIED: "{}", "a": "b" },
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
