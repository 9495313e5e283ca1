//! Where pods get no user namespace: an explicit request for one is rejected, and otherwise the
//! condition explains what that means.

use std::fs;

use serde_json::{Value, json};

use crate::test_cluster::{Cluster, SOON};
use mosb_tests::{Layout, wait};

const MAP: &str = "FROM configs AS final\nRUN cat /proc/self/uid_map > /etc/uid_map\n";

/// A rule of the cluster's own: no pod of the namespace has a user namespace, whatever it asks for.
fn takes_them_away(cluster: &Cluster) {
    let name = &cluster.namespace.name;
    let namespaces = json!({ "matchLabels": { "kubernetes.io/metadata.name": name } });
    let rules = json!([{ "apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["pods"] }]);
    let expression =
        r#"has(object.spec.hostUsers) ? [JSONPatch{op: "remove", path: "/spec/hostUsers"}] : []"#;
    for (kind, spec) in [
        (
            "MutatingAdmissionPolicy",
            json!({
            "matchConstraints": { "namespaceSelector": namespaces, "resourceRules": rules },
            "failurePolicy": "Fail", "reinvocationPolicy": "Never",
            "mutations": [{ "patchType": "JSONPatch", "jsonPatch": { "expression": expression } }] }),
        ),
        ("MutatingAdmissionPolicyBinding", json!({ "policyName": name })),
    ] {
        let object = json!({ "apiVersion": "admissionregistration.k8s.io/v1beta1", "kind": kind, "metadata": { "name": name }, "spec": spec });
        cluster.node.apply(&object.to_string());
    }
    let pod = json!({ "apiVersion": "v1", "kind": "Pod", "metadata": { "name": "asks" },
        "spec": { "hostUsers": false, "containers": [{ "name": "x", "image": "x" }] } });
    wait("the rule to be in force", SOON, || {
        let words =
            ["create", "--dry-run=server", "--output=json", "--filename=-", "--namespace", name];
        let stored = cluster.node.kubectl_with(&words, pod.to_string().as_bytes()).ok().json();
        stored["spec"].get("hostUsers").is_none().then_some(())
    });
}

fn condition(config: &Value, kind: &str) -> Option<Value> {
    let conditions = config["status"]["conditions"].as_array();
    let mut conditions = conditions.into_iter().flatten();
    conditions.find(|one| one["type"] == kind).cloned()
}

/// The condition `UserNamespaces`, once there is one.
fn user_namespaces_condition(cluster: &Cluster) -> Value {
    let what = format!("machineosconfig/{}", cluster.pool);
    let is_there = |config: &Value| condition(config, "UserNamespaces").is_some();
    condition(&cluster.node.wait(&what, SOON, is_there), "UserNamespaces").unwrap()
}

/// Root in the build's instructions, as the image has it.
#[track_caller]
fn is_the_nodes_root(cluster: &Cluster, image: &str) {
    let folder = tempfile::tempdir().unwrap();
    let layout = Layout::at(folder.path().join("layout"));
    let name = image.strip_prefix(&cluster.node.registry().repository("")).unwrap();
    cluster.node.registry().pull(name, &layout.reference("i"));
    let top = layout.layers("i").pop().unwrap();
    let to = folder.path().join("top");
    tar::Archive::new(top).unpack(&to).unwrap();
    let map = fs::read_to_string(to.join("etc/uid_map")).unwrap();
    let words: Vec<_> = map.split_whitespace().collect();
    assert_eq!(words, ["0", "0", "4294967295"]);
}

#[test]
fn missing_user_namespaces_are_reported_or_rejected() {
    let mut cluster = Cluster::new("no-users");
    takes_them_away(&cluster);
    cluster.render("one");
    cluster.start();

    // As the cluster can: without.
    cluster.opt_in(Some(MAP));
    let image = cluster.image_after("");
    is_the_nodes_root(&cluster, &image);
    let reported = user_namespaces_condition(&cluster);
    assert_eq!(
        (&reported["status"], &reported["reason"]),
        (&json!("False"), &json!("NotSupported"))
    );

    // With them or not at all.
    cluster.settings(&json!({ "userNamespaces": "required" }));
    let text = format!("{MAP}RUN true\n");
    cluster.opt_in(Some(&text));
    let what = format!("machineosconfig/{}", cluster.pool);
    let blocked =
        |config: &Value| condition(config, "Blocked").is_some_and(|one| one["status"] == "True");
    let config = cluster.node.wait(&what, SOON, blocked);
    let message = condition(&config, "Blocked").unwrap()["message"].to_string();
    assert!(
        message.contains("job.userNamespaces of ConfigMap mosb-config is required"),
        "{message}"
    );
    assert_eq!(cluster.namespace.list("jobs"), Vec::<Value>::new(), "nothing runs");
    assert_eq!(cluster.config()["status"]["currentImagePullSpec"], image, "still in service");
    let name = &cluster.namespace.name;
    for kind in ["mutatingadmissionpolicybinding", "mutatingadmissionpolicy"] {
        cluster.node.kubectl(&["delete", kind, name]).ok();
    }
}

#[test]
fn forbidden_user_namespaces_are_explained() {
    let mut cluster = Cluster::new("forbidden");
    cluster.settings(&json!({ "userNamespaces": "never" }));
    cluster.render("one");
    cluster.start();
    cluster.opt_in(Some(MAP));
    let image = cluster.image_after("");
    is_the_nodes_root(&cluster, &image);
    let reported = user_namespaces_condition(&cluster);
    assert_eq!((&reported["status"], &reported["reason"]), (&json!("False"), &json!("Forbidden")));
}
