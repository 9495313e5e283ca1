//! What `deploy/` installs is taken by the API server, and its rights are enough for what the
//! controller makes, and not for more. What the rights are used for is seen where the controller
//! runs.

use mosb_api::cluster_settings::{self, ClusterSettings};
use serde_json::{Value, json};

use mosb_tests::{Namespace, node};

const ACCOUNT: &str = "--as=system:serviceaccount:mosb-system:mosb-controller";
pub const NAMESPACE: &str = "mosb-system";

/// A folder of `deploy/` as objects; the CRDs are one.
pub fn rendered(folder: &str) -> Vec<Value> {
    node().overlay(folder)
}

fn renders(container: &Value) -> bool {
    let arguments = container["args"].as_array().unwrap();
    arguments.contains(&json!("--render"))
}

/// CRDs, namespace and rights; the controller itself would serve other tests' objects.
pub fn install() -> Value {
    let mut deployment = Value::Null;
    for object in rendered("crds").into_iter().chain(rendered("kubernetes")) {
        if object["kind"] == "Deployment" {
            deployment = object
        } else {
            node().apply(&object.to_string())
        }
    }
    deployment
}

/// Whether the controller's account might create an object.
fn may_create(namespace: &str, object: &Value) -> Result<(), String> {
    let place = format!("--namespace={namespace}");
    let arguments = [ACCOUNT, &place, "create", "--dry-run=server", "--filename=-"];
    let answer = node().kubectl_with(&arguments, object.to_string().as_bytes());
    if answer.status.success() { Ok(()) } else { Err(answer.stderr) }
}

#[test]
fn the_controllers_pod_is_restricted() {
    let deployment = install();
    let dry = ["apply", "--server-side", "--dry-run=server", "--filename=-"];
    node().kubectl_with(&dry, deployment.to_string().as_bytes()).ok();
    let container = &deployment["spec"]["template"]["spec"]["containers"][0];
    assert!(renders(container), "{container}");

    let level = json!({"pod-security.kubernetes.io/enforce": "restricted"});
    let namespace = Namespace::labelled(node(), "deploy-restricted", level);
    let mut pod = deployment["spec"]["template"].clone();
    pod["apiVersion"] = json!("v1");
    pod["kind"] = json!("Pod");
    pod["metadata"]["name"] = json!("controller");
    pod["spec"]["serviceAccountName"] = json!("default");
    let place = format!("--namespace={}", namespace.name);
    let create = [&place, "create", "--dry-run=server", "--filename=-"];
    node().kubectl_with(&create, pod.to_string().as_bytes()).ok();
    // The namespace would have to tell them apart, if it did not enforce.
    pod["spec"]["containers"][0]["securityContext"] = json!({});
    let answer = node().kubectl_with(&create, pod.to_string().as_bytes());
    assert!(answer.stderr.contains("violates PodSecurity"), "{}", answer.stderr);
}

#[test]
fn the_example_of_settings_is_one() {
    let example = include_str!("../../deploy/mosb-config.example.yaml");
    let object: Value = serde_saphyr::from_str(example).unwrap();
    assert_eq!(object["metadata"]["name"], cluster_settings::CONFIG_MAP);
    let text = object["data"][cluster_settings::CONFIG_KEY].as_str().unwrap();
    let settings = ClusterSettings::parse(text).unwrap();
    assert_eq!(settings.mirrors.len(), 1);
}

#[test]
fn the_overlay_for_openshift_brings_no_api() {
    for object in rendered("openshift") {
        let kind = object["kind"].as_str().unwrap();
        assert_ne!(kind, "CustomResourceDefinition");
        let cluster = [
            "ClusterRole",
            "ClusterRoleBinding",
            "Namespace",
            "SecurityContextConstraints",
            "ValidatingAdmissionPolicy",
            "ValidatingAdmissionPolicyBinding",
        ];
        let namespace = &object["metadata"]["namespace"];
        match (cluster.contains(&kind), object["metadata"]["name"].as_str().unwrap()) {
            (true, _) => assert_eq!(*namespace, json!(null), "{object}"),
            (false, "mosb-controller-events") => assert_eq!(*namespace, json!("default")),
            (false, _) if *namespace == OPERATOR_NAMESPACE => is_only_read(&object),
            (false, _) => assert_eq!(*namespace, json!(NAMESPACE), "{object}"),
        }
        for subject in object["subjects"].as_array().into_iter().flatten() {
            let want = json!({ "kind": "ServiceAccount", "name": "mosb-controller", "namespace": NAMESPACE });
            assert_eq!(*subject, want, "{object}");
        }
        if kind == "Deployment" {
            let container = &object["spec"]["template"]["spec"]["containers"][0];
            assert!(!renders(container), "{container}");
            let arguments = container["args"].as_array().unwrap();
            let operator = format!("--operator-namespace={OPERATOR_NAMESPACE}");
            assert!(arguments.contains(&json!(operator)), "{container}");
        }
        if kind == "ClusterRole" {
            assert_eq!(object["metadata"]["name"], "mosb-controller");
        }
    }
}

const OPERATOR_NAMESPACE: &str = "openshift-machine-config-operator";

/// Secrets by name, and nothing that is written.
fn is_only_read(object: &Value) {
    for rule in object["rules"].as_array().into_iter().flatten() {
        let verbs = rule["verbs"].as_array().unwrap();
        let is_read = |verb: &Value| ["get", "list", "watch"].contains(&verb.as_str().unwrap());
        assert!(verbs.iter().all(is_read), "{rule}");
        if rule["resources"].as_array().unwrap().contains(&json!("secrets")) {
            assert_eq!(rule["verbs"], json!(["get"]));
            assert!(!rule["resourceNames"].as_array().unwrap().is_empty());
        }
    }
}

/// The API server of an OpenShift is not there to ask: the values that it takes are in a copy, with
/// its source.
#[test]
fn the_constraints_for_openshift_have_real_fields() {
    let known = include_str!("../../testdata/openshift/security-context-constraints.json");
    let known: Value = serde_json::from_str(known).unwrap();
    let list = |list: &Value| -> Vec<String> { serde_json::from_value(list.clone()).unwrap() };
    let (required, optional) = (list(&known["required"]), list(&known["optional"]));
    let mut all = rendered("openshift");
    all.retain(|object| object["kind"] == "SecurityContextConstraints");
    assert_eq!(all.len(), 2);
    for object in all {
        let fields = object.as_object().unwrap();
        for field in &required {
            assert!(fields.contains_key(field), "{field} is missing");
        }
        for field in fields.keys() {
            let of_all = ["apiVersion", "kind", "metadata"].contains(&&**field);
            let there = required.contains(field) || optional.contains(field);
            assert!(of_all || there, "{field}");
        }
        for (pointer, values) in known["values"].as_object().unwrap() {
            let value = object.pointer(pointer).unwrap().as_str().unwrap().to_owned();
            assert!(list(values).contains(&value), "{pointer}: {value}");
        }
        for volume in list(&object["volumes"]) {
            assert!(list(&known["volumes"]).contains(&volume), "{volume}");
        }
        // Everybody whom a Role does not name.
        for field in ["users", "groups"] {
            assert_eq!(object[field], json!([]));
        }
        let in_user_namespace = object["userNamespaceLevel"] == "RequirePodLevel";
        let added = object["allowedCapabilities"].as_array();
        assert_eq!(added.is_some(), in_user_namespace, "{object}");
    }
}

/// In the pod of an OpenShift Build `RUN` lines are beside the push credentials: no account has the
/// right to one by accident.
#[test]
fn an_overlay_has_the_right_to_openshifts_builds() {
    let grants_builds = |object: &Value| object["rules"].to_string().contains("build.openshift.io");
    for folder in ["kubernetes", "openshift"] {
        let found = rendered(folder).into_iter().find(grants_builds);
        assert_eq!(found, None, "{folder}");
    }
    let named = |object: &Value| format!("{}/{}", object["kind"], object["metadata"]["name"]);
    let openshift = rendered("openshift");
    let mut more = rendered("openshift-builds");
    let account = openshift.iter().find(|object| object["kind"] == "ServiceAccount").unwrap();
    let namespace = account["metadata"]["namespace"].clone();
    more.retain(|object| openshift.iter().all(|one| named(one) != named(object)));
    assert_eq!(more.len(), 2, "{more:#?}");
    assert!(more.iter().any(grants_builds), "{more:#?}");
    for object in &more {
        assert_eq!(object["metadata"]["namespace"], namespace, "{object:#}");
        let subject = &object["subjects"][0];
        let is_controllers = *subject
            == json!({ "kind": "ServiceAccount", "name": "mosb-controller", "namespace": namespace });
        assert!(subject.is_null() || is_controllers, "{object:#}");
    }
}

/// The node's API server asks of who sets `blockOwnerDeletion` that he may change the owner's
/// finalizers, and of who makes a Role that he has its rights.
#[test]
fn the_rights_are_exactly_enough() {
    install();
    let blocks = ["MachineConfigPool", "MachineOSConfig", "MachineOSBuild", "Deployment"];
    let owned = |api: &str, kind: &str, owner: &str, owner_api: &str, more: Value| {
        let mut object = json!({
            "apiVersion": api, "kind": kind,
            "metadata": {"name": "deploy-rights", "ownerReferences": [{
                "apiVersion": owner_api, "kind": owner, "name": "deploy-rights", "uid": "1",
                "controller": true, "blockOwnerDeletion": blocks.contains(&owner),
            }]},
        });
        for (key, value) in more.as_object().unwrap() {
            object[key] = value.clone();
        }
        object
    };
    let machine = "machineconfiguration.openshift.io/v1";
    let (rights, job) = ("rbac.authorization.k8s.io/v1", "batch/v1");
    let push = "registry.example.com/os:v1";
    let os_config = json!({"spec": {
        "machineConfigPool": {"name": "deploy-rights"}, "imageBuilder": {"imageBuilderType": "Job"},
        "renderedImagePushSecret": {"name": "push"}, "renderedImagePushSpec": push,
    }});
    let os_build = json!({"spec": {
        "machineConfig": {"name": "rendered-deploy-rights"}, "machineOSConfig": {"name": "deploy-rights"}, "renderedImagePushSpec": push,
    }});
    let pod = json!({"restartPolicy": "Never", "automountServiceAccountToken": false, "containers": [{"name": "a", "image": "a"}]});
    let of_job = |api: &str, kind: &str, more: Value| owned(api, kind, "Job", job, more);
    let role = |resource: &str, verbs: Value| {
        let rule = json!({"apiGroups": [""], "resources": [resource], "resourceNames": ["digest-deploy-rights"], "verbs": verbs});
        json!({"rules": [rule]})
    };
    let binding = json!({
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "deploy-bound"},
        "subjects": [{"kind": "ServiceAccount", "name": "deploy-rights"}],
    });
    let mut bound = of_job(rights, "Role", role("configmaps", json!(["get", "patch"])));
    bound["metadata"]["name"] = json!("deploy-bound");
    bound["metadata"]["namespace"] = json!(NAMESPACE);
    bound["metadata"].as_object_mut().unwrap().remove("ownerReferences");
    node().apply(&bound.to_string());
    let forbidden = "forbidden";
    let cases: &[(&str, &str, Value, Option<&str>)] = &[
        (
            "a MachineOSConfig of a pool",
            NAMESPACE,
            owned(machine, "MachineOSConfig", "MachineConfigPool", machine, os_config),
            None,
        ),
        (
            "a build of it",
            NAMESPACE,
            owned(machine, "MachineOSBuild", "MachineOSConfig", machine, os_build),
            None,
        ),
        (
            "a build's Job",
            NAMESPACE,
            owned(
                job,
                "Job",
                "MachineOSBuild",
                machine,
                json!({"spec": {"template": {"spec": pod}}}),
            ),
            None,
        ),
        (
            "a rendered MachineConfig of a pool",
            NAMESPACE,
            owned(machine, "MachineConfig", "MachineConfigPool", machine, json!({})),
            None,
        ),
        ("a Job's ConfigMap", NAMESPACE, of_job("v1", "ConfigMap", json!({})), None),
        ("a Job's Secret", NAMESPACE, of_job("v1", "Secret", json!({})), None),
        ("a Job's ServiceAccount", NAMESPACE, of_job("v1", "ServiceAccount", json!({})), None),
        (
            "its Role",
            NAMESPACE,
            of_job(rights, "Role", role("configmaps", json!(["get", "patch"]))),
            None,
        ),
        ("its RoleBinding", NAMESPACE, of_job(rights, "RoleBinding", binding), None),
        (
            "a pod, to see what of it is kept",
            NAMESPACE,
            json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a"}, "spec": pod}),
            None,
        ),
        (
            "an owner that is nothing of its",
            NAMESPACE,
            owned("v1", "ConfigMap", "Deployment", "apps/v1", json!({})),
            Some("cannot set blockOwnerDeletion"),
        ),
        (
            "a Role with more rights",
            NAMESPACE,
            of_job(rights, "Role", role("pods/exec", json!(["create"]))),
            Some("attempting to grant RBAC permissions not currently held"),
        ),
        (
            "a ConfigMap elsewhere",
            "default",
            json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}}),
            Some(forbidden),
        ),
        (
            "a Secret elsewhere",
            "default",
            json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "a"}}),
            Some(forbidden),
        ),
        (
            "a pool",
            NAMESPACE,
            json!({"apiVersion": machine, "kind": "MachineConfigPool", "metadata": {"name": "a"}, "spec": {}}),
            Some(forbidden),
        ),
        (
            "a Deployment",
            NAMESPACE,
            json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "a"}}),
            Some(forbidden),
        ),
    ];
    let mut wrong = Vec::new();
    for (what, namespace, object, refused) in cases {
        let answer = may_create(namespace, object);
        let right = match (&answer, refused) {
            (Ok(()), None) => true,
            (Err(text), Some(part)) => text.contains(part),
            _ => false,
        };
        if !right {
            wrong.push(format!("{what}: {answer:?}, want {refused:?}"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
