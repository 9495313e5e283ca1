//! What the pod of a build runs, and the prepared bases that the cluster recorded.

use super::*;

const RECORD: &str = "configmap/mosb-prepared-bases";

pub fn containers(pod: &Value) -> impl Iterator<Item = &Value> {
    let lists = ["initContainers", "containers"].map(|list| &pod["spec"][list]);
    lists.into_iter().flat_map(|list| list.as_array().into_iter().flatten())
}

/// The names of its containers, in the order in which they start.
pub fn names(pod: &Value) -> Vec<&str> {
    containers(pod).map(|container| container["name"].as_str().unwrap()).collect()
}

/// The pod built directly, with no capability and nothing of buildah.
#[track_caller]
pub fn assert_direct(pod: &Value) {
    assert_eq!(names(pod), ["wait-for-done", "image-build"], "{pod:#}");
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
