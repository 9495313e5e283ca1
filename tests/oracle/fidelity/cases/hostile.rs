//! A base with links, modes, owners and units of all kinds, and configs for it.

use serde_json::{Value, json};

use super::{SERVICE, files, storage, units};
use mosb_tests::Tree;

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
