//! Configs of spec 2 in all its versions.

use serde_json::{Value, json};

use super::files;

pub fn cases() -> Vec<(&'static str, Value)> {
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
        ("a file that is remote", file(json!({"contents": {"source": "https://a/b"}}))),
        ("a file from S3", file(json!({"contents": {"source": "s3://a/b"}}))),
        ("a file from TFTP", file(json!({"contents": {"source": "tftp://a/b"}}))),
        ("a file from elsewhere", file(json!({"contents": {"source": "ftp://a/b"}}))),
        ("a data URL that is none", file(json!({"contents": {"source": "data:;base64,!"}}))),
        ("a source with odd letters", file(json!({"contents": {"source": "data:,a%20b%zz"}}))),
        ("an unknown compression", file(json!({"contents": {"compression": "xz"}}))),
        ("a mode that is none", file(json!({"mode": 4096}))),
        ("a negative mode", file(json!({"mode": -1}))),
        ("setuid", file(json!({"mode": 0o4755}))),
        ("an append", file(json!({"append": true, "contents": {"source": "data:,a"}}))),
        (
            "an append that overwrites",
            file(json!({"append": true, "overwrite": true, "contents": {"source": "data:,a"}})),
        ),
        ("an append without contents", file(json!({"append": true}))),
        ("overwriting", file(json!({"overwrite": true, "contents": {"source": "data:,a"}}))),
        ("not overwriting", file(json!({"overwrite": false, "contents": {"source": "data:,a"}}))),
        (
            "headers",
            file(
                json!({"contents": {"source": "http://a/b", "httpHeaders": [{"name": "a", "value": "b"}, {"name": "c", "value": ""}]}}),
            ),
        ),
        ("an owner by id", file(json!({"user": {"id": 5}, "group": {"id": 6}}))),
        ("an owner by name", file(json!({"user": {"name": "core"}, "group": {"name": "core"}}))),
        ("an owner by both", file(json!({"user": {"name": "core", "id": 5}}))),
        ("an owner without a name", file(json!({"user": {"name": ""}}))),
        ("a path that is not clean", files(json!([{"filesystem": "root", "path": "/x/../f//"}]))),
        ("a path that is not absolute", files(json!([{"filesystem": "root", "path": "f"}]))),
        ("the root as file", files(json!([{"filesystem": "root", "path": "/"}]))),
        ("a file without a path", files(json!([{"filesystem": "root"}]))),
        ("a file without a file system", files(json!([{"path": "/f"}]))),
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
        ("unit: enable", unit(json!({"enable": true, "contents": "[Install]\nWantedBy=a\n"}))),
        ("unit: not enable", unit(json!({"enable": false}))),
        ("unit: enabled", unit(json!({"enabled": true}))),
        ("unit: not enabled", unit(json!({"enabled": false}))),
        ("unit: enable, not enabled", unit(json!({"enable": true, "enabled": false}))),
        ("unit: not enable, enabled", unit(json!({"enable": false, "enabled": true}))),
        ("unit: empty contents", unit(json!({"contents": ""}))),
        ("unit: contents that are none", unit(json!({"contents": "a"}))),
        ("unit: an empty drop-in", unit(json!({"dropins": [{"name": "d.conf", "contents": ""}]}))),
        ("unit: a drop-in that says nothing", unit(json!({"dropins": [{"name": "d.conf"}]}))),
        ("unit: a drop-in with a bad name", unit(json!({"dropins": [{"name": "d"}]}))),
        ("a unit with a bad name", json!({"systemd": {"units": [{"name": "u"}]}})),
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
        ("a disk", json!({"storage": {"disks": [{"device": "/disk", "wipeTable": false}]}})),
        ("a disk without a device", json!({"storage": {"disks": [{"wipeTable": false}]}})),
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
            "a file system that says that root is the root",
            json!({"storage": {"filesystems": [{"name": "root", "path": "/"}],
                "files": [{"filesystem": "root", "path": "/x", "mode": 420}]}}),
        ),
        (
            "a file system with both",
            json!({"storage": {"filesystems": [{"name": "data", "path": "/x", "mount": {"device": "/d", "format": "ext4"}}]}}),
        ),
        ("a file system with neither", json!({"storage": {"filesystems": [{"name": "data"}]}})),
        (
            "a file system to mount",
            json!({"storage": {"filesystems": [{"name": "data", "mount": {"device": "/d", "format": "ext4"}}]}}),
        ),
        (
            "proxies",
            json!({"ignition": {"proxy": {"httpProxy": "http://a", "httpsProxy": "", "noProxy": ["a", "b"]}}}),
        ),
        ("a proxy that is none", json!({"ignition": {"proxy": {"httpProxy": "ftp://a"}}})),
        ("timeouts", json!({"ignition": {"timeouts": {"httpTotal": 0, "httpResponseHeaders": 5}}})),
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
        ("a number for a text", json!({"systemd": {"units": [{"name": 5}]}})),
        ("a text for a truth", unit(json!({"mask": "yes"}))),
        ("nothing in a list", json!({"storage": {"files": [null]}})),
    ]
}
