//! What `deploy/` installs is taken by the API server, and its rights are enough for what the controller makes, and not for
//! more. What the rights are used for is seen where the controller runs.

use mosb::api::cluster_settings::{self, ClusterSettings};
use serde_json::{Value, json};

use crate::harness::{Namespace, node};

const ACCOUNT: &str = "--as=system:serviceaccount:mosb-system:mosb-controller";
const NAMESPACE: &str = "mosb-system";

/// A folder of `deploy/` as objects; the CRDs are one.
fn rendered(folder: &str) -> Vec<Value> {
    let path = format!("{}/deploy/{folder}", env!("CARGO_MANIFEST_DIR"));
    let text = node().kubectl(&["kustomize", &path]).ok().text();
    text.split("\n---\n")
        .map(|object| serde_saphyr::from_str(object).unwrap())
        .collect()
}

fn renders(container: &Value) -> bool {
    let arguments = container["args"].as_array().unwrap();
    arguments.contains(&json!("--render"))
}

/// CRDs, namespace and rights; the controller itself would serve other tests' objects.
fn install() -> Value {
    let mut deployment = Value::Null;
    for object in rendered("crds").into_iter().chain(rendered("kubernetes")) {
        match object["kind"] == "Deployment" {
            true => deployment = object,
            false => node().apply(&object.to_string()),
        }
    }
    deployment
}

/// Whether the controller's account might create an object.
fn may_create(namespace: &str, object: &Value) -> Result<(), String> {
    let place = format!("--namespace={namespace}");
    let arguments = [
        ACCOUNT,
        &place,
        "create",
        "--dry-run=server",
        "--filename=-",
    ];
    let said = node().kubectl_with(&arguments, object.to_string().as_bytes());
    match said.status.success() {
        true => Ok(()),
        false => Err(said.stderr),
    }
}

#[test]
fn the_controllers_pod_is_restricted() {
    let deployment = install();
    let dry = ["apply", "--server-side", "--dry-run=server", "--filename=-"];
    node()
        .kubectl_with(&dry, deployment.to_string().as_bytes())
        .ok();
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
    node()
        .kubectl_with(&create, pod.to_string().as_bytes())
        .ok();
    // The namespace would have to tell them apart, if it did not enforce.
    pod["spec"]["containers"][0]["securityContext"] = json!({});
    let said = node().kubectl_with(&create, pod.to_string().as_bytes());
    assert!(
        said.stderr.contains("violates PodSecurity"),
        "{}",
        said.stderr
    );
}

#[test]
fn the_example_of_settings_is_one() {
    let example = include_str!("../deploy/mosb-config.example.yaml");
    let object: Value = serde_saphyr::from_str(example).unwrap();
    assert_eq!(object["metadata"]["name"], cluster_settings::CONFIG_MAP);
    let text = object["data"][cluster_settings::CONFIG_KEY]
        .as_str()
        .unwrap();
    let settings = ClusterSettings::parse(text).unwrap();
    assert_eq!(settings.mirrors.len(), 1);
}

#[test]
fn the_overlay_for_openshift_brings_no_api_and_renders_nothing() {
    for object in rendered("openshift") {
        let kind = object["kind"].as_str().unwrap();
        assert!(
            !["CustomResourceDefinition", "Namespace"].contains(&kind),
            "{kind}"
        );
        let cluster = [
            "ClusterRole",
            "ClusterRoleBinding",
            "SecurityContextConstraints",
        ];
        let want = match (
            cluster.contains(&kind),
            object["metadata"]["name"].as_str().unwrap(),
        ) {
            (true, _) => json!(null),
            (false, "mosb-controller-events") => json!("default"),
            (false, _) => json!("openshift-machine-config-operator"),
        };
        assert_eq!(object["metadata"]["namespace"], want, "{object}");
        if kind == "Deployment" {
            let container = &object["spec"]["template"]["spec"]["containers"][0];
            assert!(!renders(container), "{container}");
        }
        if kind == "ClusterRole" {
            assert_eq!(object["metadata"]["name"], "mosb-controller");
        }
    }
}

/// The node's API server asks of who sets `blockOwnerDeletion` that he may change the owner's finalizers, and of who makes
/// a Role that he has its rights.
#[test]
fn the_rights_are_enough_for_what_is_made_and_for_no_more() {
    install();
    let blocks = [
        "MachineConfigPool",
        "MachineOSConfig",
        "MachineOSBuild",
        "Deployment",
    ];
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
    let pod = json!({"restartPolicy": "Never", "containers": [{"name": "a", "image": "a"}]});
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
    bound["metadata"]
        .as_object_mut()
        .unwrap()
        .remove("ownerReferences");
    node().apply(&bound.to_string());
    let forbidden = "forbidden";
    let cases: &[(&str, &str, Value, Option<&str>)] = &[
        (
            "a MachineOSConfig of a pool",
            NAMESPACE,
            owned(
                machine,
                "MachineOSConfig",
                "MachineConfigPool",
                machine,
                os_config,
            ),
            None,
        ),
        (
            "a build of it",
            NAMESPACE,
            owned(
                machine,
                "MachineOSBuild",
                "MachineOSConfig",
                machine,
                os_build,
            ),
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
            owned(
                machine,
                "MachineConfig",
                "MachineConfigPool",
                machine,
                json!({}),
            ),
            None,
        ),
        (
            "a Job's ConfigMap",
            NAMESPACE,
            of_job("v1", "ConfigMap", json!({})),
            None,
        ),
        (
            "a Job's Secret",
            NAMESPACE,
            of_job("v1", "Secret", json!({})),
            None,
        ),
        (
            "a Job's ServiceAccount",
            NAMESPACE,
            of_job("v1", "ServiceAccount", json!({})),
            None,
        ),
        (
            "its Role",
            NAMESPACE,
            of_job(rights, "Role", role("configmaps", json!(["get", "patch"]))),
            None,
        ),
        (
            "its RoleBinding",
            NAMESPACE,
            of_job(rights, "RoleBinding", binding),
            None,
        ),
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
        let said = may_create(namespace, object);
        let right = match (&said, refused) {
            (Ok(()), None) => true,
            (Err(text), Some(part)) => text.contains(part),
            _ => false,
        };
        if !right {
            wrong.push(format!("{what}: {said:?}, want {refused:?}"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
