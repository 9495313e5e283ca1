//! Where files, directories and links are written.

use super::*;

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
