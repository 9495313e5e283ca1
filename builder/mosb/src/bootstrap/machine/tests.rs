//! Ignition configs of new machines: included and omitted parts.

use serde_json::{Value, json};

use super::*;
use crate::bootstrap::{Cluster, ValidationOptions, check, tests::manifests};

fn rendered(config: &Value) -> RenderedConfig {
    RenderedConfig::from_value(json!({
        "apiVersion": "machineconfiguration.openshift.io/v1", "kind": "MachineConfig",
        "metadata": { "name": "rendered-worker-0123456789abcdef0123456789abcdef" },
        "spec": { "config": config, "kernelArguments": ["a=b quiet", "x"], "fips": true },
    }))
    .unwrap()
}

#[test]
fn only_what_no_image_holds_is_written() {
    let disks = json!([{ "device": "/dev/vdb", "wipeTable": true }]);
    let users = json!([{ "name": "core", "sshAuthorizedKeys": ["key"] }]);
    let from = json!({
        "ignition": { "version": "3.5.0", "timeouts": { "httpTotal": 1 } },
        "kernelArguments": { "shouldExist": ["x"], "shouldNotExist": ["y"] },
        "passwd": { "users": users, "groups": [] },
        "storage": {
            "disks": disks, "links": [{ "path": "/etc/l", "target": "x" }],
            "files": [{ "path": "/etc/a" }, { "path": "/var/lib/b" }, { "path": "/opt/c" }, { "path": "/variant/d" }],
        },
        "systemd": { "units": [{ "name": "a.service", "enabled": true }] },
    });
    let made = config(&rendered(&from), &pull_files()).unwrap();
    assert_eq!(made["ignition"], json!({ "version": "3.5.0" }));
    assert_eq!(made["passwd"], json!({ "users": users }));
    assert_eq!(made["storage"]["disks"], disks);
    assert_eq!(
        made["kernelArguments"],
        json!({ "shouldExist": ["x", "a=b", "quiet"], "shouldNotExist": ["y"] })
    );
    assert!(made["storage"].get("links").is_none());
    let units = made["systemd"]["units"].as_array().unwrap();
    assert_eq!((units.len(), &units[0]["name"]), (1, &json!(UNIT)));
    // Enabling it by Ignition would write a file that images have.
    assert!(units[0].get("enabled").is_none());
    for file in made["storage"]["files"].as_array().unwrap() {
        let path = file["path"].as_str().unwrap();
        let known = [ENCAPSULATED, PRESET].contains(&path) || path.starts_with(FIRST_BOOT);
        assert!(known, "{path}");
    }
    let codes: Vec<String> = left_out(&rendered(&from)).into_iter().map(|it| it.code).collect();
    assert_eq!(codes, ["var-at-installation", "fips"]);
}

/// A pool's machines with logins for a registry, a mirror and others.
fn pull_files() -> PullFiles {
    let text = include_bytes!("../../../../../testdata/bootstrap/three-pools/manifests.yaml");
    let objects =
        mosb_plan::api::yaml::parse_all(text, mosb_plan::api::yaml::Limits::LIST).unwrap();
    let options =
        ValidationOptions { cluster: Cluster::Kubernetes, pull_secret: None, registries: true };
    let checked = check(&manifests(&objects), &options).unwrap();
    PullFiles::new(&checked.seeds[1], &checked.settings)
}

#[test]
fn machines_get_the_logins_and_authorities_that_their_image_needs() {
    let files = pull_files().files();
    let names: Vec<&str> = files.iter().map(|file| &*file.name).collect();
    let want = [
        "auth.json",
        "containers/certs.d/mirror.example.net/ca.crt",
        "containers/certs.d/registry.example.com:5000/ca.crt",
        "containers/registries.conf",
        "environment",
        "image",
        "rebase",
    ];
    assert_eq!(names, want);
    let text = |name: &str| {
        let file = files.iter().find(|file| file.name == name).unwrap();
        String::from_utf8(file.bytes.clone()).unwrap()
    };
    let logins: Value = serde_json::from_str(&text("auth.json")).unwrap();
    let hosts: Vec<&String> = logins["auths"].as_object().unwrap().keys().collect();
    assert_eq!(hosts, ["mirror.example.net/acme", "registry.example.com:5000"]);
    assert_eq!(text(want[2]).matches("BEGIN CERTIFICATE").count(), 2);
    assert!(text("environment").contains("\nhttps_proxy=\"http://proxy.example.com:3128\"\n"));
    assert!(text("environment").starts_with("HOME=/run/mosb\n"));
}
