//! Directories on a plain base.

use serde_json::{Value, json};

use super::storage;

pub(super) fn plain() -> Vec<(&'static str, Value)> {
    vec![
        (
            "directories",
            storage(json!({ "directories": [
            { "path": "/etc/new/deep", "mode": 0o700, "user": { "id": 5 } }, { "path": "/etc/systemd", "mode": 0o711 }, { "path": "/srv" },
        ] })),
        ),
        (
            "a directory wiped",
            storage(
                json!({ "directories": [{ "path": "/etc/systemd", "overwrite": true, "mode": 0o750 }] }),
            ),
        ),
        (
            "a directory wiped and filled",
            storage(json!({
                "directories": [{ "path": "/etc/security", "overwrite": true }], "files": [{ "path": "/etc/security/limits.conf", "contents": { "source": "data:,x" } }],
            })),
        ),
        (
            "a directory wiped, and one that it held made anew",
            storage(json!({
                "directories": [{ "path": "/etc/systemd", "overwrite": true }], "files": [{ "path": "/etc/systemd/system/x" }],
            })),
        ),
        (
            "a directory wiped, and a file where it held one",
            storage(json!({
                "directories": [{ "path": "/etc/systemd", "overwrite": true }], "files": [{ "path": "/etc/systemd/system" }],
            })),
        ),
        (
            "a directory over a link",
            storage(json!({ "directories": [{ "path": "/bin", "overwrite": true }] })),
        ),
        (
            "a directory over a link, and a file through it",
            storage(json!({
                "directories": [{ "path": "/lib", "overwrite": true }], "files": [{ "path": "/lib/x" }],
            })),
        ),
        ("a directory where a link is", storage(json!({ "directories": [{ "path": "/bin" }] }))),
        (
            "the sticky bit of /tmp",
            storage(json!({ "directories": [{ "path": "/tmp", "mode": 0o777 }] })),
        ),
    ]
}
