//! What people read when the API server refuses an object by a rule of `deploy/crds`.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use super::verdict::{OURS, verdict};
use mosb_tests::{PUBLISHED_KINDS, deployed_crd};

const TAG: &str = "must be host[:port][/namespace...]/name:tag with a dot in the host, or \
    service.namespace.svc:port/namespace/name:tag";
const DIGEST: &str = "must be host[:port][/namespace...]/name@sha256:<64 lower-case hex digits> \
    without a tag and with a dot in the host";

/// Adds the messages of all rules of a schema.
fn add_messages(schema: &Value, to: &mut BTreeSet<String>) {
    match schema {
        Value::Array(all) => all.iter().for_each(|one| add_messages(one, to)),
        Value::Object(fields) => {
            if let (Some(_), Some(message)) = (fields.get("rule"), fields.get("message")) {
                to.insert(message.as_str().unwrap().to_owned());
            }
            fields.values().for_each(|one| add_messages(one, to));
        }
        _ => {}
    }
}

#[test]
fn each_rule_refuses_with_its_message() {
    let (ten, eleven, noon) =
        ("2026-01-02T10:00:00Z", "2026-01-02T11:00:00Z", "2026-01-02T12:00:00Z");
    let built = |start: &str, end: &str| json!({ "buildStart": start, "buildEnd": end });
    let failed = |status: &str| {
        json!([{ "type": "Failed", "status": status, "reason": "Because", "message": "",
            "lastTransitionTime": ten }])
    };
    let sync = |updated: i64, ready: i64, generation: i64| {
        json!([{ "poolSynchronizerType": "PinnedImageSets", "machineCount": 3,
            "updatedMachineCount": updated, "availableMachineCount": 2, "readyMachineCount": ready,
            "unavailableMachineCount": 1, "observedGeneration": generation }])
    };
    let (pools, builds, configs) = ("machineconfigpools", "machineosbuilds", "machineosconfigs");
    let (image, synced) = ("/spec/renderedImagePushSpec", "/status/poolSynchronizersStatus");
    let rows = [
        (
            pools,
            synced,
            json!(null),
            sync(4, 2, 5),
            "machineCount must not be less than another count",
        ),
        (
            pools,
            synced,
            json!(null),
            sync(1, 3, 5),
            "availableMachineCount must not be less than readyMachineCount",
        ),
        (
            pools,
            synced,
            sync(1, 2, 5),
            sync(1, 2, 4),
            "observedGeneration must not decrease, except to zero",
        ),
        (
            builds,
            image,
            json!("a.example/os:v1"),
            json!("a.example/os:v2"),
            "spec is immutable; what is wanted otherwise is another build",
        ),
        (builds, image, json!(null), json!("foo.bar"), TAG),
        (configs, image, json!(null), json!("foo.bar"), TAG),
        (builds, "/status", json!(null), built(ten, ten), "buildEnd needs a buildStart before it"),
        (builds, "/status", built(ten, eleven), built(ten, noon), "buildEnd is immutable once set"),
        (
            builds,
            "/status",
            built(ten, noon),
            built(eleven, noon),
            "buildStart is immutable once set",
        ),
        (
            builds,
            "/status/builder",
            json!(null),
            json!({ "imageBuilderType": "Job" }),
            "job is required when imageBuilderType is Job, and forbidden otherwise",
        ),
        (
            builds,
            "/status/conditions",
            failed("True"),
            failed("False"),
            "conditions are immutable once Failed, Interrupted or Succeeded is True",
        ),
        (builds, "/status/digestedImagePushSpec", json!(null), json!("a.example/os:v1"), DIGEST),
        (configs, "/status/currentImagePullSpec", json!(null), json!("a.example/os:v1"), DIGEST),
        (
            configs,
            "/spec/machineConfigPool/name",
            json!(null),
            json!("another"),
            "metadata.name must be the name of the pool in spec.machineConfigPool.name",
        ),
        (
            configs,
            "/status/observedGeneration",
            json!(5),
            json!(4),
            "observedGeneration must not decrease",
        ),
    ];
    let mut wrong = Vec::new();
    for (plural, place, old, new, message) in &rows {
        let answer = verdict(OURS, plural, place, old, new);
        if !answer.as_ref().is_err_and(|text| text.contains(message)) {
            wrong.push(format!("{plural} {place}: {message}: {answer:?}"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    let mut messages = BTreeSet::new();
    PUBLISHED_KINDS.iter().for_each(|kind| add_messages(&deployed_crd(kind), &mut messages));
    let tried: BTreeSet<_> = rows.iter().map(|row| row.4.to_owned()).collect();
    assert_eq!(tried, messages, "each message has a row");
}
