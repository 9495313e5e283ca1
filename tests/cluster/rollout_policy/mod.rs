//! What the ValidatingAdmissionPolicies of `deploy/rollout` accept, and what they refuse, on the real
//! API server: each Job on machines that mosb makes and its pod, and each of them with one thing
//! changed.

mod listed_images;
mod pod_changes;

use std::time::Duration;

use serde_json::{Value, json};

use crate::admission_policy::pods::{RUNTIME_ANNOTATIONS, apply_runtime_class, with};
use crate::admission_policy::type_checked;
use crate::deploy::rendered;
use mosb_tests::{Finished, node, wait};
use pod_changes::{PLAIN_COMMAND, STAGE_COMMANDS, changes};

const SOON: Duration = Duration::from_secs(60);
const NAMESPACE: &str = "mosb-rollout";
const CONTROLLER: &str = "system:serviceaccount:mosb-system:mosb-controller";
const JOB_CONTROLLER: &str = "system:serviceaccount:kube-system:job-controller";
/// Names of the golden files of our Jobs.
const JOBS: [&str; 10] = [
    "report",
    "report-unconfirmed",
    "stage",
    "stage-without-login",
    "apply",
    "stage-with-machine-part",
    "apply-with-machine-part",
    "part-with-machine-part",
    "apply-adopting",
    "apply-soft",
];
/// Somebody with all rights in the namespace.
const SOMEBODY: &str = "rollout-somebody";

/// A Job as its golden file has it.
fn job(verb: &str) -> Value {
    let file = mosb_tests::repository().join(format!("testdata/node-job/{verb}.yaml"));
    serde_saphyr::from_str(&std::fs::read_to_string(file).unwrap()).unwrap()
}

/// The pod that the Job controller makes of it.
fn pod(verb: &str) -> Value {
    let job = job(verb);
    let (name, template) = (&job["metadata"]["name"], &job["spec"]["template"]);
    let mut metadata = template["metadata"].clone();
    metadata["generateName"] = json!(format!("{}-", name.as_str().unwrap()));
    metadata["namespace"] = json!(NAMESPACE);
    metadata["ownerReferences"] = json!([{ "apiVersion": "batch/v1", "kind": "Job", "name": name,
        "uid": "1", "controller": true }]);
    json!({ "apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": template["spec"] })
}

fn send(verb: &str, object: &Value, user: &str) -> Finished {
    let user = format!("--as={user}");
    let words = [verb, "--dry-run=server", "--filename=-", &user];
    node().kubectl_with(&words, object.to_string().as_bytes())
}

/// Installs what the overlay adds, and waits until its policies are in force.
fn install() {
    crate::deploy::install();
    for object in rendered("rollout") {
        let name = object["metadata"]["name"].as_str().unwrap_or_default();
        if name.contains("rollout") || name == "mosb-nodes" {
            node().apply(&object.to_string());
        }
    }
    let subject = |kind: &str, name: &str| json!({ "apiGroup": "rbac.authorization.k8s.io", "kind": kind, "name": name });
    for user in [SOMEBODY, JOB_CONTROLLER] {
        let binding = json!({
            "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "RoleBinding",
            "metadata": { "name": user.replace(':', "-"), "namespace": NAMESPACE },
            "roleRef": subject("ClusterRole", "cluster-admin"), "subjects": [subject("User", user)],
        });
        node().apply(&binding.to_string());
    }
    wait("the policies and the rights to be in force", SOON, || {
        let refused = send("create", &job("report"), SOMEBODY).stderr.contains("mosb-rollout'");
        let ours = send("create", &job("report"), CONTROLLER).status.success();
        let pods = send("create", &pod("report"), JOB_CONTROLLER).status.success();
        let secret = send("create", &secret("x", "Opaque"), SOMEBODY);
        (refused && ours && pods && secret.stderr.contains("mosb-rollout-secrets")).then_some(())
    });
}

fn secret(name: &str, kind: &str) -> Value {
    let data = match kind {
        "kubernetes.io/dockerconfigjson" => json!({ ".dockerconfigjson": "{}" }),
        _ => json!({ "auth.json": "{}" }),
    };
    json!({ "apiVersion": "v1", "kind": "Secret", "type": kind, "stringData": data,
        "metadata": { "name": name, "namespace": NAMESPACE } })
}

#[test]
fn jobs_on_machines_are_only_ours() {
    install();
    apply_runtime_class();
    let account = json!({ "apiVersion": "v1", "kind": "ServiceAccount",
        "metadata": { "name": "mosb-other", "namespace": NAMESPACE } });
    node().apply(&account.to_string());
    let mut wrong = Vec::new();
    let mut expect = |what: String, answer: &Finished, refusal: Option<&str>| {
        let is_right = match refusal {
            None => answer.status.success(),
            Some(part) => {
                !answer.status.success()
                    && answer.stderr.contains("mosb-rollout")
                    && answer.stderr.contains(part)
            }
        };
        if !is_right {
            wrong.push(format!("{what}: want {refusal:?}: {}", answer.stderr));
        }
    };
    for verb in JOBS {
        for (what, object, user, refusal) in [
            ("our Job", job(verb), CONTROLLER, None),
            ("its pod", pod(verb), JOB_CONTROLLER, None),
            ("somebody's Job", job(verb), SOMEBODY, Some("only mosb-controller may create Jobs")),
            ("the Job controller's Job", job(verb), JOB_CONTROLLER, Some("only mosb-controller")),
            ("somebody's pod", pod(verb), SOMEBODY, Some("only the Job controller")),
        ] {
            expect(format!("{what} {verb}"), &send("create", &object, user), refusal);
        }
    }
    for (pointer, value, part) in changes() {
        let of_pod = with(&pod("apply"), &format!("/spec{pointer}"), &value);
        let answer = send("create", &of_pod, JOB_CONTROLLER);
        expect(format!("a pod with {pointer} {value}"), &answer, Some(part));
        if pointer == "/nodeName" {
            continue;
        }
        let of_job = with(&job("apply"), &format!("/spec/template/spec{pointer}"), &value);
        let answer = send("create", &of_job, CONTROLLER);
        expect(format!("a Job with {pointer} {value}"), &answer, Some(part));
    }
    let command = json!(PLAIN_COMMAND.split(' ').collect::<Vec<_>>());
    let of_pod = with(&pod("apply"), "/spec/containers/0/command", &command);
    expect("a pod without settings".to_owned(), &send("create", &of_pod, JOB_CONTROLLER), None);
    for words in STAGE_COMMANDS {
        let command = json!(words.split(' ').collect::<Vec<_>>());
        let of_pod = with(&pod("stage"), "/spec/containers/0/command", &command);
        let answer = send("create", &of_pod, JOB_CONTROLLER);
        expect(format!("a pod with {words}"), &answer, Some("command of a container"));
    }
    for (pointer, value, part) in [
        ("/spec/parallelism", json!(2), "one pod at a time"),
        ("/spec/completions", json!(2), "one pod at a time"),
        ("/spec/suspend", json!(true), "one pod at a time"),
        ("/spec/managedBy", json!("example.com/other"), "one pod at a time"),
        ("/spec/completionMode", json!("Indexed"), "one pod at a time"),
        ("/metadata/name", json!("other"), "only volume"),
    ] {
        let answer = send("create", &with(&job("apply"), pointer, &value), CONTROLLER);
        expect(format!("a Job with {pointer} {value}"), &answer, Some(part));
    }
    // Of a pod, the API server copies it into the securityContext first.
    let app_armor = ("container.apparmor.security.beta.kubernetes.io/apply", "securityContext");
    let of_runtime = RUNTIME_ANNOTATIONS.map(|key| (key, key));
    for (key, of_pod_part) in of_runtime.into_iter().chain([app_armor]) {
        let change = |object: Value, metadata: &str| {
            let pointer = format!("{metadata}/annotations/{}", key.replace('/', "~1"));
            with(&object, &pointer, &json!("unconfined"))
        };
        let of_job = change(job("apply"), "/spec/template/metadata");
        let of_pod = change(pod("apply"), "/metadata");
        for (what, answer, part) in [
            ("Job", send("create", &of_job, CONTROLLER), key),
            ("pod", send("create", &of_pod, JOB_CONTROLLER), of_pod_part),
        ] {
            expect(format!("a {what} with {key}"), &answer, Some(part));
        }
    }
    let owner = "/metadata/ownerReferences/0";
    for (pointer, value) in [
        (owner.to_owned() + "/kind", json!("ReplicaSet")),
        (owner.to_owned() + "/apiVersion", json!("example.com/v1")),
        (owner.to_owned() + "/controller", json!(false)),
    ] {
        let answer = send("create", &with(&pod("report"), &pointer, &value), JOB_CONTROLLER);
        expect(format!("a pod with {pointer} {value}"), &answer, Some("for a Job"));
    }
    let registry = "kubernetes.io/dockerconfigjson";
    for (name, kind, user, refusal) in [
        ("mosb-apply-x", "mosb.dev/node-login", CONTROLLER, None),
        ("mosb-apply-x", "mosb.dev/node-login", SOMEBODY, Some("only mosb-controller")),
        ("mosb-apply-x", "Opaque", SOMEBODY, Some("only mosb-controller")),
        ("mosb-apply-x", registry, SOMEBODY, Some("only mosb-controller")),
        ("pull", registry, SOMEBODY, None),
    ] {
        let answer = send("create", &secret(name, kind), user);
        expect(format!("Secret {name} {kind} by {user}"), &answer, refusal);
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    for name in [
        "mosb-rollout",
        "mosb-rollout-secrets",
        "mosb-rollout-connect",
        "mosb-rollout-images",
        "mosb-nodes",
    ] {
        let policy = type_checked(name);
        assert_eq!(policy["status"]["typeChecking"], json!({}), "{policy:#}");
    }
}

#[test]
fn pods_on_machines_stay_as_they_are() {
    install();
    let mut job = job("report");
    // Another test asks, at the same time, whether the Job of the golden file may be created.
    let name = "mosb-report-01234567-0123456789ab-3";
    job["metadata"]["name"] = json!(name);
    // A Job whose owner does not exist would be deleted. No node has the name that it needs, so its
    // pod is never started.
    job["metadata"].as_object_mut().unwrap().remove("ownerReferences");
    let user = format!("--as={CONTROLLER}");
    node().kubectl_with(&["create", "--filename=-", &user], job.to_string().as_bytes()).ok();
    let pod = wait("the pod that the Job controller makes", SOON, || {
        let of_job = format!("batch.kubernetes.io/job-name={name}");
        let pods = node().api().list(Some(NAMESPACE), "pods", &of_job);
        Some(format!("pod/{}", pods.first()?["metadata"]["name"].as_str()?))
    });
    let patch = |more: &[&str], change: Value| {
        let change = change.to_string();
        let words = ["patch", &pod, "--namespace", NAMESPACE, "--dry-run=server"];
        let user = format!("--as={SOMEBODY}");
        node().kubectl(&[&words[..], more, &[&user, "--patch", &change]].concat())
    };
    let digest = format!("quay.io/acme/mosb@sha256:{}", "0".repeat(64));
    let image = json!({ "spec": { "containers": [{ "name": "report", "image": digest }] } });
    let debug = json!({ "spec": { "ephemeralContainers": [{ "name": "debug", "image": "a" }] } });
    let patch_job = |more: &[&str], change: Value| {
        let change = change.to_string();
        let words = ["patch", "job", name, "--namespace", NAMESPACE, "--dry-run=server"];
        let user = format!("--as={SOMEBODY}");
        node().kubectl(&[&words[..], more, &[&user, "--patch", &change]].concat())
    };
    let annotation = |key: &str| json!({ "metadata": { "annotations": { key: "x" } } });
    let label = |key: &str| json!({ "metadata": { "labels": { key: "x" } } });
    let owner = json!({ "metadata": { "ownerReferences": [{ "apiVersion": "v1", "kind": "Node", "name": "a", "uid": "1" }] } });
    let status = ["--subresource=status"];
    let succeeded = json!({ "status": { "succeeded": 1 } });
    patch(&[], label("a")).ok();
    for (answer, part) in [
        (patch(&[], image), "can't be changed"),
        (patch(&["--subresource=ephemeralcontainers"], debug), "exactly one container"),
        (patch(&[], annotation("run.oci.handler")), "run.oci.handler"),
        (patch(&status, annotation("cdi.k8s.io/devices")), "cdi.k8s.io/devices"),
        (patch(&[], owner.clone()), "owners"),
        (patch_job(&[], annotation("mosb.dev/node-target")), "labels and annotations"),
        (patch_job(&status, annotation("mosb.dev/node-target")), "labels and annotations"),
        (patch_job(&[], label("mosb.dev/node-job")), "labels and annotations"),
        (patch_job(&[], owner), "owners"),
        (patch_job(&status, succeeded), "only the Job controller"),
    ] {
        assert!(!answer.status.success() && answer.stderr.contains(part), "{answer:?}");
    }
    // By an administrator of the cluster.
    let connect = |words: &[&str]| node().kubectl(&[&["--namespace", NAMESPACE], words].concat());
    let is_refused =
        |answer: &Finished| answer.stderr.contains("exec, attach and port-forward are refused");
    let exec = ["exec", &pod, "--", "true"];
    // Each policy comes into force by itself.
    wait("that policy to be in force", SOON, || is_refused(&connect(&exec)).then_some(()));
    for words in [exec.as_slice(), &["attach", &pod]] {
        let answer = connect(words);
        assert!(!answer.status.success() && is_refused(&answer), "{answer:?}");
    }
    // kubectl itself refuses to forward ports of a pod that does not run yet.
    let target = format!(
        "/api/v1/namespaces/{NAMESPACE}/{}/portforward?ports=1",
        pod.replace("pod/", "pods/")
    );
    let (status, answer) = node().api().ask("POST", &target, None);
    let message = answer["message"].as_str().unwrap_or_default();
    assert!(
        status == 422 && message.contains("exec, attach and port-forward are refused"),
        "{status} {answer}"
    );
    node().kubectl(&["delete", "job", name, "--namespace", NAMESPACE, "--wait=false"]).ok();
}

/// A kubelet as it runs: the credential of the node's own.
#[test]
fn a_kubelet_changes_no_marks() {
    install();
    let kubelet = node().api_of("kubelet");
    let slot = "mosb.dev/slot=given";
    let desired = "machineconfiguration.openshift.io/desiredImage=given";
    node().kubectl(&["annotate", "node/node", slot, desired]).ok();
    let patch = |part: &str, metadata: &Value| {
        let target = format!("/api/v1/nodes/node{part}?dryRun=All");
        kubelet.ask("PATCH", &target, Some(&json!({ "metadata": metadata })))
    };
    let is_refused = |answer: &(u16, Value)| {
        answer.0 == 422 && answer.1["message"].as_str().unwrap().contains("mosb-nodes")
    };
    wait("the policy to be in force", SOON, || {
        is_refused(&patch("", &json!({ "annotations": { "mosb.dev/x": "y" } }))).then_some(())
    });
    let mut wrong = Vec::new();
    for part in ["", "/status"] {
        for (annotations, want_refusal) in [
            (json!({ "example.com/a": "b" }), false),
            (json!({ "mosb.dev/slot": "given" }), false),
            (json!({ "mosb.dev/slot": "taken" }), true),
            (json!({ "mosb.dev/slot": null }), true),
            (json!({ "mosb.dev/node-report": "{}" }), true),
            (json!({ "machineconfiguration.openshift.io/currentImage": "x" }), true),
            (json!({ "machineconfiguration.openshift.io/currentConfig": "x" }), true),
            (json!({ "machineconfiguration.openshift.io/state": "Done" }), true),
            (json!({ "machineconfiguration.openshift.io/desiredImage": "x" }), true),
            (json!({ "machineconfiguration.openshift.io/desiredImage": null }), true),
        ] {
            let answer = patch(part, &json!({ "annotations": annotations }));
            let right = if want_refusal { is_refused(&answer) } else { answer.0 == 200 };
            if !right {
                wrong.push(format!("{part} {annotations}: {answer:?}"));
            }
        }
    }
    // NodeRestriction refuses these too, where it is on.
    let role = json!({ "labels": { "node-role.kubernetes.io/control-plane": "" } });
    let answer = patch("", &role);
    if answer.0 != 403 && !is_refused(&answer) {
        wrong.push(format!("{role}: {answer:?}"));
    }
    let new = json!({ "apiVersion": "v1", "kind": "Node",
        "metadata": { "name": "node", "annotations": { "mosb.dev/slot": "taken" } } });
    let answer = kubelet.ask("POST", "/api/v1/nodes?dryRun=All", Some(&new));
    if !is_refused(&answer) {
        wrong.push(format!("a node that is created with a mark: {answer:?}"));
    }
    let remove = ["annotate", "node/node", "mosb.dev/slot-"];
    node().kubectl(&remove).ok();
    node()
        .kubectl(&["annotate", "node/node", "machineconfiguration.openshift.io/desiredImage-"])
        .ok();
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
