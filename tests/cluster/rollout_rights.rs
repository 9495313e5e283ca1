//! What the account of the controller may do with the rights of `deploy/rollout`, as the real API
//! server decides: also the rights that no story needs.

use std::time::Duration;

use serde_json::{Value, json};

use crate::deploy::rendered;
use mosb_tests::{node, wait};

pub const SOON: Duration = Duration::from_secs(60);
pub const CONTROLLER: &str = "system:serviceaccount:mosb-system:mosb-controller";
/// An account of the same namespace without a binding.
pub const OTHER: &str = "system:serviceaccount:mosb-system:default";

/// Whether the API server lets this account do it by a binding of its own: it is in no group.
pub fn is_allowed(user: &str, what: &Value) -> bool {
    let mut spec = what.clone();
    spec["user"] = json!(user);
    let review = json!({ "apiVersion": "authorization.k8s.io/v1", "kind": "SubjectAccessReview",
        "spec": spec });
    let target = "/apis/authorization.k8s.io/v1/subjectaccessreviews";
    let (code, answer) = node().api().ask("POST", target, Some(&review));
    assert_eq!(code, 201, "{answer:#}");
    answer["status"]["allowed"] == true
}

pub fn resource(verb: &str, group: &str, resource: &str, namespace: &str, name: &str) -> Value {
    json!({ "resourceAttributes": { "verb": verb, "group": group, "resource": resource,
        "namespace": namespace, "name": name } })
}

fn path(verb: &str, path: &str) -> Value {
    json!({ "nonResourceAttributes": { "verb": verb, "path": path } })
}

#[test]
fn the_rights_of_a_roll_out_are_narrow() {
    crate::deploy::install();
    for object in rendered("rollout") {
        let name = object["metadata"]["name"].as_str().unwrap_or_default();
        if name.contains("rollout") {
            node().apply(&object.to_string());
        }
    }
    let (job, secret) = ("mosb-stage-a", "mosb-stage-a");
    let renderer = "machine-config-controller";
    let given = [
        resource("get", "batch", "jobs", "mosb-rollout", job),
        resource("get", "", "secrets", "mosb-rollout", secret),
        resource("list", "apps", "deployments", "", renderer),
        resource("watch", "apps", "deployments", "", renderer),
        path("get", "/readyz"),
    ];
    for right in &given {
        wait(&format!("{right} to be allowed"), SOON, || {
            is_allowed(CONTROLLER, right).then_some(())
        });
        assert!(!is_allowed(OTHER, right), "another account: {right}");
    }
    for right in [
        resource("get", "batch", "jobs", "default", job),
        resource("update", "batch", "jobs", "mosb-rollout", job),
        resource("patch", "batch", "jobs", "mosb-rollout", job),
        resource("get", "", "secrets", "kube-system", secret),
        resource("update", "", "secrets", "mosb-rollout", secret),
        resource("delete", "", "secrets", "mosb-rollout", secret),
        resource("watch", "apps", "deployments", "", ""),
        resource("watch", "apps", "deployments", "", "coredns"),
        resource("get", "apps", "deployments", "", renderer),
        resource("delete", "", "pods", "default", "a"),
        resource("update", "", "nodes", "", "a"),
        path("get", "/readyz/etcd"),
        path("get", "/metrics"),
        path("post", "/readyz"),
    ] {
        assert!(!is_allowed(CONTROLLER, &right), "{right}");
    }
}
