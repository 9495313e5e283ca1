//! Entries that Ignition rejects.

use super::*;

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
            "/etc/motd is not a directory",
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
