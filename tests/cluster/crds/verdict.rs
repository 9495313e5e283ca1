//! What an API server makes of objects, by copies of both CRDs in API groups of their own.

use std::sync::Once;
use std::sync::atomic::{AtomicUsize, Ordering};

use serde_json::{Value, json};

use mosb_tests::{PUBLISHED_KINDS, deployed_crd, node, published_crd};

pub const REAL: &str = "machineconfiguration.openshift.io";
/// The groups of the copies.
pub const OURS: &str = "ours.mosb.test";
const PUBLISHED: &str = "published.mosb.test";

/// An API server with the copies.
fn install() {
    static INSTALLED: Once = Once::new();
    INSTALLED.call_once(|| {
        for kind in PUBLISHED_KINDS {
            for (crd, group) in [(published_crd(kind), PUBLISHED), (deployed_crd(kind), OURS)] {
                apply(&crd.to_string().replace(REAL, group));
            }
        }
    });
}

/// Installs a CRD, or changes it.
pub fn apply(crd: &str) {
    node().apply(crd);
    let crd: Value = serde_json::from_str(crd).unwrap();
    let name = format!("crd/{}", crd["metadata"]["name"].as_str().unwrap());
    node().kubectl(&["wait", "--for=condition=Established", "--timeout=300s", &name]).ok();
}

/// What an API server makes of a request: the value at a place, or a refusal.
pub type Verdict = Result<Value, String>;

pub fn ask(method: &str, group: &str, path: &str, object: &Value, place: &str) -> Verdict {
    let target = format!("/apis/{group}/v1/{path}");
    match node().api().write(method, &target, object) {
        (200 | 201, mut answer) => {
            Ok(answer.pointer_mut(place).map(Value::take).unwrap_or_default())
        }
        (400 | 422, answer) => Err(answer["message"].to_string()),
        (code, answer) => panic!("{method} {target}: {code} {answer:#}"),
    }
}

fn kind_of(plural: &str) -> &'static str {
    match plural {
        "machineconfigs" => "MachineConfig",
        "machineconfigpools" => "MachineConfigPool",
        "machineosbuilds" => "MachineOSBuild",
        _ => "MachineOSConfig",
    }
}

/// An object that is valid.
pub fn good(plural: &str, group: &str, name: &str) -> Value {
    let spec = match plural {
        "machineconfigs" => json!({ "config": { "ignition": { "version": "3.5.0" } } }),
        "machineconfigpools" => json!({ "machineConfigSelector": { "matchLabels": { "a": "b" } } }),
        "machineosbuilds" => json!({ "machineConfig": { "name": "rendered-crds-1" },
            "machineOSConfig": { "name": "crds" }, "renderedImagePushSpec": "a.example/os:v1" }),
        _ => {
            json!({ "machineConfigPool": { "name": name }, "imageBuilder": { "imageBuilderType": "Job" },
            "renderedImagePushSecret": { "name": "push" }, "renderedImagePushSpec": "a.example/os:v1" })
        }
    };
    json!({ "apiVersion": format!("{group}/v1"), "kind": kind_of(plural), "metadata": { "name": name },
        "spec": spec })
}

/// Puts a value at a place; what leads there is made.
pub fn set(object: &mut Value, place: &str, value: Value) {
    let mut at = object;
    for step in place.split('/').skip(1) {
        at = &mut at[step];
    }
    *at = value;
}

/// The verdict on a value at a place: after another one that is there already, if there is one.
pub fn verdict(group: &str, plural: &str, place: &str, old: &Value, new: &Value) -> Verdict {
    static NUMBER: AtomicUsize = AtomicUsize::new(0);
    install();
    let name = format!("crds-{}", NUMBER.fetch_add(1, Ordering::Relaxed));
    let mut object = good(plural, group, &name);
    let is_status = place.starts_with("/status");
    if !is_status && old.is_null() {
        set(&mut object, place, new.clone());
        return ask("POST", group, &format!("{plural}?dryRun=All"), &object, place);
    }
    let mut there = ask("POST", group, plural, &object, "").unwrap();
    let target = format!("{plural}/{name}{}", if is_status { "/status" } else { "" });
    if !old.is_null() {
        set(&mut there, place, old.clone());
        there = ask("PUT", group, &target, &there, "").unwrap();
    }
    set(&mut there, place, new.clone());
    ask("PUT", group, &format!("{target}?dryRun=All"), &there, place)
}

/// Compares verdicts on each value: one that is there already, if there is one, and one that is sent.
#[track_caller]
pub fn same_verdicts(plural: &str, place: &str, cases: &[(Value, Value)]) {
    let (mut wrong, mut counts) = (Vec::new(), [0, 0]);
    for (old, new) in cases {
        let [published, ours] =
            [PUBLISHED, OURS].map(|group| verdict(group, plural, place, old, new));
        counts[usize::from(ours.is_ok())] += 1;
        if published.as_ref().ok() != ours.as_ref().ok() {
            wrong.push(format!("{old} then {new}: published: {published:?}, ours: {ours:?}"));
        }
    }
    assert!(wrong.is_empty(), "{place}:\n{}", wrong.join("\n"));
    assert!(counts.iter().all(|count| *count > 0), "{place}: refused and taken: {counts:?}");
}

/// The same, of values that are sent without another one before.
#[track_caller]
pub fn same_verdicts_on(plural: &str, place: &str, values: impl IntoIterator<Item = Value>) {
    let cases: Vec<_> = values.into_iter().map(|value| (Value::Null, value)).collect();
    same_verdicts(plural, place, &cases);
}
