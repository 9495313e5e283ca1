//! Configs for every rule of a direct build, grouped by subject.

use serde_json::{Value, json};

use mosb_tests::Tree;

fn storage(storage: Value) -> Value {
    json!({ "ignition": { "version": "3.5.0" }, "storage": storage })
}

fn units(units: Value) -> Value {
    json!({ "ignition": { "version": "3.5.0" }, "systemd": { "units": units } })
}

fn files(files: Value) -> Value {
    storage(json!({ "files": files }))
}

const SERVICE: &str = "[Service]\nExecStart=/bin/true\n[Install]\nWantedBy=multi-user.target\n";

/// `printf 'hello
///
/// ' | gzip -n` and its digest.
const GZIP: &str = "data:;base64,H4sIAAAAAAAAA8tIzcnJ5wIAIDA6NgYAAAA=";

pub fn plain() -> Vec<(&'static str, Value)> {
    let mut cases = vec![
        ("nothing at all", json!({ "ignition": { "version": "3.5.0" } })),
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
            "gzip with the hash of what is inside",
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
        ("a unit", units(json!([{ "name": "a.service", "contents": SERVICE }]))),
        (
            "a unit enabled",
            units(json!([{ "name": "a.service", "contents": SERVICE, "enabled": true }])),
        ),
        (
            "a unit disabled",
            units(json!([{ "name": "a.service", "contents": SERVICE, "enabled": false }])),
        ),
        (
            "a unit without [Install], enabled",
            units(
                json!([{ "name": "a.service", "contents": "[Service]\nExecStart=/bin/true\n", "enabled": true }]),
            ),
        ),
        (
            "a unit without [Install], disabled",
            units(
                json!([{ "name": "a.service", "contents": "[Service]\nExecStart=/bin/true\n", "enabled": false }]),
            ),
        ),
        (
            "a unit of the base enabled",
            units(json!([{ "name": "systemd-networkd.service", "enabled": true }])),
        ),
        (
            "a unit of the base disabled",
            units(
                json!([{ "name": "getty@.service", "enabled": false }, { "name": "remote-fs.target", "enabled": false }]),
            ),
        ),
        (
            "a unit that nobody has, enabled",
            units(json!([{ "name": "none.service", "enabled": true }])),
        ),
        (
            "a unit that nobody has, disabled",
            units(json!([{ "name": "none.service", "enabled": false }])),
        ),
        (
            "drop-ins",
            units(json!([{ "name": "a.service", "dropins": [
            { "name": "10-a.conf", "contents": "[Service]\nType=simple\n" }, { "name": "20-b.conf", "contents": "" }, { "name": "30-c.conf" },
        ] }])),
        ),
        ("empty contents", units(json!([{ "name": "a.service", "contents": "" }]))),
        ("masked", units(json!([{ "name": "a.service", "mask": true }]))),
        (
            "masked with contents",
            units(json!([{ "name": "a.service", "contents": SERVICE, "mask": true }])),
        ),
        (
            "masked and enabled",
            units(
                json!([{ "name": "a.service", "contents": SERVICE, "mask": true, "enabled": true }]),
            ),
        ),
        (
            "masked and disabled, of the base",
            units(json!([{ "name": "remote-fs.target", "mask": true, "enabled": false }])),
        ),
        (
            "unmasked, never masked",
            units(json!([{ "name": "a.service", "mask": false, "contents": SERVICE }])),
        ),
        (
            "instances",
            units(json!([
                { "name": "e@.service", "contents": SERVICE }, { "name": "e@b.service", "enabled": true }, { "name": "e@a.service", "enabled": true },
                { "name": "e@c.service", "enabled": false },
            ])),
        ),
        (
            "a template enabled",
            units(
                json!([{ "name": "e@.service", "contents": "[Service]\nExecStart=/bin/true\n[Install]\nWantedBy=multi-user.target\nDefaultInstance=x\n", "enabled": true }]),
            ),
        ),
        (
            "aliases and others",
            units(json!([
                { "name": "a.service", "contents": "[Service]\nExecStart=/bin/true\n[Install]\nAlias=b.service\nWantedBy=multi-user.target graphical.target\nRequiredBy=c.service\nAlso=d.socket\n", "enabled": true },
                { "name": "d.socket", "contents": "[Socket]\nListenStream=/run/x\n[Install]\nWantedBy=sockets.target\n" },
            ])),
        ),
        (
            "users, disks and kernel arguments",
            json!({
                "ignition": { "version": "3.5.0" }, "passwd": { "users": [{ "name": "core", "passwordHash": "x" }], "groups": [{ "name": "g" }] },
                "kernelArguments": { "shouldExist": ["quiet"] },
                "storage": { "disks": [{ "device": "/dev/vdb", "wipeTable": true }], "filesystems": [{ "device": "/dev/vdb", "path": "/mnt", "format": "xfs" }] },
            }),
        ),
    ];
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

/// Links, unusual modes and owners, and units in every state, on top of Debian.
pub fn hostile_base() -> Tree {
    Tree::new()
        .directory("etc/sudoers.d", 0o750)
        .directory("etc/shared", 0o2775)
        .owned(0, 4)
        .directory("etc/private", 0o700)
        .owned(65534, 65534)
        .directory("var/usrlocal", 0o755)
        .directory("var/usrlocal/bin", 0o711)
        .link("etc/local", "../var/usrlocal")
        .link("etc/chain", "chain2")
        .link("etc/chain2", "/etc/local/../usrlocal")
        .link("etc/gone", "nowhere")
        .link("etc/gone2", "gone")
        .link("etc/loop", "pool")
        .link("etc/pool", "loop")
        .link("etc/escape", "../../../../etc")
        .file("etc/setuid", 0o4755, "x")
        .owned(3, 3)
        .file("etc/plain", 0o644, "plain\n")
        .hard_link("etc/plain-too", "etc/plain")
        .file("etc/single", 0o6750, "single\n")
        .owned(3, 4)
        .file("etc/private/key", 0o400, "\x7f\0 no text")
        .owned(65534, 65534)
        .file("etc/nothing", 0o644, "")
        .link("etc/alias", "single")
        .file("etc/64k", 0o644, "x".repeat(64 << 10))
        .file("etc/more", 0o644, "x".repeat((64 << 10) + 1))
        .link("etc/systemd/system/masked.service", "/dev/null")
        .file("usr/lib/systemd/system/on.service", 0o644, "[Service]\nExecStart=/bin/true\n[Install]\nWantedBy=multi-user.target\nAlias=on-alias.service\n")
        .link("etc/systemd/system/on-alias.service", "/usr/lib/systemd/system/on.service")
        .link("etc/systemd/system/multi-user.target.wants/on.service", "/usr/lib/systemd/system/on.service")
        .file("usr/lib/systemd/system/off.service", 0o644, "[Service]\nExecStart=/bin/true\n[Install]\nWantedBy=multi-user.target\n")
        .file("usr/lib/systemd/system/static.service", 0o644, "[Service]\nExecStart=/bin/true\n")
        .file("usr/lib/systemd/system-preset/10-first.preset", 0o644, "disable off.service\n")
        .file("usr/lib/systemd/system-preset/99-last.preset", 0o644, "disable *\n")
        .directory("etc/systemd/system-preset", 0o755)
        .file("etc/systemd/system-preset/20-ignition.preset", 0o640, "enable earlier.service\n")
}

pub fn hostile() -> Vec<(&'static str, Value)> {
    vec![
        (
            "a directory that only root reads",
            files(json!([{ "path": "/etc/sudoers.d/x", "mode": 0o440 }])),
        ),
        (
            "a set-gid directory",
            storage(json!({
                "files": [{ "path": "/etc/shared/a/x" }, { "path": "/etc/shared/y", "mode": 0o600, "group": { "id": 0 } }],
                "directories": [{ "path": "/etc/shared/d" }, { "path": "/etc/shared/e", "mode": 0o755 }],
                "links": [{ "path": "/etc/shared/l", "target": "none" }, { "path": "/etc/shared/h", "target": "/etc/shared/y", "hard": true }],
            })),
        ),
        ("somebody else's directory", files(json!([{ "path": "/etc/private/x" }]))),
        (
            "through a link",
            files(json!([{ "path": "/etc/local/bin/x" }, { "path": "/etc/local/new/x" }])),
        ),
        ("through a chain", files(json!([{ "path": "/etc/chain/bin/x" }]))),
        ("through nothing", files(json!([{ "path": "/etc/gone/x" }]))),
        ("through a chain to nothing", files(json!([{ "path": "/etc/gone2/x" }]))),
        ("through a loop", files(json!([{ "path": "/etc/loop/x" }]))),
        ("out of the root and back", files(json!([{ "path": "/etc/escape/x" }]))),
        (
            "links of the base as entries",
            storage(json!({ "links": [{ "path": "/etc/gone", "target": "./nowhere" }] })),
        ),
        (
            "a directory over a link that leads nowhere",
            storage(json!({ "directories": [{ "path": "/etc/gone" }] })),
        ),
        (
            "a set-uid file replaced",
            files(
                json!([{ "path": "/etc/setuid", "overwrite": true, "contents": { "source": "data:,y" } }]),
            ),
        ),
        (
            "one name of a file replaced",
            files(
                json!([{ "path": "/etc/plain", "overwrite": true, "contents": { "source": "data:,y" } }]),
            ),
        ),
        (
            "parts appended to a set-uid file of somebody else",
            files(json!([{ "path": "/etc/single", "append": [{ "source": "data:,more" }] }])),
        ),
        (
            "another owner of a set-uid file, whose content stays",
            files(
                json!([{ "path": "/etc/single", "overwrite": false, "user": { "name": "daemon" }, "group": { "id": 0 } }]),
            ),
        ),
        (
            "parts appended to files that are no text, empty and as large as they may be",
            files(json!([
                { "path": "/etc/private/key", "append": [{ "source": "data:;base64,AAE=" }] },
                { "path": "/etc/nothing", "append": [{ "source": "data:,x" }] },
                { "path": "/etc/64k", "append": [{ "source": "data:,x" }] },
            ])),
        ),
        (
            "parts appended through links",
            files(json!([{ "path": "/etc/escape/single", "append": [{ "source": "data:,x" }] }])),
        ),
        (
            "parts appended to a link",
            files(json!([{ "path": "/etc/alias", "append": [{ "source": "data:,x" }] }])),
        ),
        (
            "a hard link to a changed file, below a set-gid directory",
            storage(json!({
                "files": [{ "path": "/etc/single", "mode": 0o4711, "append": [{ "source": "data:,x" }] }],
                "links": [
                    { "path": "/etc/shared/new/hard", "target": "/etc/single", "hard": true },
                    { "path": "/etc/local/bin/hard", "target": "/etc/private/key", "hard": true },
                ],
            })),
        ),
        (
            "hard links to a file of the base, to the link, and to a link of the base",
            storage(json!({ "links": [
                { "path": "/etc/a", "target": "/etc/single", "hard": true }, { "path": "/etc/b", "target": "/etc/a", "hard": true },
                { "path": "/etc/c", "target": "/etc/alias", "hard": true },
            ] })),
        ),
        ("unmasked", units(json!([{ "name": "masked.service", "mask": false }]))),
        (
            "unmasked and enabled",
            units(
                json!([{ "name": "masked.service", "mask": false, "enabled": true, "contents": SERVICE }]),
            ),
        ),
        (
            "a unit written over a mask",
            units(json!([{ "name": "masked.service", "contents": SERVICE }])),
        ),
        ("an enabled one disabled", units(json!([{ "name": "on.service", "enabled": false }]))),
        ("an enabled one enabled", units(json!([{ "name": "on.service", "enabled": true }]))),
        (
            "a disabled one enabled against an earlier preset",
            units(json!([{ "name": "off.service", "enabled": true }])),
        ),
        ("a disabled one disabled", units(json!([{ "name": "off.service", "enabled": false }]))),
        ("a static one disabled", units(json!([{ "name": "static.service", "enabled": false }]))),
        ("an enabled one masked", units(json!([{ "name": "on.service", "mask": true }]))),
        (
            "an enabled one masked and disabled",
            units(json!([{ "name": "on.service", "mask": true, "enabled": false }])),
        ),
        (
            "one with its own contents enabled",
            units(json!([{ "name": "own.service", "enabled": true, "contents": SERVICE }])),
        ),
        (
            "one with its own contents disabled",
            units(json!([{ "name": "own.service", "enabled": false, "contents": SERVICE }])),
        ),
    ]
}

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
