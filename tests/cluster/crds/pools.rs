//! MachineConfigPool: lenient, with counts that fit together.

use serde_json::{Value, json};

use super::api::{Api, object};
use super::edit::{Edit, edited};
use super::{Refused, Taken, hold, hold_status};

fn good() -> Value {
    let selector = json!({"matchLabels": {"role": "worker"}});
    object("MachineConfigPool", "crds-pool", json!({"machineConfigSelector": selector}))
}

#[test]
fn pools_are_validated() {
    let api = Api::new();
    let sets = |count: usize| -> Value {
        (0..count).map(|n| json!({"name": format!("set-{n}")})).collect()
    };
    let configuration = json!({"name": "rendered-a", "uid": "", "source": [{"kind": "MachineConfig", "name": "00"}, {"name": "00"}]});
    hold(
        &good(),
        &[
            ("as it is", &[], Taken),
            ("an empty spec", &[Edit::set("/spec", json!({}))], Taken),
            ("no spec", &[Edit::no("/spec")], Refused("spec: Required value")),
            ("a configuration", &[Edit::set("/spec/configuration", configuration)], Taken),
            ("one away at once", &[Edit::set("/spec/maxUnavailable", 1)], Taken),
            ("a tenth away at once", &[Edit::set("/spec/maxUnavailable", "10%")], Taken),
            ("any text for the number", &[Edit::set("/spec/maxUnavailable", "some")], Taken),
            (
                "a truth for the number",
                &[Edit::set("/spec/maxUnavailable", true)],
                Refused("spec.maxUnavailable"),
            ),
            (
                "half a machine",
                &[Edit::set("/spec/maxUnavailable", 1.5)],
                Refused("spec.maxUnavailable"),
            ),
            (
                "a pause that is a word",
                &[Edit::set("/spec/paused", "true")],
                Refused("spec.paused"),
            ),
            (
                "a stream without a name",
                &[Edit::set("/spec/osImageStream", json!({}))],
                Refused("spec.osImageStream.name: Required"),
            ),
            ("a hundred image sets", &[Edit::set("/spec/pinnedImageSets", sets(100))], Taken),
            (
                "one more",
                &[Edit::set("/spec/pinnedImageSets", sets(101))],
                Refused("must have at most 100 items"),
            ),
            (
                "one image set twice",
                &[Edit::set("/spec/pinnedImageSets", json!([{"name": "a"}, {"name": "a"}]))],
                Refused("Duplicate value"),
            ),
            (
                "a rule without an operator",
                &[Edit::set("/spec/nodeSelector", json!({"matchExpressions": [{"key": "a"}]}))],
                Refused("operator: Required"),
            ),
        ],
        |object| api.try_create(object),
    );
    let made = api.try_create(&edited(&good(), &[Edit::set("/status/machineCount", 3)])).unwrap();
    assert_eq!(made["spec"], good()["spec"], "nothing is filled in");
    assert_eq!(made.get("status"), None, "a status sent on creation is dropped");
}

/// Names of 63 and 64 characters, and of as many in parts as fit and one more.
fn long(length: usize) -> String {
    let parts =
        "a".repeat(63) + "." + &"b".repeat(63) + "." + &"c".repeat(63) + "." + &"d".repeat(63);
    parts[..length].to_owned()
}

#[test]
fn names_of_image_sets_and_streams_are_as_the_real_ones() {
    let api = Api::new();
    let there = api.created(&edited(&good(), &[Edit::set("/metadata/name", "crds-names")]));
    let mut wrong = Vec::new();
    // The name, whether an image set may have it, and a stream.
    for (name, set, stream) in [
        ("a", true, true),
        ("9", true, true),
        ("a-b.c", true, true),
        ("A1", true, false),
        ("a-B.c", true, false),
        (&*"A".repeat(63), true, false),
        (&*"a".repeat(63), true, true),
        (&*"a".repeat(64), false, true),
        (&*("a.".to_owned() + &"b".repeat(64)), false, true),
        (&*long(253), true, true),
        (&*(long(253) + "x"), false, false),
        ("", false, false),
        ("-a", false, false),
        ("a-", false, false),
        ("a..b", false, false),
        ("a.", false, false),
        ("a_b", false, false),
        ("ä", false, false),
    ] {
        for (pointer, value, want) in [
            ("/spec/pinnedImageSets", json!([{ "name": name }]), set),
            ("/spec/osImageStream", json!({ "name": name }), stream),
            ("/status/osImageStream", json!({ "name": name }), stream),
        ] {
            let object = edited(&there, &[Edit::set(pointer, value.clone())]);
            let answer = if pointer.starts_with("/status") {
                api.try_status(&object)
            } else {
                api.try_update(&object)
            };
            let is = answer.as_ref().is_ok_and(|read| read.pointer(pointer) == Some(&value));
            if is != want || answer.is_ok() != want {
                wrong.push(format!("{pointer} {name:?}: want {want}, but {answer:?}"));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn the_status_of_a_pool_is_validated() {
    let api = Api::new();
    let sync = json!({
        "poolSynchronizerType": "PinnedImageSets", "machineCount": 3, "updatedMachineCount": 1, "availableMachineCount": 2,
        "readyMachineCount": 2, "unavailableMachineCount": 1, "observedGeneration": 5,
    });
    let old = [Edit::set("/status/poolSynchronizersStatus", json!([sync]))];
    let with = |field: &'static str, value: i64| [Edit::set(field, value)];
    let conditions = json!([{}, {"type": "Any", "status": "Perhaps", "lastTransitionTime": null}, {"type": "Any"}]);
    hold_status(
        &api,
        &good(),
        &[
            (
                "conditions without rules",
                &[],
                &[Edit::set("/status/conditions", conditions)],
                Taken,
            ),
            (
                "a condition's time that is none",
                &[],
                &[Edit::set("/status/conditions", json!([{"lastTransitionTime": "today"}]))],
                Refused("lastTransitionTime"),
            ),
            (
                "a certificate",
                &[],
                &[Edit::set("/status/certExpirys", json!([{"bundle": "a", "subject": "b"}]))],
                Taken,
            ),
            (
                "a certificate of nobody",
                &[],
                &[Edit::set("/status/certExpirys", json!([{"bundle": "a"}]))],
                Refused("subject: Required"),
            ),
            (
                "a stream without a name",
                &[],
                &[Edit::set("/status/osImageStream", json!({}))],
                Refused("name: Required"),
            ),
            ("counts that fit", &old, &[], Taken),
            (
                "a count is missing",
                &old,
                &[Edit::no("/status/poolSynchronizersStatus/0/readyMachineCount")],
                Refused("readyMachineCount: Required"),
            ),
            (
                "a count below zero",
                &old,
                &with("/status/poolSynchronizersStatus/0/updatedMachineCount", -1),
                Refused("updatedMachineCount"),
            ),
            (
                "more updated than there are",
                &old,
                &with("/status/poolSynchronizersStatus/0/updatedMachineCount", 4),
                Refused("machineCount must not be less"),
            ),
            (
                "more unavailable than there are",
                &old,
                &with("/status/poolSynchronizersStatus/0/unavailableMachineCount", 4),
                Refused("machineCount must not be less"),
            ),
            (
                "more ready than available",
                &old,
                &with("/status/poolSynchronizersStatus/0/readyMachineCount", 3),
                Refused("less than readyMachineCount"),
            ),
            (
                "another synchronizer",
                &old,
                &[Edit::set("/status/poolSynchronizersStatus/0/poolSynchronizerType", "Other")],
                Refused("supported values: \"PinnedImageSets\""),
            ),
            (
                "one synchronizer twice",
                &[],
                &[Edit::set("/status/poolSynchronizersStatus", json!([sync, sync]))],
                Refused("Duplicate value"),
            ),
            (
                "a generation goes on",
                &old,
                &with("/status/poolSynchronizersStatus/0/observedGeneration", 6),
                Taken,
            ),
            (
                "a generation goes back",
                &old,
                &with("/status/poolSynchronizersStatus/0/observedGeneration", 4),
                Refused("must not decrease"),
            ),
            (
                "a generation begins anew",
                &old,
                &with("/status/poolSynchronizersStatus/0/observedGeneration", 0),
                Taken,
            ),
        ],
    );
    let there = api.created(&edited(&good(), &[Edit::set("/metadata/name", "crds-null")]));
    let sent = [Edit::set(
        "/status/conditions",
        json!([{"type": "Updated", "lastTransitionTime": null, "reason": null}]),
    )];
    let read = api.try_status(&edited(&there, &sent)).unwrap();
    let want = json!([{"type": "Updated", "lastTransitionTime": null}]);
    assert_eq!(read["status"]["conditions"], want);
}
