//! The section `storage`: files, directories and links.

use std::collections::HashSet;

use serde_json::Value;

use super::super::error::shown;
use super::super::fields::Object;
use super::super::version::SpecV2;
use super::disks::{self, cleaned};
use super::filesystems;
use super::origins::Origins;
use super::repeated::{File, join, last_of_each};
use super::shape::{Fields, filled, list, number, object, part, text, truth};
use super::source;

/// Reads the section.
pub(super) fn read(root: &mut Object<'_, '_>, origins: &mut Origins) -> Option<Value> {
    let mut storage = root.object("storage");
    let (filesystems, names) = filesystems::read(&mut storage, origins);
    let files = storage.each("files", |o| file(o, &names));
    let files = join(&storage, files, origins);
    let (mut directories, mut links) = (Vec::new(), Vec::new());
    if storage.has("directories", SpecV2::V2_1) {
        directories = storage.each("directories", |o| directory(o, &names));
    }
    if storage.has("links", SpecV2::V2_1) {
        links = storage.each("links", |o| link(o, &names));
    }
    let fields = object([
        ("disks", disks::disks(&mut storage)),
        ("raid", disks::raid(&mut storage)),
        ("filesystems", filesystems),
        ("files", list(files)),
        ("directories", list(last_of_each("directories", directories, origins))),
        ("links", list(last_of_each("links", links, origins))),
    ]);
    storage.finish();
    part(fields)
}

fn file(o: &mut Object<'_, '_>, filesystems: &HashSet<&str>) -> File {
    let mut node = node(o, filesystems);
    let append = o.has("append", SpecV2::V2_2) && o.truth("append") == Some(true);
    mode(o, &mut node, append, "0644");
    let mut given = o.object("contents");
    let contents = source::contents(&mut given);
    given.finish();
    if append && node.get("overwrite") == Some(&Value::Bool(true)) {
        let message =
            "the file can't be both replaced and appended to; keep one of `append` and `overwrite`";
        o.problem("overwrite", "append-and-overwrite", message);
    }
    File { node, contents, append }
}

fn directory(o: &mut Object<'_, '_>, filesystems: &HashSet<&str>) -> Fields {
    let mut node = node(o, filesystems);
    mode(o, &mut node, false, "0755");
    node
}

fn link(o: &mut Object<'_, '_>, filesystems: &HashSet<&str>) -> Fields {
    let mut node = node(o, filesystems);
    let hard = truth(o.truth("hard"));
    node.extend(object([("target", text(o.text("target"))), ("hard", hard)]));
    node
}

fn node(o: &mut Object<'_, '_>, filesystems: &HashSet<&str>) -> Fields {
    let path = o.text("path");
    if let Some(path) = path.filter(|path| !path.is_empty()) {
        o.about(path);
    }
    let filesystem = o.text("filesystem").unwrap_or_default();
    if o.sound() && filesystem != "root" {
        check_filesystem(o, filesystem, filesystems);
    }
    let mut node =
        object([("path", cleaned(path)), ("user", owner(o, "user")), ("group", owner(o, "group"))]);
    if o.has("overwrite", SpecV2::V2_2) {
        let overwrite = o.truth("overwrite").map(Value::from);
        node.extend(object([("overwrite", overwrite)]));
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

fn owner(o: &mut Object<'_, '_>, key: &'static str) -> Option<Value> {
    let mut owner = o.object(key);
    let id = owner.number("id");
    let mut fields = object([("id", number(id))]);
    if owner.has("name", SpecV2::V2_1) {
        fields.extend(object([("name", filled(owner.text("name")))]));
    } else {
        fields.extend(object([("id", number(id.or(Some(0))))]));
    }
    owner.finish();
    part(fields)
}

/// The mode: in the first two versions 0 if it is not said.
fn mode(o: &mut Object<'_, '_>, node: &mut Fields, append: bool, usual: &str) {
    let mut mode = o.number("mode");
    if mode.is_none() && o.spec() < SpecV2::V2_2.into() {
        mode = Some(0);
    } else if mode.is_none() && !append && o.sound() {
        let message = format!(
            "is not said: spec 2 takes 0000, spec 3 octal {usual} or what is there; say the mode"
        );
        o.warn("mode", "unsaid-mode", message);
    }
    node.extend(object([("mode", number(mode))]));
}

#[cfg(test)]
mod tests {
    use super::super::tests::{are_refused, become_these, on_root, warned};
    use serde_json::{Value, json};

    #[test]
    fn what_becomes_of_a_node() {
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
    fn what_is_refused() {
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
    fn an_unsaid_mode_is_warned_of_where_spec_3_takes_another() {
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
