//! MachineOSConfig: one for a pool, with images in forms that others can pull.

use std::time::Duration;

use serde_json::{Value, json};

use super::api::{Api, GROUP, copy, files, install, object};
use super::edit::{Edit, edited};
use super::{Refused, Taken, hold, hold_status, named};
use mosb_tests::wait;

pub fn good() -> Value {
    let spec = json!({
        "machineConfigPool": {"name": "crds"},
        "imageBuilder": {"imageBuilderType": "Job"},
        "renderedImagePushSecret": {"name": "push"},
        "renderedImagePushSpec": "registry.example.com/acme/os:latest",
    });
    object("MachineOSConfig", "crds", spec)
}

pub const PUSH: &str = "/spec/renderedImagePushSpec";

/// A text of so many characters, none of which is one byte.
fn long(length: usize) -> String {
    "ü".repeat(length)
}

#[test]
fn machine_os_configs_are_validated() {
    let api = Api::new();
    let files = |files: Value| [Edit::set("/spec/containerFile", files)];
    let file = |arch: &str| json!({"containerfileArch": arch, "content": "RUN true"});
    let name = "a".repeat(253);
    hold(
        &good(),
        &[
            ("row 1: without a pull secret", &[], Taken),
            ("with one", &[Edit::set("/spec/baseImagePullSecret/name", "pull.secret-1")], Taken),
            (
                "with one that has no name",
                &[Edit::set("/spec/baseImagePullSecret", json!({}))],
                Refused("baseImagePullSecret.name: Required"),
            ),
            (
                "with one whose name is empty",
                &[Edit::set("/spec/baseImagePullSecret/name", "")],
                Refused("spec.baseImagePullSecret.name"),
            ),
            (
                "a secret in capitals",
                &[Edit::set("/spec/renderedImagePushSecret/name", "Push")],
                Refused("spec.renderedImagePushSecret.name"),
            ),
            (
                "a secret that ends in a dot",
                &[Edit::set("/spec/renderedImagePushSecret/name", "push.")],
                Refused("spec.renderedImagePushSecret.name"),
            ),
            (
                "the longest name of a secret",
                &[Edit::set("/spec/renderedImagePushSecret/name", name.as_str())],
                Taken,
            ),
            (
                "one character more",
                &[Edit::set("/spec/renderedImagePushSecret/name", format!("{name}a"))],
                Refused("spec.renderedImagePushSecret.name"),
            ),
            (
                "no push secret",
                &[Edit::no("/spec/renderedImagePushSecret")],
                Refused("spec.renderedImagePushSecret: Required"),
            ),
            ("no push spec", &[Edit::no(PUSH)], Refused("spec.renderedImagePushSpec: Required")),
            (
                "no pool",
                &[Edit::no("/spec/machineConfigPool")],
                Refused("spec.machineConfigPool: Required"),
            ),
            (
                "no builder",
                &[Edit::no("/spec/imageBuilder")],
                Refused("spec.imageBuilder: Required"),
            ),
            (
                "a builder without a type",
                &[Edit::set("/spec/imageBuilder", json!({}))],
                Refused("spec.imageBuilder.imageBuilderType: Required"),
            ),
            (
                "row 4: another builder",
                &[Edit::set("/spec/imageBuilder/imageBuilderType", "Pod")],
                Refused("supported values: \"Job\""),
            ),
            ("no spec", &[Edit::no("/spec")], Refused("spec: Required value")),
            (
                "row 3: another name than the pool's",
                &[Edit::set("/metadata/name", "other")],
                Refused("must be the name of the pool"),
            ),
            (
                "four Containerfiles",
                &files(json!([file("ARM64"), file("AMD64"), file("PPC64LE"), file("NoArch")])),
                Taken,
            ),
            (
                "five",
                &files(json!([
                    file("ARM64"),
                    file("AMD64"),
                    file("PPC64LE"),
                    file("S390X"),
                    file("NoArch")
                ])),
                Refused("must have at most 4 items"),
            ),
            ("none in a list", &files(json!([])), Taken),
            (
                "two of an architecture",
                &files(json!([file("NoArch"), {"content": ""}])),
                Refused("Duplicate value"),
            ),
            (
                "an architecture as Go has it",
                &files(json!([file("amd64")])),
                Refused("containerfileArch: Unsupported value"),
            ),
            ("an empty Containerfile", &files(json!([{"content": ""}])), Taken),
            (
                "one without content",
                &files(json!([{"containerfileArch": "AMD64"}])),
                Refused("content: Required"),
            ),
            ("one of 4096 characters", &files(json!([{"content": long(4096)}])), Taken),
            ("one of 4097", &files(json!([{"content": long(4097)}])), Refused("Too long")),
            ("a null for one", &files(json!([null])), Refused("containerFile[0]")),
        ],
        |object| api.try_create(object),
    );
}

#[test]
fn machine_os_configs_lose_nulls() {
    let api = Api::new();
    let sent = [Edit::null("/spec/containerFile"), Edit::null("/spec/baseImagePullSecret")];
    let made = api.try_create(&edited(&good(), &sent)).unwrap();
    assert_eq!(made["spec"], good()["spec"], "as the Go client writes it");
    let file = json!([{"containerfileArch": null, "content": "RUN true"}]);
    let made = api.try_create(&edited(&good(), &[Edit::set("/spec/containerFile", file)])).unwrap();
    assert_eq!(made["spec"]["containerFile"][0]["containerfileArch"], "NoArch");
    let status = [Edit::set("/status/currentImagePullSpec", "nothing")];
    let made = api.try_create(&edited(&good(), &status)).unwrap();
    assert_eq!(made.get("status"), None, "a status sent on creation is dropped");
}

#[test]
fn generation_and_build_of_a_machine_os_config_are_validated() {
    let api = Api::new();
    let generation = "/status/observedGeneration";
    let five = [Edit::set(generation, 5)];
    let build = "/status/machineOSBuild";
    let reference = json!({"group": GROUP, "resource": "machineosbuilds", "name": "crds-1"});
    let with = |field: &'static str, value: &str| {
        [Edit::set(build, reference.clone()), Edit::set(field, value)]
    };
    let (no_group, no_name) =
        (json!({"resource": "a", "name": "a"}), json!({"group": "a", "resource": "a"}));
    hold_status(
        &api,
        &named(&good(), "crds-status"),
        &[
            ("a generation goes on", &five, &[Edit::set(generation, 6)], Taken),
            ("it stays", &five, &[Edit::set(generation, 5)], Taken),
            ("it goes back", &five, &[Edit::set(generation, 4)], Refused("must not decrease")),
            ("it goes away", &five, &[Edit::no(generation)], Taken),
            (
                "it begins below zero",
                &[],
                &[Edit::set(generation, -1)],
                Refused("observedGeneration"),
            ),
            ("a build", &[], &[Edit::set(build, reference.clone())], Taken),
            (
                "a build in a namespace",
                &[],
                &with("/status/machineOSBuild/namespace", "crds"),
                Taken,
            ),
            (
                "a namespace that can't be",
                &[],
                &with("/status/machineOSBuild/namespace", "a.b"),
                Refused("namespace"),
            ),
            ("an empty group", &[], &with("/status/machineOSBuild/group", ""), Refused("group")),
            ("an empty name", &[], &with("/status/machineOSBuild/name", ""), Refused("name")),
            (
                "a resource that begins with a digit",
                &[],
                &with("/status/machineOSBuild/resource", "1s"),
                Refused("resource"),
            ),
            ("no group", &[], &[Edit::set(build, no_group)], Refused("group: Required")),
            ("no name", &[], &[Edit::set(build, no_name)], Refused("name: Required")),
        ],
    );
}

/// Row 3. Only a name that was stored before the rule was can be another one.
#[test]
fn a_stored_name_that_is_not_the_pools_may_stay() {
    const OLD: &str = "old.crds.mosb.test";
    let api = Api::new();
    let file = files().pop().unwrap();
    let strict = copy(&file, OLD);
    let rule = "self.metadata.name == self.spec";
    assert_eq!(strict.matches(rule).count(), 1, "{}", file.display());
    install(&strict.replace(rule, &format!("true || {rule}")));
    let old = edited(
        &good(),
        &[
            Edit::set("/apiVersion", format!("{OLD}/v1")),
            Edit::set("/metadata/name", "first"),
            Edit::set("/spec/machineConfigPool/name", "second"),
        ],
    );
    let there = api.created(&old);
    install(&strict);
    let new = edited(&old, &[Edit::set("/metadata/name", "third")]);
    wait("the rule", Duration::from_secs(60), || api.try_create(&new).err());

    hold(
        &there,
        &[
            ("another field changes", &[Edit::set(PUSH, "registry.example.com/os:v2")], Taken),
            (
                "the pool becomes a third one",
                &[Edit::set("/spec/machineConfigPool/name", "third")],
                Refused("must be the name of the pool"),
            ),
            (
                "the pool becomes the right one",
                &[Edit::set("/spec/machineConfigPool/name", "first")],
                Taken,
            ),
        ],
        |object| api.try_update(object),
    );
    let right = [Edit::set("/spec/machineConfigPool/name", "first")];
    let there = api.update(&edited(&there, &right)).unwrap();
    let back = [Edit::set("/spec/machineConfigPool/name", "second")];
    let answer = api.try_update(&edited(&there, &back)).unwrap_err();
    assert!(answer.contains("must be the name of the pool"), "{answer}");
}
