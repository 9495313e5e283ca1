//! Joins files, directories and links with the same path.

use serde_json::Value;

use super::super::object::Object;
use super::origins::{Origins, Places};
use super::shape::Fields;

/// One of `storage.files`, with its contents apart: they become `contents` or part of `append`.
pub(super) struct File {
    pub node: Fields,
    pub contents: Fields,
    pub append: bool,
}

/// Joins files with the same path at the place of the first: the last one with contents, and what
/// is appended after it.
pub(super) fn join(
    storage: &Object<'_, '_>,
    files: Vec<File>,
    origins: &mut Origins,
) -> Vec<Value> {
    let mut places = Places::default();
    let mut out: Vec<(Fields, Vec<Value>)> = Vec::new();
    for (index, file) in files.into_iter().enumerate() {
        let place = places.of(file.node.get("path"), out.len(), origins);
        let (to, from) = (format!("storage.files[{place}]"), format!("storage.files[{index}]"));
        let is_first = place == out.len();
        if is_first {
            out.push(Default::default());
        } else if file.node.get("overwrite") == Some(&Value::Bool(false)) && !file.append {
            let message = "an earlier entry makes this file, and `overwrite: false` lets it fail on the machine; remove one";
            storage.problem_in("files", index, "duplicate", message);
        }
        let (node, appended) = &mut out[place];
        if file.append {
            let part = appended.len();
            origins.add(format!("{to}.append[{part}]"), format!("{from}.contents"));
            appended.push(file.contents.into());
            if is_first {
                *node = file.node;
                node.insert("overwrite".to_owned(), false.into());
                origins.add(&to, &from);
            } else {
                let overrides = |key: &String| matches!(key.as_str(), "mode" | "user" | "group");
                node.extend(file.node.into_iter().filter(|(key, _)| overrides(key)));
            }
        } else {
            *node = file.node;
            node.entry("overwrite").or_insert(true.into());
            node.insert("contents".to_owned(), file.contents.into());
            appended.clear();
            origins.add(&to, &from);
        }
    }
    let files = out.into_iter().map(|(mut node, appended)| {
        node.insert("append".to_owned(), appended.into());
        Value::Object(node)
    });
    files.collect()
}

/// Joins nodes with the same path: the last one, at the place of the first.
pub(super) fn last_of_each(key: &str, nodes: Vec<Fields>, origins: &mut Origins) -> Vec<Value> {
    let mut places = Places::default();
    let mut out = Vec::new();
    for (index, node) in nodes.into_iter().enumerate() {
        let place = places.of(node.get("path"), out.len(), origins);
        let to = format!("storage.{key}[{place}]");
        origins.add(to, format!("storage.{key}[{index}]"));
        match out.get_mut(place) {
            Some(earlier) => *earlier = Value::Object(node),
            None => out.push(Value::Object(node)),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::super::tests::{become_these, on_root};
    use serde_json::{Value, json};

    #[test]
    fn duplicates_are_joined() {
        let (x, y, z) = (
            json!({ "source": "data:,x" }),
            json!({ "source": "data:,y" }),
            json!({ "source": "data:,z" }),
        );
        let append = |c: &Value| json!({ "path": "/a", "append": true, "contents": c });
        become_these([
            (
                "appended to nothing",
                "2.2.0",
                on_root(json!({ "files": [append(&x), append(&y)] })),
                json!({ "storage": { "files": [{ "path": "/a", "overwrite": false, "append": [x, y] }] } }),
            ),
            (
                "appended to a file of the config",
                "2.2.0",
                on_root(
                    json!({ "files": [{ "path": "/a", "mode": 420, "contents": x }, { "path": "/b", "mode": 0 },
                    { "path": "/a/", "append": true, "mode": 384, "user": { "id": 5 }, "contents": y }, append(&z)] }),
                ),
                json!({ "storage": { "files": [
                    { "path": "/a", "mode": 384, "user": { "id": 5 }, "overwrite": true, "contents": x, "append": [y, z] },
                    { "path": "/b", "mode": 0, "overwrite": true, "contents": { "source": "" } },
                ] } }),
            ),
            (
                "the last counts",
                "2.2.0",
                on_root(json!({
                    "files": [append(&x), { "path": "/a", "mode": 1, "user": { "id": 1 }, "contents": x }, { "path": "/a", "mode": 2, "contents": y }],
                    "directories": [{ "path": "/d", "mode": 1, "overwrite": true }, { "path": "/d", "mode": 2 }],
                    "links": [{ "path": "/l", "target": "a" }, { "path": "/m", "target": "m" }, { "path": "/l", "target": "b" }],
                })),
                json!({ "storage": {
                    "files": [{ "path": "/a", "mode": 2, "overwrite": true, "contents": y }],
                    "directories": [{ "path": "/d", "mode": 2 }],
                    "links": [{ "path": "/l", "target": "b" }, { "path": "/m", "target": "m" }],
                } }),
            ),
        ]);
    }
}
