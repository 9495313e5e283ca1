//! What the pod of a build runs, and the prepared bases that the cluster recorded.

use super::*;

const RECORD: &str = "configmap/mosb-prepared-bases";

pub fn containers(pod: &Value) -> impl Iterator<Item = &Value> {
    let lists = ["initContainers", "containers"].map(|list| &pod["spec"][list]);
    lists.into_iter().flat_map(|list| list.as_array().into_iter().flatten())
}

pub fn arguments(pod: &Value) -> Vec<&str> {
    let words = containers(pod).flat_map(|one| {
        let lists = [&one["command"], &one["args"]];
        lists.into_iter().flat_map(|list| list.as_array().into_iter().flatten())
    });
    words.filter_map(Value::as_str).collect()
}

/// The pod built directly, with no capability and nothing of buildah: on the prepared base with this
/// digest, or on the OS base.
#[track_caller]
pub fn assert_direct(pod: &Value, prepared: Option<&str>) {
    let words = arguments(pod);
    assert!(!words.is_empty(), "{pod:#}");
    let image = words.iter().position(|word| *word == "--prepared").map(|at| words[at + 1]);
    let digest = image.and_then(|image| image.split_once('@')).map(|(_, digest)| digest);
    assert_eq!(digest, prepared, "{words:?}");
    assert!(!words.contains(&"--image") && !words.contains(&"--storage-driver"), "{words:?}");
    for container in containers(pod) {
        let context = &container["securityContext"];
        assert_eq!(context["allowPrivilegeEscalation"], false, "{container:#}");
        assert_eq!(context["capabilities"], json!({ "drop": ["ALL"] }), "{container:#}");
        assert_ne!(context["privileged"], true, "{container:#}");
    }
}

/// The digests of the prepared bases in the record.
pub fn recorded(cluster: &Cluster) -> Vec<String> {
    let map = cluster.namespace.find(RECORD).unwrap_or_default();
    let entries = map["data"].as_object().cloned().unwrap_or_default();
    let image = |entry: &Value| -> String {
        let entry: Value = serde_json::from_str(entry.as_str().unwrap()).unwrap();
        entry["image"].as_str().unwrap().to_owned()
    };
    entries.values().map(image).collect()
}
