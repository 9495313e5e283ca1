//! The rendered configs for the measurements: 60 files of 200 KB in total, and a unit. Configs with
//! different numbers differ.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use mosb_api::RenderedConfig;
use serde_json::{Value, json};

use crate::content::{Content, Random};

const FILES: usize = 60;
const BYTES: usize = 200_000;

/// The object as the API returns it.
pub fn object(number: u64) -> Value {
    with(number, BYTES)
}

/// An object with this many tiny files: with 26,000, it has as many bytes as a rendered config can have.
pub fn of_files(number: u64, files: usize) -> Value {
    let file =
        |file: usize| json!({"path": format!("/etc/f/{file}"), "contents": {"source": "data:,x"}});
    let mut object = object(number);
    object["spec"]["config"]["storage"]["files"] = (0..files).map(file).collect();
    object
}

/// A config whose JSON has about this many bytes. Its paths set a lower bound.
pub fn sized(number: u64, bytes: usize) -> Value {
    with(number, bytes.saturating_sub(FILES * 150) * 3 / 4)
}

fn with(number: u64, bytes: usize) -> Value {
    let mut content = Content::new(number + 1);
    let files: Vec<_> = (0..FILES)
        .map(|file| {
            let bytes = STANDARD.encode(content.take(bytes / FILES));
            json!({
                "path": format!("/etc/{}/part-{file:02}.conf", DIRECTORIES[file % DIRECTORIES.len()]),
                "mode": 0o644,
                "overwrite": true,
                "contents": {"source": format!("data:;base64,{bytes}")},
            })
        })
        .collect();
    let mut random = Random::new(number);
    let (head, tail) = (random.next(), random.next());
    json!({
        "apiVersion": "machineconfiguration.openshift.io/v1",
        "kind": "MachineConfig",
        "metadata": {"name": format!("rendered-worker-{head:016x}{tail:016x}")},
        "spec": {"config": {
            "ignition": {"version": "3.5.0"},
            "storage": {"files": files},
            "systemd": {"units": [
                {"name": "unit-007.service", "enabled": true},
                {"name": "site.service", "enabled": true,
                 "contents": "[Service]\nExecStart=/usr/bin/true\n[Install]\nWantedBy=multi-user.target\n"},
            ]},
        }},
    })
}

/// The parsed config of this number.
pub fn rendered(number: u64) -> RenderedConfig {
    RenderedConfig::from_value(object(number)).unwrap()
}

const DIRECTORIES: [&str; 5] = [
    "kubernetes",
    "crio/crio.conf.d",
    "sysctl.d",
    "containers/registries.conf.d",
    "docker/certs.d/registry.example.com",
];
