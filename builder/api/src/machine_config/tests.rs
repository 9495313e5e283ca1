use super::*;

fn object() -> Value {
    json!({
        "apiVersion": API_VERSION, "kind": "MachineConfig",
        "metadata": {
            "name": "rendered-worker-0123456789abcdef0123456789abcdef",
            "annotations": { labels::RELEASE_IMAGE_VERSION: "4.20.0", "other": "x" },
        },
        "spec": { "osImageURL": "quay.io/a/b@sha256:00", "kernelArguments": null, "extensions": [], "fips": false,
                  "kernelType": "", "config": { "ignition": { "version": "3.5.0" } } },
    })
}

#[test]
fn server_metadata_is_not_part_of_the_config() {
    let plain = RenderedConfig::from_value(object()).unwrap();
    let mut served = object();
    served["metadata"]["uid"] = json!("3c0e");
    served["metadata"]["resourceVersion"] = json!("12");
    served["metadata"]["managedFields"] = json!([{ "manager": "x" }]);
    served["metadata"]["creationTimestamp"] = json!("2024-01-01T00:00:00Z");
    served["metadata"]["annotations"]["other"] = json!("y");
    served["metadata"]["labels"] = Value::Null;
    assert_eq!(
        RenderedConfig::from_value(served).unwrap().current_config(),
        plain.current_config()
    );
    assert_eq!(plain.pool().as_str(), "worker");
    assert_eq!(plain.release_version(), Some("4.20.0"));
    assert_eq!(plain.kernel_type, KernelType::Default);
}

#[test]
fn the_pool_is_the_owners_else_the_names() {
    let mut owned = object();
    owned["metadata"]["ownerReferences"] =
        json!([{ "kind": "MachineConfigPool", "name": "infra" }]);
    assert_eq!(RenderedConfig::from_value(owned).unwrap().pool().as_str(), "infra");
}

#[test]
fn errors_name_the_invalid_field() {
    type Change = fn(&mut Value);
    for (what, change, want) in [
        ("other kind", (|o| o["kind"] = json!("Pod")) as Change, "it is of kind \"Pod\""),
        (
            "Ignition",
            |o| *o = json!({ "ignition": { "version": "3.4.0" } }),
            "it is an Ignition config; put it into spec.config of a MachineConfig",
        ),
        (
            "Butane",
            |o| *o = json!({ "variant": "fcos", "version": "1.5.0" }),
            "it is a Butane config; translate it with `butane --strict`, and put",
        ),
        (
            "Butane of OpenShift",
            |o| *o = json!({ "variant": "openshift", "version": "4.20.0", "metadata": {} }),
            "`butane --strict`, which makes a MachineConfig",
        ),
        (
            "unrendered",
            |o| o["metadata"]["name"] = json!("99-worker"),
            "metadata.name \"99-worker\" is not rendered",
        ),
        (
            "newline",
            |o| o["metadata"]["name"] = json!("rendered-a\nb-0123456789abcdef0123456789abcdef"),
            "is not rendered",
        ),
        (
            "kernel type",
            |o| o["spec"]["kernelType"] = json!("fast"),
            "spec.kernelType: \"fast\" is none of",
        ),
        ("list", |o| o["spec"]["extensions"] = json!("usbguard"), "spec.extensions: want a list"),
        ("number", |o| o["spec"]["osImageURL"] = json!(1), "spec.osImageURL: want a text"),
        ("fips", |o| o["spec"]["fips"] = json!("yes"), "spec.fips: want true or false"),
        ("spec", |o| o["spec"] = json!([]), "not a MachineConfig"),
        (
            "large",
            |o| o["spec"]["config"]["x"] = json!("x".repeat(RENDERED_LIMIT)),
            "bytes of JSON",
        ),
    ] {
        let mut object = object();
        change(&mut object);
        let error = RenderedConfig::from_value(object).unwrap_err().to_string();
        assert!(error.contains(want), "{what}: {error}");
    }
    assert!(matches!(
        RenderedConfig::from_value(json!("x")),
        Err(RenderedConfigError::Kind { .. })
    ));
}
