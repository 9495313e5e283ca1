//! What `merging.md` says of merging and translating, rule by rule, as far as the real ones do it so too.

use serde_json::{Value, json};

use super::generated2::VERSIONS;
use super::table::Case;

/// Every rule, those of spec 2 in each of its versions.
pub fn cases() -> Vec<Case> {
    let mut cases = Vec::new();
    for (what, configs) in of_merging() {
        let stated = configs
            .into_iter()
            .map(|config| with_version(config, "3.5.0"));
        cases.push((what.to_owned(), stated.collect()));
    }
    for (what, config) in of_translating() {
        for version in VERSIONS {
            let config = with_version(config.clone(), version);
            // Something to clear or to lose against.
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

fn of_merging() -> Vec<(&'static str, Vec<Value>)> {
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
            vec![
                gzip(),
                files(json!([{"path": "/f", "user": {"name": "core"}}])),
            ],
        ),
        (
            "parts to append leave compressed contents",
            vec![
                gzip(),
                files(json!([{"path": "/f", "append": [{"source": "data:,a"}]}])),
            ],
        ),
        (
            "compression alone is merged in",
            vec![
                file(),
                files(json!([{"path": "/f", "contents": {"compression": "gzip"}}])),
            ],
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
            vec![
                file(),
                files(json!([{"path": "/f", "contents": {"source": ""}}])),
            ],
        ),
        (
            "overwrite alone",
            vec![file(), files(json!([{"path": "/f", "overwrite": true}]))],
        ),
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
            vec![
                link(),
                json!({"storage": {"links": [{"path": "/f/a", "target": "/t"}]}}),
            ],
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
        (
            "a path that is not clean",
            vec![files(json!([{"path": "/etc//a"}]))],
        ),
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

/// What the configs of spec 2 are merged with.
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

fn of_translating() -> Vec<(&'static str, Value)> {
    let file = |mut file: Value| {
        file["filesystem"] = json!("root");
        file["path"] = json!("/f");
        files(json!([file]))
    };
    let unit = |mut unit: Value| {
        unit["name"] = json!("u.service");
        json!({"systemd": {"units": [unit]}})
    };
    let link = |hard| json!({"storage": {"links": [{"filesystem": "root", "path": "/l", "target": "/t", "hard": hard}]}});
    let hash = format!("sha512-{}", "a".repeat(128));
    vec![
        ("nothing", json!({})),
        ("a file without contents", file(json!({}))),
        ("a file with empty contents", file(json!({"contents": {}}))),
        (
            "a file with contents",
            file(
                json!({"mode": 420, "contents": {"source": "data:,a", "compression": "gzip", "verification": {"hash": hash}}}),
            ),
        ),
        (
            "a file that is remote",
            file(json!({"contents": {"source": "https://a/b"}})),
        ),
        (
            "a file from S3",
            file(json!({"contents": {"source": "s3://a/b"}})),
        ),
        (
            "a file from TFTP",
            file(json!({"contents": {"source": "tftp://a/b"}})),
        ),
        (
            "a file from elsewhere",
            file(json!({"contents": {"source": "ftp://a/b"}})),
        ),
        (
            "a data URL that is none",
            file(json!({"contents": {"source": "data:;base64,!"}})),
        ),
        (
            "a source with odd letters",
            file(json!({"contents": {"source": "data:,a%20b%zz"}})),
        ),
        (
            "an unknown compression",
            file(json!({"contents": {"compression": "xz"}})),
        ),
        ("a mode that is none", file(json!({"mode": 4096}))),
        ("a negative mode", file(json!({"mode": -1}))),
        ("setuid", file(json!({"mode": 0o4755}))),
        (
            "an append",
            file(json!({"append": true, "contents": {"source": "data:,a"}})),
        ),
        (
            "an append that overwrites",
            file(json!({"append": true, "overwrite": true, "contents": {"source": "data:,a"}})),
        ),
        ("an append without contents", file(json!({"append": true}))),
        (
            "overwriting",
            file(json!({"overwrite": true, "contents": {"source": "data:,a"}})),
        ),
        (
            "not overwriting",
            file(json!({"overwrite": false, "contents": {"source": "data:,a"}})),
        ),
        (
            "headers",
            file(
                json!({"contents": {"source": "http://a/b", "httpHeaders": [{"name": "a", "value": "b"}, {"name": "c", "value": ""}]}}),
            ),
        ),
        (
            "an owner by id",
            file(json!({"user": {"id": 5}, "group": {"id": 6}})),
        ),
        (
            "an owner by name",
            file(json!({"user": {"name": "core"}, "group": {"name": "core"}})),
        ),
        (
            "an owner by both",
            file(json!({"user": {"name": "core", "id": 5}})),
        ),
        (
            "an owner without a name",
            file(json!({"user": {"name": ""}})),
        ),
        (
            "a path that is not clean",
            files(json!([{"filesystem": "root", "path": "/x/../f//"}])),
        ),
        (
            "a path that is not absolute",
            files(json!([{"filesystem": "root", "path": "f"}])),
        ),
        (
            "the root as file",
            files(json!([{"filesystem": "root", "path": "/"}])),
        ),
        (
            "a file without a path",
            files(json!([{"filesystem": "root"}])),
        ),
        (
            "a file without a file system",
            files(json!([{"path": "/f"}])),
        ),
        (
            "a directory",
            json!({"storage": {"directories": [{"filesystem": "root", "path": "/d"}]}}),
        ),
        (
            "a directory with a mode",
            json!({"storage": {"directories": [{"filesystem": "root", "path": "/d", "mode": 448}]}}),
        ),
        ("a link", link(json!(false))),
        ("a hard link", link(json!(true))),
        (
            "a link without a target",
            json!({"storage": {"links": [{"filesystem": "root", "path": "/l"}]}}),
        ),
        (
            "a file below a link",
            json!({"storage": {
            "links": [{"filesystem": "root", "path": "/l", "target": "/t"}], "files": [{"filesystem": "root", "path": "/l/f", "mode": 0}]}}),
        ),
        ("unit: masked", unit(json!({"mask": true}))),
        ("unit: not masked", unit(json!({"mask": false}))),
        (
            "unit: enable",
            unit(json!({"enable": true, "contents": "[Install]\nWantedBy=a\n"})),
        ),
        ("unit: not enable", unit(json!({"enable": false}))),
        ("unit: enabled", unit(json!({"enabled": true}))),
        ("unit: not enabled", unit(json!({"enabled": false}))),
        (
            "unit: enable, not enabled",
            unit(json!({"enable": true, "enabled": false})),
        ),
        (
            "unit: not enable, enabled",
            unit(json!({"enable": false, "enabled": true})),
        ),
        ("unit: empty contents", unit(json!({"contents": ""}))),
        (
            "unit: contents that are none",
            unit(json!({"contents": "a"})),
        ),
        (
            "unit: an empty drop-in",
            unit(json!({"dropins": [{"name": "d.conf", "contents": ""}]})),
        ),
        (
            "unit: a drop-in that says nothing",
            unit(json!({"dropins": [{"name": "d.conf"}]})),
        ),
        (
            "unit: a drop-in with a bad name",
            unit(json!({"dropins": [{"name": "d"}]})),
        ),
        (
            "a unit with a bad name",
            json!({"systemd": {"units": [{"name": "u"}]}}),
        ),
        (
            "users",
            json!({"passwd": {"users": [{
            "name": "core", "uid": 0, "gecos": "", "homeDir": "", "noCreateHome": false, "primaryGroup": "", "groups": ["a", "b"], "noUserGroup": true,
            "noLogInit": true, "shell": "", "system": false, "passwordHash": "", "sshAuthorizedKeys": ["a", "b"]}]}}),
        ),
        (
            "groups",
            json!({"passwd": {"groups": [{"name": "g", "gid": 0, "passwordHash": "", "system": false}, {"name": "h", "gid": 5, "passwordHash": "x", "system": true}]}}),
        ),
        (
            "networkd",
            json!({"networkd": {"units": [{"name": "a.network", "contents": "[Match]\nName=a\n"}]}}),
        ),
        ("no networkd units", json!({"networkd": {"units": []}})),
        (
            "a disk",
            json!({"storage": {"disks": [{"device": "/disk", "wipeTable": false}]}}),
        ),
        (
            "a disk without a device",
            json!({"storage": {"disks": [{"wipeTable": false}]}}),
        ),
        (
            "raid",
            json!({"storage": {"raid": [{"name": "r", "level": "raid1", "devices": ["/a", "/b"], "spares": 0, "options": ["o"]}]}}),
        ),
        (
            "raid without devices",
            json!({"storage": {"raid": [{"name": "r", "level": "raid1", "devices": []}]}}),
        ),
        (
            "raid with spares that can't be",
            json!({"storage": {"raid": [{"name": "r", "level": "raid0", "devices": ["/a"], "spares": 1}]}}),
        ),
        (
            "raid of an unknown level",
            json!({"storage": {"raid": [{"name": "r", "level": "raid2", "devices": ["/a"]}]}}),
        ),
        (
            "a file system that says where root is",
            json!({"storage": {"filesystems": [{"name": "root", "path": "/sysroot"}]}}),
        ),
        (
            "a file system with both",
            json!({"storage": {"filesystems": [{"name": "data", "path": "/x", "mount": {"device": "/d", "format": "ext4"}}]}}),
        ),
        (
            "a file system with neither",
            json!({"storage": {"filesystems": [{"name": "data"}]}}),
        ),
        (
            "a file system to mount",
            json!({"storage": {"filesystems": [{"name": "data", "mount": {"device": "/d", "format": "ext4"}}]}}),
        ),
        (
            "proxies",
            json!({"ignition": {"proxy": {"httpProxy": "http://a", "httpsProxy": "", "noProxy": ["a", "b"]}}}),
        ),
        (
            "a proxy that is none",
            json!({"ignition": {"proxy": {"httpProxy": "ftp://a"}}}),
        ),
        (
            "timeouts",
            json!({"ignition": {"timeouts": {"httpTotal": 0, "httpResponseHeaders": 5}}}),
        ),
        (
            "an authority",
            json!({"ignition": {"security": {"tls": {"certificateAuthorities": [{"source": "data:,a", "verification": {"hash": hash}}]}}}}),
        ),
        (
            "an authority from elsewhere",
            json!({"ignition": {"security": {"tls": {"certificateAuthorities": [{"source": "ftp://a"}]}}}}),
        ),
        (
            "a config appended",
            json!({"ignition": {"config": {"append": [{"source": "http://a/b", "verification": {"hash": hash}}]}}}),
        ),
        (
            "a config that replaces",
            json!({"ignition": {"config": {"replace": {"source": "http://a/b"}}}}),
        ),
        (
            "unknown keys",
            json!({"colour": "red", "storage": {"files": [{"filesystem": "root", "path": "/f", "colour": "red"}]}}),
        ),
        (
            "null everywhere",
            json!({
            "ignition": {"config": null, "timeouts": null}, "passwd": {"users": null, "groups": null}, "systemd": null, "networkd": null,
            "storage": {"files": [{"filesystem": "root", "path": "/f", "mode": null, "contents": null, "user": null}], "disks": null}}),
        ),
        (
            "another spelling",
            json!({"storage": {"Files": [{"filesystem": "root", "Path": "/f", "MODE": 420}]}}),
        ),
        ("a text for a number", file(json!({"mode": "420"}))),
        ("a fraction", file(json!({"mode": 4.5}))),
        ("a list for an object", json!({"storage": []})),
        ("an object for a list", json!({"storage": {"files": {}}})),
        (
            "a number for a text",
            json!({"systemd": {"units": [{"name": 5}]}}),
        ),
        ("a text for a truth", unit(json!({"mask": "yes"}))),
        ("nothing in a list", json!({"storage": {"files": [null]}})),
    ]
}
