//! Configs for the paths and units in which the second base differs from the first one.

use serde_json::{Value, json};

use super::cases::{SERVICE, files, storage, units};

pub fn updated() -> Vec<(&'static str, Value)> {
    let x = json!({ "source": "data:,x" });
    let written = |path: &str| files(json!([{ "path": path, "overwrite": true, "contents": x }]));
    let appended = |path: &str| files(json!([{ "path": path, "append": [x] }]));
    let left = |path: &str| files(json!([{ "path": path, "overwrite": false, "mode": 0o600 }]));
    let link = |path: &str, overwrite: bool| {
        storage(json!({ "links": [{ "path": path, "target": "x", "overwrite": overwrite }] }))
    };
    vec![
        ("a default, replaced", written("/etc/host.conf")),
        ("a default, appended to", appended("/etc/xattr.conf")),
        ("a default, with another mode", left("/etc/gai.conf")),
        ("a file that is a directory, replaced", written("/etc/issue.net")),
        ("a file that is a directory, appended to", appended("/etc/issue.net")),
        ("below a file that is a directory", written("/etc/issue.net/x")),
        ("a file in place of what is there", written("/etc/issue.net/10-second")),
        ("a link in place of a file that is a directory", link("/etc/issue.net", true)),
        ("below a directory that is a link", written("/etc/update-motd.d/x")),
        ("a file below a directory that is a link", appended("/etc/update-motd.d/10-uname")),
        (
            "a directory that is a link",
            storage(json!({ "directories": [{ "path": "/etc/update-motd.d", "mode": 0o700 }] })),
        ),
        ("a link that is a file, replaced", written("/etc/rmt")),
        ("a link that is a file, appended to", appended("/etc/rmt")),
        ("a link in place of one that is a file", link("/etc/rmt", false)),
        ("a file that was removed, appended to", appended("/etc/bindresvport.blacklist")),
        (
            "a hard link to a file that was removed",
            storage(json!({ "links": [
            { "path": "/etc/hard", "target": "/etc/bindresvport.blacklist", "hard": true },
        ] })),
        ),
        ("a file that is new, replaced", written("/etc/second.conf")),
        ("a file that is new, left", left("/etc/second.conf")),
        (
            "a user that is new",
            files(json!([
                { "path": "/etc/x", "user": { "name": "second" }, "group": { "name": "second" } },
            ])),
        ),
        (
            "below links that lead elsewhere",
            files(json!([
                { "path": "/usr/local/bin/x", "mode": 0o755 }, { "path": "/opt/x/y" },
            ])),
        ),
        (
            "a unit whose preset is turned over",
            units(json!([
                { "name": "systemd-networkd.service", "enabled": true },
            ])),
        ),
        (
            "units that are enabled by the first base only",
            units(json!([
                { "name": "systemd-pstore.service", "enabled": true },
                { "name": "x.service", "enabled": true, "contents": SERVICE },
            ])),
        ),
        (
            "a unit that is enabled by the first base only, disabled",
            units(json!([
                { "name": "systemd-pstore.service", "enabled": false },
            ])),
        ),
    ]
}

/// Most of it in one config, as one that meets another base has it.
pub fn updates() -> (&'static str, Value) {
    let x = json!({ "source": "data:,x" });
    let config = json!({
        "ignition": { "version": "3.5.0" },
        "storage": {
            "files": [
                { "path": "/etc/host.conf", "overwrite": true, "contents": x },
                { "path": "/etc/xattr.conf", "append": [x] },
                { "path": "/etc/rmt", "overwrite": true, "contents": x },
                { "path": "/etc/issue.net/x", "contents": x, "user": { "name": "second" } },
                { "path": "/etc/update-motd.d/x", "contents": x },
                { "path": "/etc/bindresvport.blacklist", "append": [x] },
                { "path": "/usr/local/bin/x", "mode": 0o755, "contents": x },
                { "path": "/opt/x/y", "contents": x },
            ],
        },
        "systemd": { "units": [
            { "name": "systemd-networkd.service", "enabled": true },
            { "name": "systemd-pstore.service", "enabled": true },
        ] },
    });
    ("an update of a base", config)
}
