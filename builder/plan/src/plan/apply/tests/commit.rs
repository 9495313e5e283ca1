//! What a commit removes, and the config itself.

use super::*;

#[test]
fn commit_takes_what_the_base_has_there_too() {
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
