//! MachineOSBuild: what was wanted stays, and what became of it is written once.

use serde_json::{Value, json};

use super::api::{Api, object};
use super::edit::{Edit, edited};
use super::{Refused, Taken, hold, hold_status};

pub fn good() -> Value {
    let spec = json!({
        "machineConfig": {"name": "rendered-crds-1"},
        "machineOSConfig": {"name": "crds"},
        "renderedImagePushSpec": "registry.example.com/acme/os:rendered-crds-1",
    });
    object("MachineOSBuild", "crds-build", spec)
}

#[test]
fn machine_os_builds_are_validated() {
    let api = Api::new();
    let config = "/spec/machineConfig/name";
    hold(
        &good(),
        &[
            ("as it is", &[], Taken),
            ("no spec", &[Edit::no("/spec")], Refused("spec: Required value")),
            (
                "no config",
                &[Edit::no("/spec/machineConfig")],
                Refused("spec.machineConfig: Required"),
            ),
            (
                "no MachineOSConfig",
                &[Edit::no("/spec/machineOSConfig")],
                Refused("spec.machineOSConfig: Required"),
            ),
            (
                "no push spec",
                &[Edit::no("/spec/renderedImagePushSpec")],
                Refused("spec.renderedImagePushSpec: Required"),
            ),
            (
                "a push spec without a tag",
                &[Edit::set("/spec/renderedImagePushSpec", "a.example/os")],
                Refused("must be host"),
            ),
            ("a config of ten characters", &[Edit::set(config, "rendered-a")], Taken),
            (
                "a config of nine",
                &[Edit::set(config, "rendered-")],
                Refused("at least 10 chars long"),
            ),
            ("a config of 254", &[Edit::set(config, "a".repeat(254))], Refused("Too long")),
            (
                "a config in capitals",
                &[Edit::set(config, "Rendered-crds")],
                Refused("spec.machineConfig.name"),
            ),
            (
                "a MachineOSConfig without a name",
                &[Edit::set("/spec/machineOSConfig/name", "")],
                Refused("spec.machineOSConfig.name"),
            ),
        ],
        |object| api.try_create(object),
    );
    let there = api.created(&good());
    hold(
        &there,
        &[
            ("nothing", &[], Taken),
            ("a label", &[Edit::set("/metadata/labels", json!({"a": "b"}))], Taken),
            (
                "another config",
                &[Edit::set(config, "rendered-crds-2")],
                Refused("spec is immutable"),
            ),
            (
                "another push spec",
                &[Edit::set("/spec/renderedImagePushSpec", "a.example/os:v")],
                Refused("spec is immutable"),
            ),
        ],
        |object| api.try_update(object),
    );
}

#[test]
fn a_build_begins_and_ends_once() {
    let api = Api::new();
    let (start, end) = ("/status/buildStart", "/status/buildEnd");
    let from = |time: &str| [Edit::set(start, time)];
    let both = |one: &str, other: &str| [Edit::set(start, one), Edit::set(end, other)];
    let (ten, eleven) = ("2026-01-02T10:00:00Z", "2026-01-02T11:00:00Z");
    let hour = both(ten, eleven);
    hold_status(
        &api,
        &edited(&good(), &[Edit::set("/metadata/name", "crds-times")]),
        &[
            // Row 6.
            ("10:00 to 11:00", &from(ten), &[Edit::set(end, eleven)], Taken),
            (
                "10:00 to 09:00",
                &from(ten),
                &[Edit::set(end, "2026-01-02T09:00:00Z")],
                Refused("buildEnd needs a buildStart"),
            ),
            (
                "to the same second",
                &from(ten),
                &[Edit::set(end, ten)],
                Refused("buildEnd needs a buildStart"),
            ),
            (
                "to a bit after it",
                &from(ten),
                &[Edit::set(end, "2026-01-02T10:00:00.000001Z")],
                Taken,
            ),
            (
                "which is cut later",
                &both(ten, "2026-01-02T10:00:00.000001Z"),
                &[Edit::set(end, ten)],
                Refused("buildEnd"),
            ),
            ("both at once", &[], &hour, Taken),
            (
                "an end without a start",
                &[],
                &[Edit::set(end, eleven)],
                Refused("buildEnd needs a buildStart"),
            ),
            ("another start", &from(ten), &from(eleven), Refused("buildStart is immutable")),
            (
                "another end",
                &hour,
                &[Edit::set(end, "2026-01-02T12:00:00Z")],
                Refused("buildEnd is immutable"),
            ),
            (
                "the same start in another zone",
                &from(ten),
                &from("2026-01-02T12:00:00+02:00"),
                Taken,
            ),
            ("no start any more", &from(ten), &[Edit::no(start)], Taken),
            ("no end any more", &hour, &[Edit::no(end)], Taken),
            (
                "no start, but an end",
                &hour,
                &[Edit::no(start)],
                Refused("buildEnd needs a buildStart"),
            ),
            ("a time that is none", &[], &from("ten"), Refused("buildStart")),
        ],
    );
}

#[test]
fn references_of_a_build_are_validated() {
    let api = Api::new();
    let job = json!({"group": "batch", "resource": "jobs", "namespace": "mosb-system", "name": "build-crds"});
    let mut other = job.clone();
    other["name"] = json!("build-other");
    let (builder, related) = ("/status/builder", "/status/relatedObjects");
    let by_job = [Edit::set(builder, json!({"imageBuilderType": "Job", "job": job}))];
    let is = |value: Value| [Edit::set(builder, value)];
    let refers = |list: Value| [Edit::set(related, list)];
    let many: Vec<_> = (0..11)
        .map(|n| json!({"group": "batch", "resource": "jobs", "name": format!("job-{n}")}))
        .collect();
    let needs = Refused("job is required when imageBuilderType is Job");
    hold_status(
        &api,
        &edited(&good(), &[Edit::set("/metadata/name", "crds-refers")]),
        &[
            // Row 5.
            ("a Job's reference goes", &by_job, &[Edit::no("/status/builder/job")], needs),
            ("it becomes another", &by_job, &[Edit::set("/status/builder/job", other)], Taken),
            ("the builder goes", &by_job, &[Edit::no(builder)], Taken),
            ("a Job without a reference", &[], &is(json!({"imageBuilderType": "Job"})), needs),
            ("another builder", &[], &is(json!({"imageBuilderType": "Homemade"})), Taken),
            (
                "another builder with a Job",
                &[],
                &is(json!({"imageBuilderType": "Homemade", "job": job})),
                needs,
            ),
            (
                "a builder without a type",
                &[],
                &is(json!({"job": job})),
                Refused("imageBuilderType: Required"),
            ),
            ("two related objects", &[], &refers(json!(many[..2])), Taken),
            (
                "one of them twice",
                &[],
                &refers(json!([many[0], many[0]])),
                Refused("Duplicate value"),
            ),
            (
                "the same name in another namespace",
                &[],
                &refers(
                    json!([job, {"group": "batch", "resource": "jobs", "namespace": "other", "name": "build-crds"}]),
                ),
                Refused("Duplicate value"),
            ),
            (
                "the same name of another resource",
                &[],
                &refers(
                    json!([job, {"group": "batch", "resource": "cronjobs", "name": "build-crds"}]),
                ),
                Taken,
            ),
            ("ten", &[], &refers(json!(many[..10])), Taken),
            ("eleven", &[], &refers(json!(many)), Refused("must have at most 10 items")),
            (
                "one of the core group",
                &[],
                &refers(json!([{"group": "", "resource": "secrets", "name": "a"}])),
                Refused("group"),
            ),
        ],
    );
}
