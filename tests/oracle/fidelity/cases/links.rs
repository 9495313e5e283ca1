//! Links on a plain base, hard ones too.

use serde_json::{Value, json};

use super::storage;

pub(super) fn plain() -> Vec<(&'static str, Value)> {
    vec![
        (
            "hard links to files of the base",
            storage(json!({ "links": [
                { "path": "/etc/hard/er", "target": "/etc/debian_version", "hard": true },
                { "path": "/usr/lib/hardest", "target": "/etc/hard/er", "hard": true },
                { "path": "/etc/locked", "target": "etc/shadow", "hard": true },
            ] })),
        ),
        (
            "a hard link to a link of the base",
            storage(
                json!({ "links": [{ "path": "/etc/release", "target": "/etc/os-release", "hard": true }] }),
            ),
        ),
        (
            "a hard link in the way",
            storage(
                json!({ "links": [{ "path": "/etc/issue", "target": "/etc/debian_version", "overwrite": true, "hard": true }] }),
            ),
        ),
        (
            "links",
            storage(json!({ "links": [
            { "path": "/etc/soft", "target": "../nowhere" }, { "path": "/etc/abs", "target": "/etc/passwd" }, { "path": "/etc/deep/er", "target": "x" },
            { "path": "/etc/owned", "target": "x", "user": { "id": 7 }, "group": { "name": "adm" } },
        ] })),
        ),
        (
            "a link that is there already",
            storage(json!({ "links": [{ "path": "/bin", "target": "usr/bin" }] })),
        ),
        (
            "another link in the way",
            storage(json!({ "links": [{ "path": "/bin", "target": "usr/sbin" }] })),
        ),
        (
            "a link replaced",
            storage(
                json!({ "links": [{ "path": "/etc/os-release", "target": "x", "overwrite": true }] }),
            ),
        ),
        (
            "a link over a directory",
            storage(
                json!({ "links": [{ "path": "/etc/systemd", "target": "x", "overwrite": true }] }),
            ),
        ),
        (
            "a link whose target is somebody's",
            storage(json!({
                "files": [{ "path": "/etc/t", "user": { "id": 9 }, "group": { "id": 8 } }], "links": [{ "path": "/etc/deep/l", "target": "/etc/t" }],
            })),
        ),
        (
            "hard links",
            storage(json!({
                "files": [{ "path": "/etc/deep/er/x", "mode": 0o640, "contents": { "source": "data:,x" } }],
                "links": [{ "path": "/etc/a", "target": "/etc/deep/er/x", "hard": true }, { "path": "/etc/z", "target": "etc/a", "hard": true }],
            })),
        ),
        (
            "a hard link to nothing",
            storage(
                json!({ "links": [{ "path": "/etc/a", "target": "/etc/none", "hard": true }] }),
            ),
        ),
        (
            "a hard link to a directory",
            storage(
                json!({ "links": [{ "path": "/etc/a", "target": "/etc/systemd", "hard": true }] }),
            ),
        ),
        (
            "a hard link to a link of the config",
            storage(json!({
                "links": [{ "path": "/etc/l", "target": "x" }, { "path": "/etc/a", "target": "/etc/l", "hard": true }],
            })),
        ),
    ]
}
