//! What the ValidatingAdmissionPolicy of `deploy/base` accepts in mosb's namespace, and what it
//! refuses, on the real API server: every pod that mosb makes, and each of them with one thing
//! more.

pub mod pods;

use std::collections::BTreeSet;
use std::time::Duration;

use serde_json::{Value, json};

use crate::deploy::{NAMESPACE, install, rendered};
use mosb_tests::{Namespace, node, wait};
use pods::{
    RUNTIME_ANNOTATIONS, RUNTIME_CLASS, apply_runtime_class, create, in_repository, own_pods,
    pod_of, probe, read, with,
};

const SOON: Duration = Duration::from_secs(60);

/// The policy takes a moment to be in force.
fn in_force() {
    install();
    for (_, pod) in own_pods() {
        if let Some(account) = pod["spec"]["serviceAccountName"].as_str() {
            let account = json!({ "apiVersion": "v1", "kind": "ServiceAccount", "metadata": { "name": account, "namespace": NAMESPACE } });
            node().apply(&account.to_string());
        }
    }
    let mut privileged = probe();
    privileged["spec"]["containers"][0]["securityContext"] = json!({ "privileged": true });
    wait("the policy to be in force", SOON, || {
        let answer = create(&privileged, &[]);
        answer.stderr.contains("mosb-pods").then_some(())
    });
}

#[test]
fn pods_of_the_namespace_are_only_ours() {
    in_force();
    let other = json!({ "apiVersion": "v1", "kind": "ServiceAccount", "metadata": { "name": "policy-other", "namespace": NAMESPACE } });
    node().apply(&other.to_string());
    apply_runtime_class();
    let mut wrong = Vec::new();
    let mut accounts = BTreeSet::new();
    for (what, pod) in own_pods() {
        let answer = create(&pod, &[]);
        if !answer.status.success() {
            wrong.push(format!("{what}: {}", answer.stderr));
        }
        accounts.insert(pod["spec"]["serviceAccountName"].to_string());
    }
    assert!(accounts.len() > 2, "{accounts:?}");

    let golden =
        |case: &str| pod_of(&read(&in_repository(&format!("testdata/job/{case}/job.yaml"))));
    let (direct, containerfile, degraded) =
        (golden("direct"), golden("containerfile"), golden("degraded"));
    let main = "/spec/containers/0/securityContext";
    let build = "/spec/initContainers/1/securityContext";
    let volume = |source: Value| {
        let mut volumes = direct["spec"]["volumes"].clone();
        let mut one = source;
        one["name"] = json!("more");
        volumes.as_array_mut().unwrap().push(one);
        volumes
    };
    let node_file = json!({ "hostPath": { "path": "/" } });
    let claim = json!({ "persistentVolumeClaim": { "claimName": "node" } });
    let port = json!([{ "containerPort": 80, "hostPort": 80 }]);
    let gpu = json!({ "limits": { "nvidia.com/gpu": "1" } });
    let local = json!({ "type": "Localhost", "localhostProfile": "a.json" });
    for (what, pod, pointer, value, part) in [
        ("privileged", &direct, main, json!({ "privileged": true }), "privileged"),
        (
            "an init container too",
            &containerfile,
            &*format!("{build}/privileged"),
            json!(true),
            "privileged",
        ),
        ("the node's network", &degraded, "/spec/hostNetwork", json!(true), "hostNetwork"),
        ("the node's processes", &degraded, "/spec/hostPID", json!(true), "hostPID"),
        ("the node's memory", &degraded, "/spec/hostIPC", json!(true), "hostIPC"),
        ("a port of the node", &direct, "/spec/containers/0/ports", port, "hostPort"),
        ("the node's files", &direct, "/spec/volumes", volume(node_file), "a path of the node"),
        (
            "a claim, which may be for them",
            &direct,
            "/spec/volumes",
            volume(claim),
            "a path of the node",
        ),
        (
            "SYS_ADMIN of the node",
            &degraded,
            &*format!("{build}/capabilities/add"),
            json!(["SYS_ADMIN"]),
            "SYS_ADMIN",
        ),
        ("the same, said so", &containerfile, "/spec/hostUsers", json!(true), "SYS_ADMIN"),
        (
            "another capability",
            &containerfile,
            &*format!("{build}/capabilities/add"),
            json!(["SYS_MODULE"]),
            "capability",
        ),
        (
            "all of them",
            &containerfile,
            &*format!("{build}/capabilities/add"),
            json!(["ALL"]),
            "capability",
        ),
        (
            "all of /proc",
            &containerfile,
            &*format!("{build}/procMount"),
            json!("Unmasked"),
            "procMount",
        ),
        (
            "SELinux off",
            &direct,
            &*format!("{main}/seLinuxOptions"),
            json!({ "type": "spc_t" }),
            "seLinuxOptions",
        ),
        (
            "the same for the pod",
            &direct,
            "/spec/securityContext/seLinuxOptions",
            json!({ "type": "spc_t" }),
            "seLinuxOptions",
        ),
        (
            "a setting of the kernel",
            &direct,
            "/spec/securityContext/sysctls",
            json!([{ "name": "kernel.shm_rmid_forced", "value": "1" }]),
            "sysctls",
        ),
        (
            "another account",
            &direct,
            "/spec/serviceAccountName",
            json!("policy-other"),
            "run as mosb-controller",
        ),
        (
            "the default account's token",
            &probe(),
            "/spec/automountServiceAccountToken",
            json!(true),
            "run as mosb-controller",
        ),
        (
            "options of Windows",
            &direct,
            "/spec/securityContext/windowsOptions",
            json!({ "runAsUserName": "x" }),
            "windowsOptions",
        ),
        (
            "a container's options of Windows",
            &direct,
            &*format!("{main}/windowsOptions"),
            json!({ "runAsUserName": "x" }),
            "windowsOptions",
        ),
        (
            "a profile of the node",
            &direct,
            "/spec/securityContext/seccompProfile",
            local.clone(),
            "Localhost",
        ),
        (
            "a container's profile of the node",
            &direct,
            &*format!("{main}/appArmorProfile"),
            local,
            "Localhost",
        ),
        ("a device", &direct, "/spec/containers/0/resources", gpu, "no device"),
        (
            "another runtime",
            &direct,
            "/spec/runtimeClassName",
            json!(RUNTIME_CLASS),
            "runtimeClassName",
        ),
        (
            "a claim to a device",
            &direct,
            "/spec/resourceClaims",
            json!([{ "name": "a", "resourceClaimName": "a" }]),
            "resourceClaims",
        ),
        (
            "processes of other containers",
            &direct,
            "/spec/shareProcessNamespace",
            json!(true),
            "shareProcessNamespace",
        ),
        ("a node", &direct, "/spec/nodeName", json!("node"), "no nodeName"),
    ] {
        let answer = create(&with(pod, pointer, &value), &[]);
        if answer.status.success()
            || !answer.stderr.contains("mosb-pods")
            || !answer.stderr.contains(part)
        {
            wrong.push(format!("{what}: {answer:?}, want {part}"));
        }
    }
    for key in RUNTIME_ANNOTATIONS {
        let pointer = format!("/metadata/annotations/{}", key.replace('/', "~1"));
        let answer = create(&with(&direct, &pointer, &json!("x")), &[]);
        if !answer.stderr.contains("mosb-pods") || !answer.stderr.contains(key) {
            wrong.push(format!("{key}: {answer:?}"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// A pod that waits can be changed until it runs, and its status by others than the kubelet.
#[test]
fn a_waiting_pod_gets_no_more() {
    in_force();
    let mut pod = probe();
    pod["metadata"] = json!({ "name": "policy-gated", "namespace": NAMESPACE });
    pod["spec"]["schedulingGates"] = json!([{ "name": "mosb.dev/inputs" }]);
    node().apply(&pod.to_string());
    let patch = |part: &str, change: &Value| {
        let target = format!("/api/v1/namespaces/{NAMESPACE}/pods/policy-gated{part}?dryRun=All");
        node().api().ask("PATCH", &target, Some(change))
    };
    let annotated = |key: &str| json!({ "metadata": { "annotations": { key: "x" } } });
    let mut wrong = Vec::new();
    for part in ["", "/status"] {
        for key in RUNTIME_ANNOTATIONS {
            let (status, answer) = patch(part, &annotated(key));
            let message = answer["message"].as_str().unwrap_or_default();
            if status != 422 || !message.contains("mosb-pods") || !message.contains(key) {
                wrong.push(format!("{key} by {part:?}: {status} {answer}"));
            }
        }
        // What networks and people write.
        for key in ["cni.projectcalico.org/podIP", "k8s.v1.cni.cncf.io/network-status", "note"] {
            let (status, answer) = patch(part, &annotated(key));
            if status != 200 {
                wrong.push(format!("{key} by {part:?}: {status} {answer}"));
            }
        }
    }
    let starts = json!({ "spec": { "schedulingGates": null } });
    let condition = json!({ "status": { "conditions": [{ "type": "Ready", "status": "False" }] } });
    for (part, change) in [("", starts), ("/status", condition)] {
        let (status, answer) = patch(part, &change);
        if status != 200 {
            wrong.push(format!("{change} by {part:?}: {status} {answer}"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    node().kubectl(&["delete", "pod/policy-gated", "--namespace", NAMESPACE, "--wait=false"]).ok();
}

#[test]
fn a_running_pod_gets_no_ephemeral_container() {
    in_force();
    let mut pod = probe();
    pod["metadata"] = json!({ "name": "policy-debugged", "namespace": NAMESPACE });
    pod["spec"]["nodeSelector"] = json!({ "no-node": "has-this" });
    node().apply(&pod.to_string());
    let debug = |context: Value| {
        let one = json!({ "name": "debug", "image": "debug", "securityContext": context });
        let change = json!({ "spec": { "ephemeralContainers": [one] } }).to_string();
        node().kubectl(&[
            "patch",
            "pod/policy-debugged",
            "--namespace",
            NAMESPACE,
            "--subresource=ephemeralcontainers",
            "--dry-run=server",
            "--patch",
            &change,
        ])
    };
    debug(json!({ "runAsUser": 0 })).ok();
    for (context, part) in [
        (json!({ "privileged": true }), "privileged"),
        (json!({ "capabilities": { "add": ["SYS_PTRACE"] } }), "capability"),
    ] {
        let answer = debug(context);
        assert!(!answer.status.success() && answer.stderr.contains(part), "{answer:?}");
    }
    // It is checked what the policy's expressions can fail on, as far as types tell.
    let policy = type_checked("mosb-pods");
    assert_eq!(policy["status"]["typeChecking"], json!({}), "{policy:#}");
}

/// A policy, once the controller manager has checked the types of its expressions.
#[track_caller]
pub fn type_checked(policy: &str) -> Value {
    node().wait(&format!("validatingadmissionpolicy/{policy}"), SOON, |policy| {
        policy["status"]["observedGeneration"] == policy["metadata"]["generation"]
    })
}

/// Whoever has rights to pods in a namespace.
fn may_make_pods(namespace: &Namespace, user: &str) {
    let binding = json!({
        "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "RoleBinding", "metadata": { "name": "makes-pods" },
        "roleRef": { "apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "admin" },
        "subjects": [{ "apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": user }],
    });
    namespace.apply(&binding.to_string());
}

/// The overlay's policy, in a namespace of this test alone.
#[test]
fn only_openshifts_build_controller_is_exempt() {
    let namespace = Namespace::new(node(), "policy-builds");
    for mut object in rendered("openshift-builds") {
        let kind = object["kind"].as_str().unwrap_or_default().to_owned();
        if !kind.starts_with("ValidatingAdmissionPolicy") {
            continue;
        }
        object["metadata"]["name"] = json!(namespace.name);
        if kind.ends_with("Binding") {
            object["spec"]["policyName"] = json!(namespace.name);
            let labels = json!({ "kubernetes.io/metadata.name": namespace.name });
            object["spec"]["matchResources"]["namespaceSelector"]["matchLabels"] = labels;
        }
        node().apply(&object.to_string());
    }
    let mut pod = probe();
    pod["metadata"]["namespace"] = json!(namespace.name);
    pod["spec"]["containers"][0]["securityContext"] = json!({ "privileged": true });
    wait("the policy to be in force", SOON, || {
        let answer = create(&pod, &[]);
        answer.stderr.contains(&namespace.name).then_some(())
    });
    for (user, is_exempt) in [
        ("system:serviceaccount:openshift-infra:build-controller", true),
        ("system:serviceaccount:openshift-infra:build-controller-2", false),
        ("system:serviceaccount:mosb-system:mosb-controller", false),
    ] {
        may_make_pods(&namespace, user);
        let made = wait(&format!("{user} to have the right"), SOON, || {
            let answer = create(&pod, &[&format!("--as={user}")]);
            let has_right = !answer.stderr.contains("User");
            has_right.then_some(answer)
        });
        assert_eq!(made.status.success(), is_exempt, "{user}: {made:?}");
    }
    for kind in ["validatingadmissionpolicybinding", "validatingadmissionpolicy"] {
        node().kubectl(&["delete", kind, &namespace.name]).ok();
    }
}
