//! Configs for which something must be run on the base of [`hostile_base`](super::hostile_base).

use serde_json::{Value, json};

use super::{files, storage};

pub fn undecided() -> Vec<(&'static str, Value, Vec<&'static str>)> {
    vec![
        (
            "append",
            files(json!([{ "path": "/etc/plain", "append": [{ "source": "data:,x" }] }])),
            vec!["append-to-base"],
        ),
        (
            "mode",
            files(json!([{ "path": "/etc/plain", "mode": 0o600 }])),
            vec!["keeps-base-content"],
        ),
        ("the same mode", files(json!([{ "path": "/etc/plain", "mode": 0o644 }])), vec![]),
        (
            "append to a file that is too large",
            files(json!([{ "path": "/etc/more", "append": [{ "source": "data:,x" }] }])),
            vec!["append-to-base"],
        ),
        (
            "mode of a file that is too large",
            files(json!([{ "path": "/etc/more", "mode": 0o600 }])),
            vec!["keeps-base-content"],
        ),
        (
            "hard link to a file that is too large",
            storage(
                json!({ "links": [{ "path": "/etc/h", "target": "/etc/more", "hard": true }] }),
            ),
            vec!["hard-link-to-base"],
        ),
        (
            "append elsewhere",
            files(
                json!([{ "path": "/usr/lib/systemd/systemd", "append": [{ "source": "data:,x" }] }]),
            ),
            vec!["append-to-base"],
        ),
        (
            "hard link",
            storage(
                json!({ "links": [{ "path": "/etc/h", "target": "/etc/plain", "hard": true }] }),
            ),
            vec!["hard-link-to-base"],
        ),
        (
            "certificates",
            files(
                json!([{ "path": "/etc/pki/ca-trust/source/anchors/x.crt", "contents": { "source": "data:,x" } }]),
            ),
            vec!["ca-trust"],
        ),
    ]
}
