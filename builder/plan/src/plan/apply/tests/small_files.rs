//! Entries that need the content of a file of the base.

use super::*;

#[test]
fn changed_small_file_of_base_is_repeated() {
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
fn need_of_base_content_is_reason_for_containerfile() {
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
