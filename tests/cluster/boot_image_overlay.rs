//! What `deploy/boot-images` and its variant for OpenShift install: the flag, two kinds, and what the
//! account of the controller may do, as the real API server decides.

use serde_json::{Value, json};

use crate::deploy::rendered;
use crate::rollout_rights::{CONTROLLER, OTHER, SOON, is_allowed, resource};
use mosb_tests::{Namespace, node, wait};

const GROUP: &str = "machineconfiguration.openshift.io";
const TEMPLATES: &str = "infrastructure.cluster.x-k8s.io";

fn is_of_boot_images(object: &&Value) -> bool {
    let name = object["metadata"]["name"].as_str().unwrap_or_default();
    name.contains("boot-images") || name.starts_with("bootimage")
}

/// The kinds and rights that only this overlay has.
fn install() {
    crate::deploy::install();
    for object in rendered("boot-images").iter().filter(is_of_boot_images) {
        node().apply(&object.to_string());
    }
    wait("the kinds to be served", SOON, || {
        let kinds = ["bootimagehistories", "bootimagestatuses"];
        kinds.iter().all(|kind| node().kubectl(&["get", kind]).status.success()).then_some(())
    });
}

#[test]
fn flag_and_rights_are_in_the_overlays_only() {
    let flag = json!("--boot-images");
    for (folder, want) in [
        ("kubernetes", false),
        ("openshift", false),
        ("rollout", false),
        ("boot-images", true),
        ("boot-images-openshift", true),
    ] {
        let objects = rendered(folder);
        let mut deployments = objects.iter().filter(|object| object["kind"] == "Deployment");
        let container = &deployments.next().unwrap()["spec"]["template"]["spec"]["containers"][0];
        assert_eq!(container["args"].as_array().unwrap().contains(&flag), want, "{folder}");
        let ours: Vec<String> = objects
            .iter()
            .filter(is_of_boot_images)
            .map(|object| object["kind"].as_str().unwrap().to_owned())
            .collect();
        assert_eq!(!ours.is_empty(), want, "{folder}: {ours:?}");
        // On plain Kubernetes no policy could refuse anything.
        let has_policy = ours.iter().any(|kind| kind.starts_with("ValidatingAdmissionPolicy"));
        assert_eq!(has_policy, folder == "boot-images-openshift", "{folder}: {ours:?}");
        // Only `mosb boot-images rbac` gives a right to Secrets, by name.
        for object in objects.iter().filter(is_of_boot_images) {
            assert!(!object["rules"].to_string().contains("secrets"), "{folder}: {object:#}");
            assert!(!object["rules"].to_string().contains("\"*\""), "{folder}: {object:#}");
        }
    }
}

#[test]
fn the_rights_of_boot_images_are_narrow() {
    install();
    let sets = [
        ("machine.openshift.io", "machinesets"),
        ("machine.openshift.io", "controlplanemachinesets"),
        ("cluster.x-k8s.io", "machinesets"),
        ("cluster.x-k8s.io", "machinedeployments"),
    ];
    let mut given = vec![
        resource("create", TEMPLATES, "awsmachinetemplates", "a", ""),
        resource("get", TEMPLATES, "awsmachinetemplates", "a", "b"),
        resource("create", GROUP, "bootimagehistories", "a", ""),
        resource("patch", GROUP, "bootimagehistories/status", "a", "b"),
        resource("patch", "mosb.dev", "bootimagestatuses/status", "", "cluster"),
        resource("patch", "operator.openshift.io", "machineconfigurations/status", "", "cluster"),
        resource("watch", "apps", "deployments", "", "machine-config-controller"),
    ];
    for (group, kind) in sets {
        given.extend(["list", "watch"].map(|verb| resource(verb, group, kind, "", "")));
        given.push(resource("patch", group, kind, "a", "b"));
    }
    for right in &given {
        wait(&format!("{right} to be allowed"), SOON, || {
            is_allowed(CONTROLLER, right).then_some(())
        });
        assert!(!is_allowed(OTHER, right), "another account: {right}");
    }
    let mut refused = vec![
        resource("update", TEMPLATES, "awsmachinetemplates", "a", "b"),
        resource("patch", TEMPLATES, "awsmachinetemplates", "a", "b"),
        resource("delete", TEMPLATES, "awsmachinetemplates", "a", "b"),
        resource("list", TEMPLATES, "awsmachines", "", ""),
        resource("delete", GROUP, "bootimagehistories", "a", "b"),
        resource("patch", "operator.openshift.io", "machineconfigurations", "", "cluster"),
        resource("patch", "operator.openshift.io", "machineconfigurations/status", "", "b"),
        resource("patch", "cluster.x-k8s.io", "clusters", "a", "b"),
        resource("patch", "cluster.x-k8s.io", "machines", "a", "b"),
        resource("patch", "config.openshift.io", "clusterversions", "", "version"),
    ];
    for (group, kind) in sets {
        let verbs = ["create", "update", "delete"];
        refused.extend(verbs.map(|verb| resource(verb, group, kind, "a", "b")));
    }
    for namespace in ["openshift-machine-api", "default", "a"] {
        for verb in ["get", "list", "watch", "update", "patch"] {
            refused.push(resource(verb, "", "secrets", namespace, "worker-user-data"));
        }
    }
    for right in &refused {
        assert!(!is_allowed(CONTROLLER, right), "{right}");
    }
}

fn patch_status(what: &str, namespace: &str, status: &Value) -> Result<(), String> {
    let body = json!({ "status": status }).to_string();
    let place = format!("--namespace={namespace}");
    let words = [&*place, "patch", what, "--subresource=status", "--type=merge", "--patch", &body];
    let answer = node().kubectl(&words);
    if answer.status.success() { Ok(()) } else { Err(answer.stderr) }
}

#[test]
fn a_history_and_a_status_are_shown() {
    install();
    let namespace = Namespace::new(node(), "boot-image-kinds");
    let namespace = &*namespace.name;
    let object = json!({
        "apiVersion": format!("{GROUP}/v1alpha1"), "kind": "BootImageHistory", "spec": {},
        "metadata": { "name": "a.machineset", "namespace": namespace },
    });
    node().apply(&object.to_string());
    let entry = |image: &str, count: u32| json!({ "updatedTime": "2026-11-25T10:00:00Z", "bootImageRef": image, "template": "t", "count": count });
    let reference =
        json!({ "name": "worker-a", "kind": "MachineSet", "apiGroup": "machine.openshift.io" });
    let status = json!({
        "machineResourceReference": reference, "details": [entry("ami-1", 0), entry("ami-2", 3)],
        "pinned": "always",
        "attempt": { "bootImageRef": "ami-2", "count": 3, "generation": 7, "uid": "u" },
    });
    let history = "bootimagehistory/a.machineset";
    assert_eq!(patch_status(history, namespace, &status), Ok(()));
    let place = format!("--namespace={namespace}");
    let shown = node().kubectl(&[&place, "get", "bootimagehistory"]).ok().text();
    let columns = ["KIND", "SET", "IMAGE", "SINCE", "COUNT", "PINNED"];
    for part in columns.into_iter().chain(["MachineSet", "worker-a", "ami-2", "3", "always"]) {
        assert!(shown.contains(part), "{part}: {shown}");
    }
    assert!(!shown.contains("ami-1"), "{shown}");
    // What is sent for a set that is no longer pinned.
    let unpinned = json!({ "pinned": null, "attempt": null });
    assert_eq!(patch_status(history, namespace, &unpinned), Ok(()));
    let many: Vec<Value> = (0..65).map(|_| entry("a", 1)).collect();
    for (what, status, part) in [
        (
            "no set",
            json!({ "machineResourceReference": { "name": "a", "kind": null } }),
            "machineResourceReference.kind",
        ),
        (
            "an entry without image",
            json!({ "details": [{ "updatedTime": "2026-11-25T10:00:00Z" }] }),
            "bootImageRef",
        ),
        ("an empty image", json!({ "details": [entry("", 1)] }), "bootImageRef"),
        (
            "no time",
            json!({ "details": [{ "updatedTime": "yesterday", "bootImageRef": "a" }] }),
            "updatedTime",
        ),
        ("no text", json!({ "pinned": true }), "status.pinned"),
        ("too many", json!({ "details": many }), "64"),
    ] {
        let error = patch_status(history, namespace, &status).unwrap_err();
        assert!(error.contains(part), "{what}: {error}");
    }

    let named = |name: &str| json!({ "apiVersion": "mosb.dev/v1alpha1", "kind": "BootImageStatus", "metadata": { "name": name }, "spec": {} });
    let create = ["create", "--dry-run=server", "--filename=-"];
    let answer = node().kubectl_with(&create, named("other").to_string().as_bytes());
    assert!(answer.stderr.contains("the only object has the name cluster"), "{answer:?}");
    node().apply(&named("cluster").to_string());
    let condition = |status: &str| {
        json!({ "conditions": [{
        "type": "BootImageUpdateDegraded", "status": status, "reason": "MAPIMachineSetUpdated", "message": "x",
        "lastTransitionTime": "2026-11-25T10:00:00Z",
    }] })
    };
    let what = "bootimagestatus/cluster";
    assert_eq!(patch_status(what, "default", &condition("True")), Ok(()));
    let shown = node().kubectl(&["get", "bootimagestatus"]).ok().text();
    assert!(shown.contains("DEGRADED") && shown.contains("True"), "{shown}");
    let error = patch_status(what, "default", &condition("Yes")).unwrap_err();
    assert!(error.contains("Unsupported value"), "{error}");
}
