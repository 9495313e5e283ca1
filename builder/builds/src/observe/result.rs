//! Whether the result in a ConfigMap can be trusted.

use kube::api::ObjectMeta;

use mosb_api::job_name;
use mosb_build::JobResult;
use mosb_cluster::object::is_workload_owner;
use mosb_workload::result_name;

/// Why a result is not trusted. Anyone may set our labels on a ConfigMap, and a build's sidecar may
/// write all of its own ConfigMap including the metadata. So the ConfigMap must have the name that
/// belongs to the build, and its owner must be the Job, Pod or Build that the result names.
pub(super) fn untrusted_reason(map: &ObjectMeta, result: &JobResult) -> Option<String> {
    let name = result_name(&result.build);
    if map.name.as_ref() != Some(&name) {
        return Some(format!(
            "it is the result of build {}, which belongs into {name}",
            result.build
        ));
    }
    let workload = job_name(&result.build);
    let mut owners = map.owner_references.iter().flatten();
    let is_owner = owners.any(|owner| {
        is_workload_owner(owner) && owner.name == workload && owner.uid == result.job_uid
    });
    (!is_owner).then(|| {
        format!(
            "it names {workload} with UID {:?}, which does not own the ConfigMap",
            result.job_uid
        )
    })
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    const BUILD: &str = "worker-0123456789abcdef0123456789abcdef";
    const OTHER: &str = "infra-0123456789abcdef0123456789abcdef";

    fn owner(kind: &str, build: &str, uid: &str) -> Value {
        json!({ "apiVersion": "x/v1", "kind": kind, "name": format!("build-{build}"), "uid": uid })
    }

    #[test]
    fn a_result_is_believed_only_where_its_job_owns_the_map_of_its_build() {
        let name = format!("digest-{BUILD}");
        let own = owner("Job", BUILD, "uid");
        for (what, name, owners, build, uid, want) in [
            ("as the controller made it", &*name, json!([own]), BUILD, "uid", true),
            ("of a Pod", &name, json!([owner("Pod", BUILD, "uid")]), BUILD, "uid", true),
            (
                "among other owners",
                &name,
                json!([owner("Node", "x", "n"), own]),
                BUILD,
                "uid",
                true,
            ),
            ("labels alone", &name, json!(null), BUILD, "uid", false),
            ("a name of its own", "forged", json!([own]), BUILD, "uid", false),
            (
                "of the Job before",
                &name,
                json!([owner("Job", BUILD, "before")]),
                BUILD,
                "uid",
                false,
            ),
            (
                "of another kind",
                &name,
                json!([owner("ConfigMap", BUILD, "uid")]),
                BUILD,
                "uid",
                false,
            ),
            ("of another's Job", &name, json!([owner("Job", OTHER, "uid")]), BUILD, "uid", false),
            ("another build's, from our map", &name, json!([own]), OTHER, "uid", false),
            (
                "another build's, whose Job was made its owner",
                &name,
                json!([owner("Job", OTHER, "other")]),
                OTHER,
                "other",
                false,
            ),
            ("another's UID", &name, json!([own]), BUILD, "other", false),
        ] {
            let map = json!({ "name": name, "ownerReferences": owners });
            let map: ObjectMeta = serde_json::from_value(map).unwrap();
            let result = json!({ "jobUid": uid, "build": build, "outcome": "NeedsContainerfile", "reasons": [] });
            let result: JobResult = serde_json::from_value(result).unwrap();
            let why = untrusted_reason(&map, &result);
            assert_eq!(why.is_none(), want, "{what}: {why:?}");
        }
    }
}
