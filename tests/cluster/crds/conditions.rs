//! The conditions of a MachineOSBuild, whose shape a MachineOSConfig's have as well.

use serde_json::{Value, json};

use super::api::Api;
use super::edit::{Edit, edited};
use super::os_builds::good;
use super::{Refused, Taken, hold_status};

fn condition(kind: &str, status: &str) -> Value {
    json!({
        "type": kind, "status": status, "reason": "Because", "message": "", "lastTransitionTime": "2026-01-02T03:04:05Z",
    })
}

#[test]
fn conditions_freeze_when_a_build_is_over() {
    let api = Api::new();
    let place = "/status/conditions";
    let is = |all: &[Value]| [Edit::set(place, json!(all))];
    let two = |kind: &str, status: &str| [condition("Building", "False"), condition(kind, status)];
    let over = |kind: &str| is(&two(kind, "True"));
    let mut elsewhere = condition("Failed", "True");
    elsewhere["lastTransitionTime"] = json!("2026-01-02T05:04:05+02:00");
    let mut reason = condition("Failed", "True");
    reason["reason"] = json!("Other");
    let nine: Vec<_> = (0..9).map(|n| condition(&format!("Type{n}"), "True")).collect();
    let frozen = Refused("conditions are immutable");
    let image = format!("a.example/os@sha256:{}", "0".repeat(64));
    hold_status(
        &api,
        &good(),
        &[
            // Row 7.
            ("failed, then not", &over("Failed"), &is(&two("Failed", "False")), frozen),
            (
                "interrupted, then succeeded too",
                &over("Interrupted"),
                &is(&[condition("Interrupted", "True"), condition("Succeeded", "True")]),
                frozen,
            ),
            (
                "not succeeded, then succeeded",
                &is(&two("Succeeded", "False")),
                &over("Succeeded"),
                Taken,
            ),
            (
                "succeeded, then another message",
                &over("Succeeded"),
                &[Edit::set("/status/conditions/1/message", "new")],
                frozen,
            ),
            (
                "failed, then another reason",
                &is(&[condition("Failed", "True")]),
                &is(&[reason]),
                frozen,
            ),
            (
                "failed, then one more condition",
                &over("Failed"),
                &is(&[
                    condition("Failed", "True"),
                    condition("Building", "False"),
                    condition("New", "True"),
                ]),
                frozen,
            ),
            ("failed, then none in a list", &over("Failed"), &is(&[]), frozen),
            ("failed, then no list", &over("Failed"), &[Edit::no(place)], Taken),
            (
                "failed, in another order",
                &over("Failed"),
                &is(&[condition("Failed", "True"), condition("Building", "False")]),
                Taken,
            ),
            (
                "failed, at the same instant in another zone",
                &is(&[condition("Failed", "True")]),
                &is(&[elsewhere]),
                Taken,
            ),
            (
                "failed, then a digest",
                &over("Failed"),
                &[Edit::set("/status/digestedImagePushSpec", image)],
                Taken,
            ),
            (
                "perhaps failed, then not",
                &is(&two("Failed", "Unknown")),
                &is(&two("Failed", "False")),
                Taken,
            ),
            ("prepared, then not", &over("Prepared"), &is(&two("Prepared", "False")), Taken),
            ("eight conditions", &[], &is(&nine[..8]), Taken),
            ("nine", &[], &is(&nine), Refused("must have at most 8 items")),
            (
                "one type twice",
                &[],
                &is(&[condition("Failed", "True"), condition("Failed", "False")]),
                Refused("Duplicate value"),
            ),
        ],
    );
}

#[test]
fn conditions_are_validated() {
    let api = Api::new();
    let with = |field: &str, value: Value| {
        let mut condition = condition("Building", "True");
        condition[field] = value;
        [Edit::set("/status/conditions", json!([condition]))]
    };
    hold_status(
        &api,
        &edited(&good(), &[Edit::set("/metadata/name", "crds-condition")]),
        &[
            ("a generation", &[], &with("observedGeneration", json!(0)), Taken),
            (
                "a generation below zero",
                &[],
                &with("observedGeneration", json!(-1)),
                Refused("observedGeneration"),
            ),
            (
                "a status of its own",
                &[],
                &with("status", json!("true")),
                Refused("supported values: \"True\", \"False\", \"Unknown\""),
            ),
            ("no reason", &[], &with("reason", json!(null)), Refused("reason: Required")),
            ("an empty reason", &[], &with("reason", json!("")), Refused("reason")),
            ("a reason with a blank", &[], &with("reason", json!("Not good")), Refused("reason")),
            (
                "a reason that ends in a colon",
                &[],
                &with("reason", json!("Bad:")),
                Refused("reason"),
            ),
            ("a reason with colons in it", &[], &with("reason", json!("A:b,c_1")), Taken),
            ("a reason of 1024", &[], &with("reason", json!("R".repeat(1024))), Taken),
            (
                "a reason of 1025",
                &[],
                &with("reason", json!("R".repeat(1025))),
                Refused("Too long"),
            ),
            ("no message", &[], &with("message", json!(null)), Refused("message: Required")),
            ("a message of 32768", &[], &with("message", json!("ü".repeat(32768))), Taken),
            (
                "a message of 32769",
                &[],
                &with("message", json!("ü".repeat(32769))),
                Refused("Too long"),
            ),
            (
                "no time",
                &[],
                &with("lastTransitionTime", json!(null)),
                Refused("lastTransitionTime: Required"),
            ),
            (
                "a time that is none",
                &[],
                &with("lastTransitionTime", json!("now")),
                Refused("lastTransitionTime"),
            ),
            ("a type with a domain", &[], &with("type", json!("mosb.dev/Some-Thing")), Taken),
            ("a type with a blank", &[], &with("type", json!("Some thing")), Refused("type")),
            ("a type of 317", &[], &with("type", json!("T".repeat(317))), Refused("Too long")),
        ],
    );
}
