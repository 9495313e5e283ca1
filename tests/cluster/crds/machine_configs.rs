//! MachineConfig: nearly everything is taken, as Ignition and the renderer are the judges.

use serde_json::{Value, json};

use super::api::{Api, object};
use super::edit::{Edit, edited};
use super::{Refused, Taken, hold};

fn good() -> Value {
    let config = json!({"ignition": {"version": "3.5.0"}});
    object("MachineConfig", "crds", json!({"config": config}))
}

#[test]
fn machine_configs_are_validated() {
    let api = Api::new();
    hold(
        &good(),
        &[
            ("as it is", &[], Taken),
            ("no spec", &[Edit::no("/spec")], Taken),
            ("an empty spec", &[Edit::set("/spec", json!({}))], Taken),
            ("another kernel", &[Edit::set("/spec/kernelType", "homemade")], Taken),
            (
                "images of any form",
                &[
                    Edit::set("/spec/osImageURL", "no image"),
                    Edit::set("/spec/baseOSExtensionsContainerImage", ""),
                ],
                Taken,
            ),
            ("a config that is a text", &[Edit::set("/spec/config", "{}")], Refused("spec.config")),
            (
                "a config that is a list",
                &[Edit::set("/spec/config", json!([]))],
                Refused("spec.config"),
            ),
            (
                "repeated words",
                &[
                    Edit::set("/spec/extensions", json!(["usbguard", "usbguard"])),
                    Edit::set("/spec/kernelArguments", json!(["a", "a"])),
                ],
                Taken,
            ),
            (
                "a null among the arguments",
                &[Edit::set("/spec/kernelArguments", json!(["a", null]))],
                Refused("spec.kernelArguments[1]"),
            ),
            (
                "a null among the extensions",
                &[Edit::set("/spec/extensions", json!([null]))],
                Refused("spec.extensions[0]"),
            ),
            (
                "arguments in one text",
                &[Edit::set("/spec/kernelArguments", "a b")],
                Refused("spec.kernelArguments"),
            ),
            ("a word for a truth", &[Edit::set("/spec/fips", "yes")], Refused("spec.fips")),
        ],
        |object| api.try_create(object),
    );
}

#[test]
fn machine_configs_lose_nulls_and_unknown_keys() {
    let api = Api::new();
    let sent = edited(
        &good(),
        &[
            Edit::null("/spec/kernelArguments"),
            Edit::null("/spec/extensions"),
            Edit::null("/spec/osImageURL"),
            Edit::set("/spec/config/mine", json!({"a": [1, null]})),
            Edit::set("/spec/mine", 1),
        ],
    );
    let want = json!({
        "config": {"ignition": {"version": "3.5.0"}, "mine": {"a": [1, null]}}, "kernelArguments": null,
    });
    assert_eq!(api.try_create(&sent).unwrap()["spec"], want);
}
