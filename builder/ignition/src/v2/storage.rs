//! The section `storage`: files, directories and links.

use std::collections::HashSet;

use serde_json::{Value, json};

use super::super::error::shown;
use super::super::object::Object;
use super::super::version::SpecV2;
use super::origins::Origins;
use super::repeated::{File, join, last_of_each};
use super::shape::{Fields, clean_field, copy, resource};
use super::{disks, filesystems};

pub(super) fn translate(root: &Object<'_, '_>, origins: &mut Origins) -> Value {
    let storage = root.object("storage");
    let (filesystems, names) = filesystems::translate(&storage, origins);
    let files = storage.each("files", |o| file(o, &names));
    let files = join(&storage, files, origins);
    let directories = storage.each("directories", |o| directory(o, &names));
    let links = storage.each("links", |o| node(o, &names));
    json!({
        "disks": storage.each("disks", disks::disk),
        "raid": storage.each("raid", disks::raid),
        "filesystems": filesystems,
        "files": files,
        "directories": last_of_each("directories", directories, origins),
        "links": last_of_each("links", links, origins),
    })
}

fn file(o: &Object<'_, '_>, filesystems: &HashSet<&str>) -> File {
    let mut node = node(o, filesystems);
    let append = o.bool("append") == Some(true);
    default_mode(o, &mut node, append, "0644");
    let contents = resource(&o.object("contents"));
    if append && o.bool("overwrite") == Some(true) {
        let message =
            "the file can't be both replaced and appended to; keep one of `append` and `overwrite`";
        o.problem("overwrite", "append-and-overwrite", message);
    }
    File { node, contents, append }
}

fn directory(o: &Object<'_, '_>, filesystems: &HashSet<&str>) -> Fields {
    let mut node = node(o, filesystems);
    default_mode(o, &mut node, false, "0755");
    node
}

fn node(o: &Object<'_, '_>, filesystems: &HashSet<&str>) -> Fields {
    let filesystem = o.text("filesystem").unwrap_or_default();
    if o.can_read("path") && o.can_read("filesystem") && filesystem != "root" {
        check_filesystem(o, filesystem, filesystems);
    }
    let mut node = copy(o, &["filesystem", "append", "contents"]);
    clean_field(&mut node, "path");
    if o.spec() == SpecV2::V2_0.into() {
        for key in ["user", "group"] {
            let id = o.object(key).integer("id").unwrap_or(0);
            node.insert(key.to_owned(), json!({ "id": id }));
        }
    }
    node
}

fn check_filesystem(o: &Object<'_, '_>, name: &str, known: &HashSet<&str>) {
    let (code, message) = if name.is_empty() {
        let message = "a file system is needed; give \"root\"".to_owned();
        ("undefined-filesystem", message)
    } else if known.contains(name) {
        let message = format!(
            "spec 3 can't write into {} by its name; give the whole path on \"root\", or write a spec 3 config that gives the file system a path",
            shown(name)
        );
        ("no-spec3-equal", message)
    } else {
        let message = format!("no file system {} is defined here; give \"root\"", shown(name));
        ("undefined-filesystem", message)
    };
    o.problem("filesystem", code, message);
}

/// A mode that is not set is 0 in the first two versions.
fn default_mode(o: &Object<'_, '_>, node: &mut Fields, append: bool, usual: &str) {
    if o.is_set("mode") {
        return;
    }
    if o.spec() < SpecV2::V2_2.into() {
        node.insert("mode".to_owned(), 0.into());
    } else if !append {
        let message = format!(
            "is not set: spec 2 uses 0000, spec 3 octal {usual} or the existing mode; set the mode"
        );
        o.warn("mode", "unsaid-mode", message);
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::{are_refused, become_these, on_root, warned};
    use serde_json::{Value, json};

    #[test]
    fn nodes_are_translated() {
        let empty = json!({ "source": "" });
        become_these([
            (
                "all that is unsaid in 2.0",
                "2.0.0",
                on_root(json!({ "files": [{ "path": "/a" }] })),
                json!({ "storage": { "files": [{ "path": "/a", "mode": 0, "overwrite": true, "user": { "id": 0 }, "group": { "id": 0 }, "contents": empty }] } }),
            ),
            (
                "all that is unsaid in 2.1",
                "2.1.0",
                on_root(
                    json!({ "files": [{ "path": "/a" }], "directories": [{ "path": "/b" }], "links": [{ "path": "/c", "target": "d" }] }),
                ),
                json!({ "storage": {
                    "files": [{ "path": "/a", "mode": 0, "overwrite": true, "contents": empty }],
                    "directories": [{ "path": "/b", "mode": 0 }],
                    "links": [{ "path": "/c", "target": "d" }],
                } }),
            ),
            (
                "all that is unsaid in 2.2",
                "2.2.0",
                on_root(json!({ "files": [{ "path": "/a" }], "directories": [{ "path": "/b" }] })),
                json!({ "storage": { "files": [{ "path": "/a", "overwrite": true, "contents": empty }], "directories": [{ "path": "/b" }] } }),
            ),
            (
                "all that can be said",
                "2.4.0",
                on_root(json!({
                    "files": [{ "path": "//a/../b/./", "mode": 3072, "overwrite": false, "user": { "id": 0 }, "group": { "name": "g" },
                        "contents": { "source": "https://x/", "compression": "gzip", "httpHeaders": [{ "name": "A", "value": "b" }] } }],
                    "directories": [{ "path": "/..", "mode": 448, "overwrite": false, "user": { "name": "" } }],
                    "links": [{ "path": "/c", "target": "../d", "hard": false, "overwrite": true }, { "path": "/e", "target": "/b", "hard": true }],
                })),
                json!({ "storage": {
                    "files": [{ "path": "/b", "mode": 3072, "overwrite": false, "user": { "id": 0 }, "group": { "name": "g" },
                        "contents": { "source": "https://x/", "compression": "gzip", "httpHeaders": [{ "name": "A", "value": "b" }] } }],
                    "directories": [{ "path": "/", "mode": 448, "overwrite": false }],
                    "links": [{ "path": "/c", "target": "../d", "overwrite": true }, { "path": "/e", "target": "/b", "hard": true }],
                } }),
            ),
            (
                "a link whose name another path begins with",
                "2.2.0",
                on_root(
                    json!({ "files": [{ "path": "/etc/foobar", "mode": 420 }], "links": [{ "path": "/etc/foo", "target": "x" }] }),
                ),
                json!({ "storage": { "files": [{ "path": "/etc/foobar", "mode": 420, "overwrite": true, "contents": empty }], "links": [{ "path": "/etc/foo", "target": "x" }] } }),
            ),
        ]);
    }

    #[test]
    fn invalid_nodes_are_rejected() {
        let nodes = |list: &str, nodes: Value| on_root(json!({ list: nodes }));
        let twice =
            json!([{ "path": "/a", "mode": 1 }, { "path": "/a", "mode": 1, "overwrite": false }]);
        let both = json!([{ "path": "/a", "mode": 1, "append": true, "overwrite": true }]);
        let ambiguous = json!([{ "path": "/a", "mode": 1 }, { "path": "/b", "mode": 1 }, { "path": "/a", "mode": 1, "user": { "id": 1, "name": "x" } }]);
        let replaced = json!([
            { "path": "/a", "mode": 1, "contents": { "source": "foo" } },
            { "path": "/a", "append": true, "contents": { "compression": "zip" } },
            { "path": "/a", "mode": 1 },
        ]);
        let two_kinds = json!({ "files": [{ "path": "/a", "mode": 1 }], "links": [{ "path": "/b", "target": "x" }, { "path": "/a/", "target": "x" }] });
        let below = json!({ "files": [{ "path": "/l/../l/a", "mode": 1 }], "links": [{ "path": "/l", "target": "x" }] });
        are_refused([
            (
                "no file system",
                "2.0.0",
                json!({ "storage": { "files": [{ "path": "/a" }] } }),
                &["storage.files[0].filesystem: undefined-filesystem"],
            ),
            (
                "an unknown file system",
                "2.1.0",
                json!({ "storage": { "links": [{ "path": "/a", "target": "b", "filesystem": "x" }] } }),
                &["storage.links[0].filesystem: undefined-filesystem"],
            ),
            ("there already", "2.2.0", nodes("files", twice), &["storage.files[1]: duplicate"]),
            (
                "append and overwrite",
                "2.2.0",
                nodes("files", both),
                &["storage.files[0].overwrite: append-and-overwrite"],
            ),
            (
                "entries that are replaced",
                "2.2.0",
                nodes("files", replaced),
                &[
                    "storage.files[0].contents.source: bad-source",
                    "storage.files[1].contents.compression: bad-compression",
                ],
            ),
            (
                "two owners of a later duplicate",
                "2.1.0",
                nodes("files", ambiguous),
                &["storage.files[2].user: bad-owner"],
            ),
            ("a file and a link", "2.1.0", on_root(two_kinds), &["storage.links[1]: duplicate"]),
            (
                "a file below a link",
                "2.1.0",
                on_root(below),
                &["storage.files[0].path: link-in-the-way"],
            ),
            (
                "no target",
                "2.1.0",
                nodes("links", json!([{ "path": "/a" }])),
                &["storage.links[0].target: bad-link"],
            ),
        ]);
    }

    #[test]
    fn missing_mode_is_warned_of_where_defaults_differ() {
        let nodes = || {
            on_root(
                json!({ "files": [{ "path": "/a" }, { "path": "/b", "append": true }], "directories": [{ "path": "/c" }] }),
            )
        };
        let want =
            ["storage.files[0].mode: unsaid-mode", "storage.directories[0].mode: unsaid-mode"];
        assert_eq!(warned("2.3.0", nodes()), want);
        let special = on_root(json!({ "files": [{ "path": "/a", "mode": 2541 }] }));
        assert_eq!(warned("2.1.0", special), ["storage.files[0].mode: special-mode-bits"]);
    }
}
