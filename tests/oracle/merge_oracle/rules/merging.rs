//! Merges of configs of spec 3.

use serde_json::{Value, json};

use super::files;

pub fn cases() -> Vec<(&'static str, Vec<Value>)> {
    let gzip = || {
        files(
            json!([{"path": "/f", "mode": 5, "contents": {"source": "data:;base64,H4sI", "compression": "gzip"}}]),
        )
    };
    let file = || {
        files(
            json!([{"path": "/f", "mode": 5, "user": {"id": 5}, "contents": {"source": "data:,a"}}]),
        )
    };
    let directory = || json!({"storage": {"directories": [{"path": "/f", "mode": 7}]}});
    let link = || json!({"storage": {"links": [{"path": "/f", "target": "/t"}]}});
    let unit = |unit| json!({"systemd": {"units": [unit]}});
    vec![
        (
            "a mode leaves compressed contents",
            vec![gzip(), files(json!([{"path": "/f", "mode": 6}]))],
        ),
        (
            "an owner leaves compressed contents",
            vec![gzip(), files(json!([{"path": "/f", "user": {"name": "core"}}]))],
        ),
        (
            "parts to append leave compressed contents",
            vec![gzip(), files(json!([{"path": "/f", "append": [{"source": "data:,a"}]}]))],
        ),
        (
            "compression alone is merged in",
            vec![file(), files(json!([{"path": "/f", "contents": {"compression": "gzip"}}]))],
        ),
        (
            "a hash alone is merged in",
            vec![
                file(),
                files(
                    json!([{"path": "/f", "contents": {"verification": {"hash": format!("sha256-{}", "a".repeat(64))}}}]),
                ),
            ],
        ),
        (
            "contents without a source after those with",
            vec![gzip(), files(json!([{"path": "/f", "contents": {}}]))],
        ),
        (
            "an empty source empties",
            vec![file(), files(json!([{"path": "/f", "contents": {"source": ""}}]))],
        ),
        ("overwrite alone", vec![file(), files(json!([{"path": "/f", "overwrite": true}]))]),
        (
            "not overwriting wins when said later",
            vec![
                files(
                    json!([{"path": "/f", "overwrite": true, "contents": {"source": "data:,a"}}]),
                ),
                files(json!([{"path": "/f", "overwrite": false}])),
            ],
        ),
        (
            "overwriting without contents is refused",
            vec![files(json!([{"path": "/f", "overwrite": true}]))],
        ),
        ("a directory replaces a file", vec![file(), directory()]),
        ("a file replaces a directory", vec![directory(), file()]),
        ("a link replaces a file", vec![file(), link()]),
        ("a link replaces a directory", vec![directory(), link()]),
        ("a directory replaces a link", vec![link(), directory()]),
        (
            "a file keeps nothing of the one before the directory",
            vec![file(), directory(), files(json!([{"path": "/f"}]))],
        ),
        (
            "a directory between links",
            vec![
                link(),
                directory(),
                json!({"storage": {"links": [{"path": "/f", "target": "/u"}]}}),
            ],
        ),
        (
            "order among files when one is replaced and comes back",
            vec![
                files(json!([{"path": "/a"}, {"path": "/f"}, {"path": "/z"}])),
                directory(),
                files(json!([{"path": "/b"}, {"path": "/f"}])),
            ],
        ),
        (
            "an argument wanted and then not",
            vec![
                json!({"kernelArguments": {"shouldExist": ["a", "b"]}}),
                json!({"kernelArguments": {"shouldNotExist": ["a"]}}),
            ],
        ),
        (
            "an argument not wanted and then wanted",
            vec![
                json!({"kernelArguments": {"shouldNotExist": ["a", "b"]}}),
                json!({"kernelArguments": {"shouldExist": ["b", "c"]}}),
                json!({"kernelArguments": {"shouldNotExist": ["c"]}}),
            ],
        ),
        (
            "empty unit contents override",
            vec![
                unit(json!({"name": "a.service", "contents": "[Unit]\n"})),
                unit(json!({"name": "a.service", "contents": ""})),
            ],
        ),
        (
            "unsaid unit contents don't",
            vec![
                unit(
                    json!({"name": "a.service", "contents": "[Unit]\n", "enabled": true, "mask": true}),
                ),
                unit(json!({"name": "a.service", "enabled": false, "mask": false})),
            ],
        ),
        (
            "an empty drop-in overrides",
            vec![
                unit(
                    json!({"name": "a.service", "dropins": [{"name": "a.conf", "contents": "[Unit]\n"}]}),
                ),
                unit(
                    json!({"name": "a.service", "dropins": [{"name": "a.conf", "contents": ""}, {"name": "b.conf", "contents": ""}]}),
                ),
            ],
        ),
        (
            "a drop-in that says nothing",
            vec![
                unit(
                    json!({"name": "a.service", "dropins": [{"name": "a.conf", "contents": "[Unit]\n"}]}),
                ),
                unit(json!({"name": "a.service", "dropins": [{"name": "a.conf"}]})),
            ],
        ),
        (
            "a partition by number, renamed",
            vec![
                json!({"storage": {"disks": [{"device": "/d", "partitions": [{"number": 1, "label": "a"}, {"number": 0, "label": "b"}]}]}}),
                json!({"storage": {"disks": [{"device": "/d", "partitions": [{"number": 1, "label": "c"}, {"label": "b", "sizeMiB": 5}]}]}}),
            ],
        ),
        (
            "a partition by number against one by its label",
            vec![
                json!({"storage": {"disks": [{"device": "/d", "partitions": [{"number": 1, "label": "a"}]}]}}),
                json!({"storage": {"disks": [{"device": "/d", "partitions": [{"label": "a"}]}]}}),
            ],
        ),
        (
            "invalid when merged: a path below a link",
            vec![link(), files(json!([{"path": "/f/a"}]))],
        ),
        (
            "invalid when merged: a link below a link",
            vec![link(), json!({"storage": {"links": [{"path": "/f/a", "target": "/t"}]}})],
        ),
        (
            "invalid when merged: a file against a unit",
            vec![
                unit(json!({"name": "a.service", "contents": "[Unit]\n"})),
                files(
                    json!([{"path": "/etc/systemd/system/a.service", "contents": {"source": "data:,a"}}]),
                ),
            ],
        ),
        (
            "invalid when merged: a file against a drop-in",
            vec![
                files(
                    json!([{"path": "/etc/systemd/system/a.service.d/b.conf", "contents": {"source": "data:,a"}}]),
                ),
                unit(
                    json!({"name": "a.service", "dropins": [{"name": "b.conf", "contents": "[Unit]\n"}]}),
                ),
            ],
        ),
        (
            "invalid when merged: a hard link to a directory",
            vec![
                directory(),
                json!({"storage": {"links": [{"path": "/l", "target": "/f", "hard": true}]}}),
            ],
        ),
        (
            "invalid when merged: an owner by id and name",
            vec![
                files(json!([{"path": "/f", "user": {"id": 5}, "group": {"name": "core"}}])),
                files(json!([{"path": "/f", "user": {"name": "core"}, "group": {"id": 5}}])),
            ],
        ),
        (
            "invalid when merged: labels of partitions",
            vec![
                json!({"storage": {"disks": [{"device": "/d", "partitions": [{"number": 1, "label": "a"}, {"number": 2, "label": "b"}]}]}}),
                json!({"storage": {"disks": [{"device": "/d", "partitions": [{"number": 2, "label": "a"}]}]}}),
            ],
        ),
        (
            "invalid when merged: partitions overlap",
            vec![
                json!({"storage": {"disks": [{"device": "/d", "partitions": [{"number": 1, "startMiB": 1, "sizeMiB": 10}]}]}}),
                json!({"storage": {"disks": [{"device": "/d", "partitions": [{"number": 2, "startMiB": 5, "sizeMiB": 10}]}]}}),
            ],
        ),
        (
            "invalid when merged: clevis in two ways",
            vec![
                json!({"storage": {"luks": [{"name": "l", "device": "/d", "clevis": {"tpm2": true}}]}}),
                json!({"storage": {"luks": [{"name": "l", "device": "/d", "clevis": {"custom": {"pin": "sss", "config": "c"}}}]}}),
            ],
        ),
        (
            "a reference and one that replaces",
            vec![
                json!({"ignition": {"config": {"merge": [{"source": "http://a/a"}, {"source": "http://a/b"}]}}}),
                json!({"ignition": {"config": {"merge": [{"source": "http://a/b"}, {"source": "http://a/a"}], "replace": {"source": "http://a/c"}}}}),
            ],
        ),
        (
            "unknown keys",
            vec![
                files(json!([{"path": "/f", "colour": "red"}])),
                json!({"storage": {"shelves": []}}),
            ],
        ),
        ("a path that is not clean", vec![files(json!([{"path": "/etc//a"}]))]),
        (
            "setuid, setgid and sticky",
            vec![
                files(json!([{"path": "/f", "mode": 0o6755}])),
                json!({"storage": {"directories": [{"path": "/d", "mode": 0o1777}]}}),
            ],
        ),
        (
            "null everywhere",
            vec![
                json!({"ignition": {"config": null, "proxy": {"noProxy": null}}, "passwd": {"users": null}, "storage": {"files": [{"path": "/f", "mode": null, "contents": null, "user": null}]}, "systemd": null}),
                file(),
            ],
        ),
        (
            "zero is said",
            vec![
                json!({"ignition": {"timeouts": {"httpTotal": 5}}, "passwd": {"users": [{"name": "a", "uid": 5}]}}),
                json!({"ignition": {"timeouts": {"httpTotal": 0}}, "passwd": {"users": [{"name": "a", "uid": 0}]}}),
            ],
        ),
        ("nothing, twice", vec![json!({}), json!({})]),
    ]
}
