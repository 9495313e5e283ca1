//! Files on a plain base.

use serde_json::{Value, json};

use super::files;

/// `printf 'hello
///
/// ' | gzip -n` and its digest.
const GZIP: &str = "data:;base64,H4sIAAAAAAAAA8tIzcnJ5wIAIDA6NgYAAAA=";

pub(super) fn plain() -> Vec<(&'static str, Value)> {
    vec![
        ("an empty file", files(json!([{ "path": "/etc/empty" }]))),
        ("an empty source", files(json!([{ "path": "/etc/empty", "contents": { "source": "" } }]))),
        (
            "a file with parents",
            files(json!([{ "path": "/etc/a/b/c", "contents": { "source": "data:,x" } }])),
        ),
        (
            "percent and plus",
            files(
                json!([{ "path": "/etc/x", "contents": { "source": "data:text/plain,a%20b+c%0A%25" } }]),
            ),
        ),
        (
            "base64",
            files(json!([{ "path": "/etc/x", "contents": { "source": "data:;base64,aGVsbG8K" } }])),
        ),
        (
            "gzip",
            files(
                json!([{ "path": "/etc/x", "contents": { "source": GZIP, "compression": "gzip" } }]),
            ),
        ),
        (
            "gzip with the hash of the uncompressed content",
            files(json!([{ "path": "/etc/x", "contents": {
                "source": GZIP, "compression": "gzip",
                "verification": { "hash": "sha256-5891b5b522d5df086d0ff0b110fbd9d21bb4fc7163af34d08286a2e846f6be03" },
            } }])),
        ),
        (
            "modes and owners",
            files(
                json!([{ "path": "/etc/x", "mode": 0o600, "user": { "id": 12 }, "group": { "id": 34 } }]),
            ),
        ),
        (
            "owners by name",
            files(
                json!([{ "path": "/etc/x", "user": { "name": "daemon" }, "group": { "name": "adm" } }]),
            ),
        ),
        (
            "an unknown user",
            files(json!([{ "path": "/etc/x", "user": { "name": "nobody-here" } }])),
        ),
        (
            "an unknown group",
            files(json!([{ "path": "/etc/x", "group": { "name": "nobody-here" } }])),
        ),
        (
            "a file of the base replaced",
            files(
                json!([{ "path": "/etc/debian_version", "overwrite": true, "contents": { "source": "data:,13" } }]),
            ),
        ),
        (
            "a file of the base in the way",
            files(json!([{ "path": "/etc/debian_version", "contents": { "source": "data:,13" } }])),
        ),
        (
            "a link of the base replaced",
            files(
                json!([{ "path": "/etc/os-release", "overwrite": true, "contents": { "source": "data:,x" } }]),
            ),
        ),
        (
            "a link of the base in the way",
            files(json!([{ "path": "/etc/os-release", "contents": { "source": "data:,x" } }])),
        ),
        (
            "through the base's links",
            files(json!([{ "path": "/bin/x", "mode": 0o755 }, { "path": "/lib/x/y" }])),
        ),
        (
            "through absolute links",
            files(json!([{ "path": "/var/run/x" }, { "path": "/var/lock/y" }])),
        ),
        ("a directory as file", files(json!([{ "path": "/etc/systemd", "overwrite": false }]))),
        (
            "a directory replaced by a file",
            files(
                json!([{ "path": "/etc/systemd/system", "overwrite": true, "contents": { "source": "data:,x" } }]),
            ),
        ),
        ("below a file", files(json!([{ "path": "/etc/debian_version/x" }]))),
        (
            "parts appended to a new file",
            files(
                json!([{ "path": "/etc/x", "append": [{ "source": "data:,a" }, { "source": "data:;base64,Yg==" }] }]),
            ),
        ),
        (
            "parts appended to new contents",
            files(
                json!([{ "path": "/etc/debian_version", "overwrite": true, "contents": { "source": "data:,a" }, "append": [{ "source": "data:,b" }] }]),
            ),
        ),
        (
            "parts appended to a file of the base",
            files(
                json!([{ "path": "/etc/debian_version", "append": [{ "source": "data:,a" }, { "source": GZIP, "compression": "gzip" }] }]),
            ),
        ),
        (
            "parts appended to a file of the base, and its mode and owner",
            files(
                json!([{ "path": "/etc/shadow", "mode": 0o600, "group": { "name": "adm" }, "append": [{ "source": "data:,x" }] }]),
            ),
        ),
        (
            "a file of the base that stays, with another mode",
            files(
                json!([{ "path": "/etc/debian_version", "overwrite": false, "mode": 0o600 }, { "path": "/etc/issue", "user": { "id": 7 } }]),
            ),
        ),
        ("two entries at one path", files(json!([{ "path": "/bin/x" }, { "path": "/usr/bin/x" }]))),
        (
            "a passwd of the config is asked for names",
            files(json!([
                { "path": "/etc/passwd", "overwrite": true, "contents": { "source": "data:,root:x:0:0::/:/bin/sh%0Aown:x:77:77::/:/bin/sh%0A" } },
                { "path": "/etc/deeper/x", "user": { "name": "own" } },
            ])),
        ),
        (
            "files of one depth in any order",
            files(json!([{ "path": "/etc/z" }, { "path": "/etc/a" }, { "path": "/b" }])),
        ),
        (
            "a long path",
            files(
                json!([{ "path": format!("/etc/{}/{}", "d".repeat(120), "f".repeat(200)), "contents": { "source": "data:,x" } }]),
            ),
        ),
        (
            "letters of all kinds",
            files(json!([{ "path": "/etc/ä ö/日本", "contents": { "source": "data:,x" } }])),
        ),
        ("a large owner", files(json!([{ "path": "/etc/x", "user": { "id": 4_000_000 } }]))),
    ]
}
