//! The individual rules of merging and translation that mosb shares with Ignition.

use serde_json::{Value, json};

use super::generated2::VERSIONS;
use super::table::Case;

mod merging;
mod translating;

/// Every rule; those of spec 2 in each of its versions.
pub fn cases() -> Vec<Case> {
    let mut cases = Vec::new();
    for (what, configs) in merging::cases() {
        let stated = configs.into_iter().map(|config| with_version(config, "3.5.0"));
        cases.push((what.to_owned(), stated.collect()));
    }
    for (what, config) in translating::cases() {
        for version in VERSIONS {
            let config = with_version(config.clone(), version);
            // A config with values that the other one clears or overrides.
            let earlier = earlier();
            let configs = vec![config.clone()];
            cases.push((format!("{what}, {version}"), configs));
            let configs = vec![earlier.clone(), config.clone()];
            cases.push((format!("{what}, {version}, later"), configs));
            cases.push((format!("{what}, {version}, first"), vec![config, earlier]));
        }
    }
    cases
}

fn with_version(mut config: Value, version: &str) -> Value {
    config["ignition"]["version"] = json!(version);
    config
}

fn files(files: Value) -> Value {
    json!({"storage": {"files": files}})
}
/// The config that configs of spec 2 are merged with.
fn earlier() -> Value {
    json!({
        "ignition": {"version": "3.2.0"},
        "passwd": {"users": [{"name": "core", "gecos": "g", "homeDir": "/h", "noCreateHome": true, "shell": "/s", "system": true, "sshAuthorizedKeys": ["z", "a"]}]},
        "storage": {
            "files": [{"path": "/f", "mode": 420, "overwrite": true, "user": {"id": 7}, "contents": {"source": "data:,earlier"}}],
            "directories": [{"path": "/d", "mode": 493}],
            "links": [{"path": "/l", "target": "/earlier", "hard": true}],
            "disks": [{"device": "/disk", "wipeTable": true}],
        },
        "systemd": {"units": [{"name": "u.service", "enabled": true, "mask": true, "contents": "[Unit]\nA=earlier\n", "dropins": [{"name": "d.conf", "contents": "[Unit]\nA=earlier\n"}]}]},
    })
}
