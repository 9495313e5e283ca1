//! Who owns what in lists and maps, and how the kinds are shown.

use serde_json::{Value, json};

use super::api::{Api, files, object};
use super::os_builds::good;
use mosb_tests::node;

#[test]
fn lists_and_maps_are_merged_where_they_are_on_the_real_ones() {
    let api = Api::new();
    let spec = |arch: &str| {
        json!({
            "machineConfigPool": {"name": "crds-lists"}, "imageBuilder": {"imageBuilderType": "Job"},
            "renderedImagePushSecret": {"name": "push"}, "renderedImagePushSpec": "a.example/os:v",
            "containerFile": [{"containerfileArch": arch, "content": "RUN true"}],
        })
    };
    let os_config = |arch: &str| object("MachineOSConfig", "crds-lists", spec(arch));
    let pool = |label: &str, name: &str| {
        let selector = json!({"matchLabels": {label: ""}});
        let spec = json!({
            "nodeSelector": selector, "machineConfigSelector": selector, "configuration": {"name": name, "source": [{"name": label}]},
            "pinnedImageSets": [{"name": label}],
        });
        object("MachineConfigPool", "crds-lists", spec)
    };
    let config = |word: &str| {
        object(
            "MachineConfig",
            "crds-lists",
            json!({"extensions": [word], "kernelArguments": [word]}),
        )
    };
    // What two owners have in a place after both applied: only what is merged has two.
    let cases: &[(&str, Value, Value, &str, usize)] = &[
        ("Containerfiles", os_config("ARM64"), os_config("AMD64"), "/spec/containerFile", 2),
        ("image sets", pool("a", "one"), pool("b", "one"), "/spec/pinnedImageSets", 2),
        (
            "a selector of nodes",
            pool("a", "one"),
            pool("b", "one"),
            "/spec/nodeSelector/matchLabels",
            1,
        ),
        (
            "a selector of configs",
            pool("a", "one"),
            pool("b", "one"),
            "/spec/machineConfigSelector/matchLabels",
            1,
        ),
        (
            "a configuration's sources",
            pool("a", "one"),
            pool("b", "one"),
            "/spec/configuration/source",
            1,
        ),
        ("extensions", config("a"), config("b"), "/spec/extensions", 1),
        ("kernel arguments", config("a"), config("b"), "/spec/kernelArguments", 1),
    ];
    for (number, (what, first, second, place, want)) in cases.iter().enumerate() {
        let named = |object: &Value| super::named(object, &format!("crds-lists-{number}"));
        api.apply("first", &named(first)).unwrap();
        let made = api.apply("second", &named(second)).unwrap();
        let there = made.pointer(place).unwrap();
        let count = there.as_array().map_or_else(|| there.as_object().unwrap().len(), Vec::len);
        assert_eq!(count, *want, "{what}: {there}");
    }
}

#[test]
fn the_columns_and_short_names_are_the_real_ones() {
    for file in files() {
        node().apply(&std::fs::read_to_string(file).unwrap());
    }
    let real = "machineconfiguration.openshift.io";
    let cases = [
        ("mc", "MachineConfig", vec!["GeneratedByController", "IgnitionVersion", "Age"]),
        (
            "mcp",
            "MachineConfigPool",
            vec![
                "Config",
                "Updated",
                "Updating",
                "Degraded",
                "MachineCount",
                "ReadyMachineCount",
                "UpdatedMachineCount",
                "DegradedMachineCount",
                "Age",
            ],
        ),
        // The real one has none but the age; these tell the story.
        ("machineosconfigs", "MachineOSConfig", vec!["Build", "Image", "Age"]),
        (
            "machineosbuilds",
            "MachineOSBuild",
            vec![
                "Prepared",
                "Building",
                "Succeeded",
                "Interrupted",
                "Failed",
                "Pool",
                "Method",
                "Base",
                "Image",
                "Age",
            ],
        ),
    ];
    for (name, kind, want) in cases {
        let plural = format!("{}s", kind.to_lowercase());
        let crd = node().get(&format!("crd/{plural}.{real}"));
        assert_eq!(crd["spec"]["scope"], "Cluster", "{kind}");
        assert_eq!(crd["metadata"]["labels"]["openshift.io/operator-managed"], "", "{kind}");
        let columns = crd["spec"]["versions"][0]["additionalPrinterColumns"].as_array().unwrap();
        let columns: Vec<_> =
            columns.iter().map(|column| column["name"].as_str().unwrap()).collect();
        assert_eq!(columns, want, "{kind}");
        // The API server says of a schema that it could not use in this condition.
        let conditions = crd["status"]["conditions"].as_array().unwrap();
        assert!(
            conditions.iter().all(|one| one["type"] != "NonStructuralSchema"),
            "{kind}: {conditions:?}"
        );
        node().kubectl(&["get", name, "--ignore-not-found"]).ok();
    }
    let mut build = super::named(&good(), "crds-columns");
    let base = format!("quay.io/acme/base@sha256:{}", "0".repeat(64));
    build["metadata"]["labels"] = json!({ format!("{real}/target-machine-config-pool"): "a-pool" });
    build["metadata"]["annotations"] =
        json!({ "mosb.dev/method": "direct", "mosb.dev/base": base });
    node().install_kinds();
    node().apply(&build.to_string());
    let shown = node().kubectl(&["get", "machineosbuild", "crds-columns", "--output=wide"]);
    let shown = shown.ok().text();
    node().kubectl(&["delete", "machineosbuild", "crds-columns"]).ok();
    for value in ["a-pool", "direct", &base] {
        assert!(shown.split_whitespace().any(|word| word == value), "{value}: {shown}");
    }
}
