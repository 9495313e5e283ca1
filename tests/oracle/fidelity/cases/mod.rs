//! Configs for every rule of a direct build, grouped by subject.

use serde_json::{Value, json};

mod directories;
mod files;
mod hostile;
mod links;
mod undecided;
mod units;

pub use hostile::{hostile, hostile_base};
pub use undecided::undecided;

pub fn storage(storage: Value) -> Value {
    json!({ "ignition": { "version": "3.5.0" }, "storage": storage })
}

pub fn units(units: Value) -> Value {
    json!({ "ignition": { "version": "3.5.0" }, "systemd": { "units": units } })
}

pub fn files(files: Value) -> Value {
    storage(json!({ "files": files }))
}

pub const SERVICE: &str = "[Service]\nExecStart=/bin/true\n[Install]\nWantedBy=multi-user.target\n";

pub fn plain() -> Vec<(&'static str, Value)> {
    let mut cases = vec![
        ("nothing at all", json!({ "ignition": { "version": "3.5.0" } })),
        (
            "users, disks and kernel arguments",
            json!({
                "ignition": { "version": "3.5.0" }, "passwd": { "users": [{ "name": "core", "passwordHash": "x" }], "groups": [{ "name": "g" }] },
                "kernelArguments": { "shouldExist": ["quiet"] },
                "storage": { "disks": [{ "device": "/dev/vdb", "wipeTable": true }], "filesystems": [{ "device": "/dev/vdb", "path": "/mnt", "format": "xfs" }] },
            }),
        ),
    ];
    cases.extend(files::plain());
    cases.extend(directories::plain());
    cases.extend(links::plain());
    cases.extend(units::plain());
    for version in ["3.0.0", "3.1.0", "3.2.0", "3.3.0", "3.4.0", "3.5.0", "3.6.0"] {
        cases.push(("each version", json!({
            "ignition": { "version": version },
            "storage": {
                "files": [{ "path": "/etc/x", "mode": 0o4755, "contents": { "source": "data:,x" } }],
                "directories": [{ "path": "/etc/d", "mode": 0o2750 }], "links": [{ "path": "/etc/l", "target": "x" }],
            },
            "systemd": { "units": [{ "name": "a.service", "enabled": true, "contents": SERVICE }] },
        })));
    }
    cases.push((
        "special bits, where there is something already and where there is not",
        json!({
            "ignition": { "version": "3.6.0" },
            "storage": {
                "files": [
                    { "path": "/etc/setgid", "mode": 0o2755, "user": { "id": 5 }, "group": { "id": 6 }, "contents": { "source": "data:,x" } },
                ],
                "directories": [
                    { "path": "/etc/systemd", "mode": 0o2750, "group": { "id": 10 } },
                    { "path": "/etc/systemd/below" }, { "path": "/etc/sticky", "mode": 0o1777 },
                ],
            },
        }),
    ));
    cases
}
