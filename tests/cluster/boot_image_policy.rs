//! What the ValidatingAdmissionPolicies of `deploy/boot-images-openshift` admit and refuse, on the
//! real API server with a MachineConfiguration and an Infrastructure of our own making.

use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::deploy::rendered;
use mosb_tests::{Finished, node, wait};

/// The API server looks for new kinds of parameters every 30 s, and applies a policy to them later
/// while other tests use it.
const SOON: Duration = Duration::from_secs(180);
/// When the policies are written again.
const AGAIN: Duration = Duration::from_secs(45);

/// A cluster-scoped kind with any fields.
fn kind(group: &str, kind: &str, plural: &str) -> Value {
    let any = json!({ "type": "object", "x-kubernetes-preserve-unknown-fields": true });
    json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": { "name": format!("{plural}.{group}") },
        "spec": {
            "group": group, "scope": "Cluster",
            "names": { "kind": kind, "listKind": format!("{kind}List"), "plural": plural, "singular": kind.to_lowercase() },
            "versions": [{ "name": "v1", "served": true, "storage": true, "subresources": { "status": {} },
                "schema": { "openAPIV3Schema": { "type": "object", "properties": { "spec": any, "status": any } } } }],
        },
    })
}

fn machine_configuration(name: &str, spec: &Value) -> Value {
    json!({ "apiVersion": "operator.openshift.io/v1", "kind": "MachineConfiguration", "metadata": { "name": name }, "spec": spec })
}

fn create(object: &Value) -> Finished {
    let words = ["create", "--dry-run=server", "--filename=-"];
    node().kubectl_with(&words, object.to_string().as_bytes())
}

/// The platform of the cluster; none removes the object.
fn set_platform(platform: Option<&str>) {
    node().kubectl(&["delete", "infrastructure", "cluster", "--ignore-not-found"]).ok();
    let Some(platform) = platform else { return };
    let object = json!({ "apiVersion": "config.openshift.io/v1", "kind": "Infrastructure", "metadata": { "name": "cluster" }, "spec": {} });
    node().apply(&object.to_string());
    let status = json!({ "status": { "platformStatus": { "type": platform } } }).to_string();
    let words =
        ["patch", "infrastructure", "cluster", "--subresource=status", "--type=merge", "--patch"];
    node().kubectl(&[&words[..], &[&*status]].concat()).ok();
}

fn entry(resource: &str, selection: &Value) -> Value {
    json!({ "managedBootImages": { "machineManagers": [
        { "resource": resource, "apiGroup": "machine.openshift.io", "selection": selection } ] } })
}

fn sets(mode: &str) -> Value {
    entry("machinesets", &json!({ "mode": mode }))
}

fn control_plane(mode: &str) -> Value {
    entry("controlplanemachinesets", &json!({ "mode": mode }))
}

fn by(operator: &str, values: &Value) -> Value {
    let expression = json!({ "key": "a", "operator": operator, "values": values });
    entry(
        "machinesets",
        &json!({ "mode": "Partial", "partial": { "machineResourceSelector": { "matchExpressions": [expression] } } }),
    )
}

#[test]
fn policies_never_refuse_an_opt_out() {
    for object in [
        kind("operator.openshift.io", "MachineConfiguration", "machineconfigurations"),
        kind("config.openshift.io", "Infrastructure", "infrastructures"),
    ] {
        node().apply(&object.to_string());
    }
    wait("the kinds to be served", SOON, || {
        let kinds = ["machineconfigurations", "infrastructures"];
        kinds.iter().all(|kind| node().kubectl(&["get", kind]).status.success()).then_some(())
    });
    for object in rendered("boot-images-openshift") {
        let name = object["metadata"]["name"].as_str().unwrap();
        let kind = object["kind"].as_str().unwrap();
        if kind.starts_with("ValidatingAdmissionPolicy") && name.starts_with("mosb-boot-images") {
            node().apply(&object.to_string());
        }
    }
    let empty = json!({ "mode": "Partial", "partial": { "machineResourceSelector": {} } });
    let off = json!({ "managedBootImages": { "machineManagers": [] } });
    let cases = [
        (Some("AWS"), "all", "cluster", sets("All"), None),
        (Some("AWS"), "control plane", "cluster", control_plane("All"), None),
        (Some("AWS"), "an empty selector", "cluster", entry("machinesets", &empty), None),
        (Some("AWS"), "a good selector", "cluster", by("In", &json!(["b"])), None),
        (Some("AWS"), "one without values", "cluster", by("Exists", &json!([])), None),
        (Some("AWS"), "nothing", "cluster", json!({}), None),
        (Some("AWS"), "another object", "other", json!({}), None),
        (
            Some("AWS"),
            "a selection in another object",
            "other",
            sets("All"),
            Some("with the name cluster"),
        ),
        (
            Some("AWS"),
            "In without values",
            "cluster",
            by("In", &json!([])),
            Some("operators In and NotIn with values"),
        ),
        (
            Some("AWS"),
            "Exists with values",
            "cluster",
            by("Exists", &json!(["b"])),
            Some("Exists and DoesNotExist without"),
        ),
        (
            Some("AWS"),
            "another operator",
            "cluster",
            by("Foo", &json!(["b"])),
            Some("operators In and NotIn"),
        ),
        (
            Some("AWS"),
            "control plane by label",
            "cluster",
            control_plane("Partial"),
            Some("can't be selected by labels"),
        ),
        (Some("VSphere"), "all", "cluster", sets("All"), None),
        (
            Some("VSphere"),
            "control plane",
            "cluster",
            control_plane("All"),
            Some("control-plane machines of platform VSphere"),
        ),
        (
            Some("BareMetal"),
            "all",
            "cluster",
            sets("All"),
            Some("images of platform BareMetal are not managed"),
        ),
        (Some("BareMetal"), "opting out", "cluster", sets("None"), None),
        (Some("BareMetal"), "opting out of all", "cluster", off.clone(), None),
        (Some("BareMetal"), "nothing", "cluster", json!({ "logLevel": "Normal" }), None),
        (None, "all, without an Infrastructure", "cluster", sets("All"), None),
        (None, "opting out, without an Infrastructure", "cluster", off, None),
    ];
    let refused = |what: &Value, part: &str| {
        let answer = create(&machine_configuration("cluster", what));
        (!answer.status.success() && answer.stderr.contains(part)).then_some(())
    };
    set_platform(Some("BareMetal"));
    for (what, spec, part) in [
        ("the first policy", control_plane("Partial"), "can't be selected by labels"),
        ("the second policy", sets("All"), "platform BareMetal"),
    ] {
        let mut written = Instant::now();
        wait(&format!("{what} to be in force"), SOON, || {
            // An API server that knew the kind of the parameter too late looks again at a changed policy.
            if written.elapsed() > AGAIN {
                let again = format!("mosb.dev/written-after={:?}", written.elapsed());
                let annotate = ["annotate", "--overwrite", "--all", "validatingadmissionpolicies"];
                node().kubectl(&[&annotate[..], &[&again]].concat()).ok();
                written = Instant::now();
            }
            refused(&spec, part)
        });
    }
    let mut platform = Some("BareMetal");
    for (on, what, name, spec, want) in cases {
        if on != platform {
            set_platform(on);
            platform = on;
        }
        let object = machine_configuration(name, &spec);
        // The parameter takes a moment to be seen.
        wait(&format!("{on:?}, {what}: {want:?}"), SOON, || {
            let answer = create(&object);
            let is_right = match want {
                None => answer.status.success(),
                Some(part) => answer.stderr.contains(part),
            };
            is_right.then_some(())
        });
    }
    set_platform(None);
}
