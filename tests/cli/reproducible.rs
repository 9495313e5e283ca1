//! One config on one base always has the same digest, on every machine, for every user and at any
//! time.

use std::fs;

use serde_json::{Value, json};

use mosb_tests::Mosb;
use mosb_tests::build_fixture::{BuildFixture, config};

/// The digest of the image of [`config`] on the base. If it changes, every image changes, so
/// `plan::FORMAT` must increase too.
const DIGEST: &str = "sha256:34a00d885d4bc5d8cc98348a0215ab439fec2d14ecf08f3fc402389303bad07f";

fn digest(mosb: &Mosb, fixture: &BuildFixture, config: &str) -> Value {
    let target = format!("oci:{}", mosb.home().join("image").display());
    let base = fixture.reference();
    let arguments = ["build", "-", "--base", &base, "--output", &target, "-o", "json"];
    mosb.run_with(arguments, config.as_bytes()).ok().json()["digest"].clone()
}

#[test]
fn one_config_is_one_digest() {
    let fixture = BuildFixture::new();
    let plain = config();
    let mut served: Value = serde_json::from_str(&plain).unwrap();
    served["metadata"]["uid"] = json!("0b1a2c3d-0000-4000-8000-000000000000");
    served["metadata"]["resourceVersion"] = json!("4711");
    served["metadata"]["generation"] = json!(3);
    served["metadata"]["creationTimestamp"] = json!("2026-01-02T03:04:05Z");
    served["metadata"]["managedFields"] =
        json!([{ "manager": "kubectl", "operation": "Apply", "fieldsV1": { "f:spec": {} } }]);
    served["metadata"]["annotations"] =
        json!({ "kubectl.kubernetes.io/last-applied-configuration": "{}" });
    served["metadata"]["ownerReferences"] = json!([{
        "apiVersion": "machineconfiguration.openshift.io/v1", "kind": "MachineConfigPool", "name": "worker",
        "uid": "1b1a2c3d-0000-4000-8000-000000000000",
    }]);
    let served = served.to_string();
    let yaml = to_yaml(&serde_json::from_str(&served).unwrap(), 0);
    let elsewhere = |umask: &str, zone: &str, language: &str| {
        let shell = format!("umask {umask}; cd /; exec \"$@\"");
        Mosb::new()
            .within(["sh", "-euc", &shell, "sh"])
            .with("TZ", zone)
            .with("LANG", language)
            .with("LC_ALL", language)
            .with("USER", "somebody")
            .with("SOURCE_DATE_EPOCH", "1")
    };
    for (what, mosb, config) in [
        ("plainly", Mosb::new(), &plain),
        ("as the API serves it", Mosb::new(), &served),
        ("as YAML", Mosb::new(), &yaml),
        ("with a closed umask", elsewhere("077", "Pacific/Kiritimati", "tr_TR.UTF-8"), &plain),
        ("with an open umask", elsewhere("000", "America/Los_Angeles", "C"), &served),
        (
            "as nobody",
            Mosb::new().within(["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"]),
            &plain,
        ),
    ] {
        open_to_all(&fixture);
        open_to_all_of(&mosb);
        assert_eq!(digest(&mosb, &fixture, config), DIGEST, "{what}");
    }
    // The image contains the name of the base but not its location.
    let moved = BuildFixture::new();
    fs::rename(&moved.base.directory, moved.mosb.home().join("other")).unwrap();
    let base = format!("oci:{}:base", moved.mosb.home().join("other").display());
    let result = moved.build(plain.as_bytes(), &["--base", &base]).ok().json();
    assert_eq!(result["digest"], DIGEST);
    // A change of the config changes the digest.
    let other = digest(&Mosb::new(), &fixture, &plain.replace("swappiness%3D1", "swappiness%3D2"));
    assert_ne!(other, DIGEST);
}

/// Makes a home accessible to the other user of this test.
fn open_to_all(fixture: &BuildFixture) {
    open_to_all_of(&fixture.mosb);
}

fn open_to_all_of(mosb: &Mosb) {
    mosb_tests::run("chmod", ["-R", "a+rwX", mosb.home().to_str().unwrap()]);
}

/// YAML in a person's style instead of a library's.
fn to_yaml(value: &Value, depth: usize) -> String {
    let indent = "  ".repeat(depth);
    match value {
        Value::Object(fields) if !fields.is_empty() => {
            // The order of the keys differs from JSON's.
            let lines = fields
                .iter()
                .rev()
                .map(|(key, value)| format!("\n{indent}{key:?}: {}", to_yaml(value, depth + 1)));
            lines.collect()
        }
        Value::Array(items) if !items.is_empty() => {
            let lines =
                items.iter().map(|item| format!("\n{indent}- {}", to_yaml(item, depth + 1)));
            lines.collect()
        }
        other => other.to_string(),
    }
}
