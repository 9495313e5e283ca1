//! A table of configs on a small base. The tests in `tests/` compare with the real Ignition; this
//! table contains its observed results.

mod var_files;

use serde_json::{Value, json};

use super::*;
use mosb_image::Digest;
use mosb_image::overlay::{Content, LayerEntry};
use mosb_image::tree::OwnedEntry;

fn base() -> BaseTree {
    let entry = |path: &str, entry| (path.as_bytes().to_vec(), entry);
    let unknown = |size| OwnedEntry { content: None, size, ..OwnedEntry::file(b"") };
    BaseTree::from_entries([
        entry("etc", OwnedEntry::directory(0o755)),
        entry("etc/passwd", OwnedEntry::file(b"root:x:0:0::/root:/bin/sh\ncore:x:1000:1000::/:\n")),
        entry("etc/group", OwnedEntry::file(b"root:x:0:\nwheel:x:10:core\n")),
        entry("usr/lib/passwd", OwnedEntry::file(b"chrony:x:992:992::/:\n")),
        entry("etc/motd", unknown(5)),
        entry(
            "etc/issue",
            OwnedEntry { mode: 0o4710, uid: 3, gid: 4, ..OwnedEntry::file(b"base ") },
        ),
        entry("etc/secret", OwnedEntry { mode: 0o600, ..OwnedEntry::file(b"secret") }),
        entry("etc/sudoers.d", OwnedEntry::directory(0o750)),
        entry("etc/shared", OwnedEntry { gid: 10, ..OwnedEntry::directory(0o2775) }),
        entry("etc/alias", OwnedEntry::symlink("motd")),
        entry("etc/nowhere", OwnedEntry::symlink("none")),
        entry("etc/systemd/system/masked.service", OwnedEntry::symlink("/dev/null")),
        entry("usr/local", OwnedEntry::symlink("../var/usrlocal")),
        entry("var/usrlocal/bin", OwnedEntry::directory(0o755)),
        entry("tmp", OwnedEntry::directory(0o1777)),
        entry("usr/bin/systemctl", unknown(1)),
        entry("usr/lib/systemd/libsystemd-shared-257.so", unknown(1)),
        entry("opt/tree/a", unknown(1)),
        entry("opt/tree/b", unknown(1)),
    ])
}

fn applied(base: &BaseTree, storage: Value, units: Value) -> Result<Applied<'_>, ApplyError> {
    let config = json!({
        "ignition": { "version": "3.5.0" }, "storage": storage, "systemd": { "units": units },
    });
    let config = mosb_ignition::parse(&config).unwrap().config;
    apply(base, Some(&config), Bytes::from_static(b"{}"), Additions::default(), true)
}

/// The layer without the config's own file, one entry a line.
fn lines(applied: &Applied<'_>) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for entry in applied.tree.layer() {
        let line = match &entry {
            LayerEntry::Parent(path, meta) => {
                format!("= {path} {:o} {}:{}", meta.mode, meta.uid, meta.gid)
            }
            LayerEntry::Whiteout(path) => format!("- {path}"),
            LayerEntry::Put(path, Node::Directory { meta }) => {
                format!("d {path} {:o} {}:{}", meta.mode, meta.uid, meta.gid)
            }
            LayerEntry::Put(path, Node::File { meta, content }) => {
                let text = String::from_utf8_lossy(content).trim_end().to_owned();
                format!("f {path} {:o} {}:{} {text}", meta.mode, meta.uid, meta.gid)
            }
            LayerEntry::Put(path, Node::Symlink { meta, target }) => {
                format!("l {path} {target} {}:{}", meta.uid, meta.gid)
            }
            LayerEntry::Put(path, Node::Hardlink { to }) => format!("h {path} {to}"),
        };
        if !line.contains("/machine-config-daemon") {
            lines.push(line);
        }
    }
    lines.retain(|line| {
        line != "= /etc 755 0:0"
            && line != "= /etc/systemd 755 0:0"
            && line != "= /etc/systemd/system 755 0:0"
    });
    lines
}

#[test]
fn entries_land_where_ignition_puts_them() {
    let base = base();
    for (what, storage, want) in [
        (
            "a file with its parents",
            json!({ "files": [{ "path": "/etc/a/b", "contents": { "source": "data:,x" } }] }),
            &["d /etc/a 755 0:0", "f /etc/a/b 644 0:0 x"][..],
        ),
        (
            "through a link of the base",
            json!({ "files": [{ "path": "/usr/local/bin/x", "mode": 0o755 }] }),
            &[
                "= /var 755 0:0",
                "= /var/usrlocal 755 0:0",
                "= /var/usrlocal/bin 755 0:0",
                "f /var/usrlocal/bin/x 755 0:0 ",
            ],
        ),
        (
            "in a directory with its own mode",
            json!({ "files": [{ "path": "/etc/sudoers.d/x", "contents": { "source": "data:,x" } }] }),
            &["= /etc/sudoers.d 750 0:0", "f /etc/sudoers.d/x 644 0:0 x"],
        ),
        (
            "below a set-gid directory",
            json!({ "files": [{ "path": "/etc/shared/d/x" }], "directories": [{ "path": "/etc/shared/e", "mode": 0o700 }] }),
            &[
                "= /etc/shared 2775 0:10",
                "d /etc/shared/d 2755 0:10",
                "f /etc/shared/d/x 644 0:10 ",
                "d /etc/shared/e 700 0:10",
            ],
        ),
        (
            "owners by name, in either file",
            json!({ "files": [{ "path": "/etc/x", "user": { "name": "chrony" }, "group": { "name": "wheel" } }] }),
            &["f /etc/x 644 992:10 "],
        ),
        (
            "over a link, which stays where it pointed",
            json!({ "files": [{ "path": "/etc/alias", "overwrite": true, "contents": { "source": "data:,x" } }] }),
            &["f /etc/alias 644 0:0 x"],
        ),
        (
            "a directory wiped",
            json!({ "directories": [{ "path": "/opt/tree", "overwrite": true }], "files": [{ "path": "/opt/tree/b" }] }),
            &["= /opt 755 0:0", "d /opt/tree 755 0:0", "- /opt/tree/a", "f /opt/tree/b 644 0:0 "],
        ),
        (
            "parts appended to a new file",
            json!({ "files": [{ "path": "/etc/x", "append": [{ "source": "data:,a" }, { "source": "data:,b" }] }] }),
            &["f /etc/x 644 0:0 ab"],
        ),
        (
            "a directory that loses its sticky bit",
            json!({ "directories": [{ "path": "/tmp", "mode": 0o777 }] }),
            &["d /tmp 777 0:0"],
        ),
        ("what a commit empties", json!({ "files": [{ "path": "/tmp/x" }] }), &[]),
        (
            "a link that is there already",
            json!({ "links": [{ "path": "/etc/alias", "target": "./motd" }] }),
            &[],
        ),
        (
            "links, hard ones to a file of the config",
            json!({
                "files": [{ "path": "/etc/deep/er/x", "contents": { "source": "data:,x" } }],
                "links": [
                    { "path": "/etc/hard", "target": "/etc/deep/er/x", "hard": true },
                    { "path": "/etc/soft", "target": "/etc/none" },
                ],
            }),
            &[
                "d /etc/deep 755 0:0",
                "d /etc/deep/er 755 0:0",
                "f /etc/deep/er/x 644 0:0 x",
                "h /etc/hard /etc/deep/er/x",
                "l /etc/soft /etc/none 0:0",
            ],
        ),
    ] {
        let applied = applied(&base, storage, json!([])).unwrap();
        assert_eq!(applied.reasons, [], "{what}");
        assert_eq!(lines(&applied), want, "{what}");
    }
}

#[test]
fn a_small_file_of_the_base_is_repeated_with_what_changes() {
    let base = base();
    let link = |path: &str, target: &str| json!({ "path": path, "target": target, "hard": true });
    let append = json!([{ "source": "data:,a" }, { "source": "data:,b" }]);
    for (what, storage, want) in [
        (
            "append",
            json!({ "files": [{ "path": "/etc/secret", "append": append }] }),
            &["f /etc/secret 600 0:0 secretab"][..],
        ),
        (
            "append to a set-uid file: its owner is set again, which takes the bit away",
            json!({ "files": [{ "path": "/etc/issue", "append": append }] }),
            &["f /etc/issue 710 3:4 base ab"],
        ),
        (
            "mode and group",
            json!({ "files": [{ "path": "/etc/issue", "mode": 0o640, "overwrite": false, "group": { "name": "wheel" } }] }),
            &["f /etc/issue 640 3:10 base"],
        ),
        (
            "hard link",
            json!({ "links": [link("/etc/shared/new/hard", "/etc/secret")] }),
            &[
                "f /etc/secret 600 0:0 secret",
                "= /etc/shared 2775 0:10",
                "d /etc/shared/new 2755 0:10",
                "h /etc/shared/new/hard /etc/secret",
            ],
        ),
        (
            "hard links, one to the other, and an append",
            json!({
                "files": [{ "path": "/etc/secret", "append": append }],
                "links": [link("/etc/a", "/etc/secret"), link("/etc/b", "etc/a")],
            }),
            &["h /etc/a /etc/secret", "h /etc/b /etc/secret", "f /etc/secret 600 0:0 secretab"],
        ),
        (
            "hard link to a symbolic link",
            json!({ "links": [link("/etc/b", "/etc/alias")] }),
            &["l /etc/b motd 0:0"],
        ),
        (
            "hard link that a commit removes",
            json!({ "links": [link("/tmp/x", "/etc/secret")] }),
            &["f /etc/secret 600 0:0 secret"],
        ),
    ] {
        let applied = applied(&base, storage, json!([])).unwrap();
        assert_eq!(applied.reasons, [], "{what}");
        assert_eq!(lines(&applied), want, "{what}");
    }
}

#[test]
fn a_commit_takes_what_the_base_has_there_too() {
    let entry = |path: &str, entry| (path.as_bytes().to_vec(), entry);
    let base = BaseTree::from_entries([
        entry("etc/passwd", OwnedEntry::file(b"root:x:0:0::/root:/bin/sh\n")),
        entry("run", OwnedEntry::directory(0o755)),
        entry("tmp", OwnedEntry::symlink("var/tmp")),
        entry("var/tmp", OwnedEntry::directory(0o1777)),
        entry("var/tmp/old", OwnedEntry::file(b"")),
        entry("var/cache", OwnedEntry::directory(0o755)),
        entry("var/cache/a/deep", OwnedEntry::file(b"")),
        entry("var/cache/link", OwnedEntry::symlink("/etc")),
        entry("var/cachefiles/x", OwnedEntry::file(b"")),
    ]);
    let config = json!({ "files": [
        { "path": "/tmp/old", "overwrite": true, "contents": { "source": "" } }, { "path": "/var/cache/a/new" }, { "path": "/var/cachefiles/y" },
    ] });
    let applied = applied(&base, config, json!([])).unwrap();
    let want = [
        "= /var 755 0:0",
        "= /var/cache 755 0:0",
        "- /var/cache/a",
        "- /var/cache/link",
        "= /var/cachefiles 755 0:0",
        "f /var/cachefiles/y 644 0:0 ",
        "= /var/tmp 1777 0:0",
        "- /var/tmp/old",
    ];
    assert_eq!(lines(&applied), want);
    let messages: Vec<_> = applied.left_out.iter().map(|left| left.message.as_str()).collect();
    let want = [
        "/var/tmp/old is not in the image: /tmp is",
        "/var/tmp/old of the base is not in the image: /tmp is",
        "/var/cache/a/new is not in the image: /var/cache is",
        "/var/cache/a of the base is not in the image: /var/cache is",
        "/var/cache/link of the base is not in the image: /var/cache is",
    ];
    let want = want.map(|text| format!("{text} emptied when the image is committed"));
    assert_eq!(messages, want);
}

#[test]
fn units_are_written_masked_and_unmasked() {
    let base = base();
    let units = json!([
        { "name": "a.service", "contents": "[Unit]\n", "dropins": [{ "name": "b.conf", "contents": "" }, { "name": "c.conf" }] },
        { "name": "b.service", "contents": "", "mask": true },
        { "name": "masked.service", "mask": false },
    ]);
    let applied = applied(&base, json!({}), units).unwrap();
    let want = [
        "f /etc/systemd/system/a.service 644 0:0 [Unit]",
        "d /etc/systemd/system/a.service.d 755 0:0",
        "f /etc/systemd/system/a.service.d/b.conf 644 0:0 ",
        "l /etc/systemd/system/b.service /dev/null 0:0",
        "- /etc/systemd/system/masked.service",
    ];
    assert_eq!(lines(&applied), want);
}

#[test]
fn entries_that_need_content_of_the_base_are_a_reason_for_the_containerfile() {
    let base = base();
    let file = |more: Value| {
        let mut file = json!({ "path": "/etc/motd" });
        file.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        json!({ "files": [file] })
    };
    let path = || "/etc/motd".to_owned();
    for (what, storage, want) in [
        (
            "append",
            file(json!({ "append": [{ "source": "data:,x" }] })),
            vec![Reason::AppendToBase(path())],
        ),
        ("mode", file(json!({ "mode": 0o600 })), vec![Reason::KeepsBaseContent(path())]),
        ("the same mode", file(json!({ "mode": 0o644 })), vec![]),
        (
            "hard link",
            json!({ "links": [{ "path": "/etc/hard", "target": "/etc/motd", "hard": true }] }),
            vec![Reason::HardLinkToBase("/etc/hard".to_owned())],
        ),
    ] {
        assert_eq!(applied(&base, storage, json!([])).unwrap().reasons, want, "{what}");
    }
}

#[test]
fn entries_that_ignition_rejects_are_rejected() {
    let base = base();
    for (what, storage, want) in [
        (
            "a file there",
            json!({ "files": [{ "path": "/etc/motd", "contents": { "source": "data:," } }] }),
            "/etc/motd: a file is there",
        ),
        (
            "a directory there",
            json!({ "files": [{ "path": "/etc/sudoers.d" }] }),
            "/etc/sudoers.d: a directory is there",
        ),
        (
            "a file in the way of a directory",
            json!({ "directories": [{ "path": "/etc/motd" }] }),
            "/etc/motd: a file is there",
        ),
        (
            "another link",
            json!({ "links": [{ "path": "/etc/alias", "target": "x" }] }),
            "/etc/alias: a symbolic link is there",
        ),
        (
            "below a file",
            json!({ "files": [{ "path": "/etc/motd/x" }] }),
            "/etc/motd is no directory",
        ),
        (
            "a dangling link behind a link",
            json!({ "files": [{ "path": "/etc/nowhere/x/y" }], "links": [{ "path": "/etc/none", "target": "gone" }] }),
            "leads nowhere",
        ),
        (
            "two at one path",
            json!({ "files": [{ "path": "/usr/local/x" }, { "path": "/var/usrlocal/x" }] }),
            "are both /var/usrlocal/x",
        ),
        (
            "unknown user",
            json!({ "files": [{ "path": "/etc/x", "user": { "name": "nobody" } }] }),
            "no user \"nobody\"",
        ),
        (
            "unknown group",
            json!({ "files": [{ "path": "/etc/x", "group": { "name": "core" } }] }),
            "no group \"core\"",
        ),
        (
            "hard link to nothing",
            json!({ "links": [{ "path": "/etc/x", "target": "/none", "hard": true }] }),
            "does not exist",
        ),
        (
            "hard link to a directory",
            json!({ "links": [{ "path": "/etc/x", "target": "/etc/sudoers.d", "hard": true }] }),
            "is a directory",
        ),
    ] {
        let error = applied(&base, storage, json!([])).unwrap_err().to_string();
        assert!(error.contains(want), "{what}: {error}");
    }
}

#[test]
fn the_config_itself_is_in_the_image() {
    let base = base();
    let applied =
        apply(&base, None, Bytes::from_static(b"{}"), Additions::default(), false).unwrap();
    let path = CURRENT_CONFIG.parse().unwrap();
    let found = applied.tree.get(&path).unwrap();
    assert_eq!(found.meta, Meta { mode: 0o600, uid: 0, gid: 0 });
    assert_eq!(
        applied.tree.content(&path),
        mosb_image::overlay::Content::Known(Bytes::from_static(b"{}"))
    );
}

#[test]
fn an_alias_takes_nothing_away() {
    let base = base();
    for (alias, fine) in [(".wh.b.service", false), ("x.wh.service", true)] {
        let contents = format!("[Service]\nExecStart=/bin/true\n[Install]\nAlias={alias}\n");
        let units = json!([{ "name": "a.service", "enabled": true, "contents": contents }]);
        let applied = applied(&base, json!({}), units);
        if fine {
            assert!(applied.is_ok(), "{alias}")
        } else {
            assert!(matches!(applied, Err(ApplyError::Whiteout { .. })), "{alias}")
        }
    }
}
