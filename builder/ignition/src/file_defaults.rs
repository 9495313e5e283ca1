//! Defaults for the files of a merged config.

use serde_json::{Value, json};

use super::document::Document;

impl Document {
    /// Sets the defaults of a pool's files, after all configs are merged: a file with contents gets
    /// `overwrite: true` if it isn't set (Ignition's default is false, and without a source true is
    /// invalid), and an empty `compression`, which only overrides an earlier one, is removed.
    #[must_use]
    pub fn with_file_defaults(mut self) -> Self {
        let files = self.0.pointer_mut("/storage/files");
        let files = files.and_then(Value::as_array_mut);
        for file in files.into_iter().flatten() {
            if file.pointer("/contents/compression") == Some(&json!("")) {
                let contents = file["contents"].as_object_mut();
                contents.expect("it has a compression").remove("compression");
            }
            let sourced = file.pointer("/contents/source").is_some();
            if sourced && file.get("overwrite").is_none() {
                file["overwrite"] = json!(true);
            }
        }
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn defaults_are_set_where_a_file_has_contents() {
        let source = json!({ "source": "data:,a" });
        let file = |path: &str, rest: Value| {
            let mut file = rest;
            file["path"] = json!(path);
            file
        };
        let config = json!({
            "ignition": { "version": "3.5.0" },
            "storage": { "files": [
                file("/source", json!({ "contents": source })),
                file("/empty", json!({ "contents": { "source": "" } })),
                file("/mode", json!({ "mode": 420 })),
                file("/append", json!({ "append": [source] })),
                file("/no", json!({ "contents": source, "overwrite": false })),
                file("/plain", json!({ "contents": { "source": "data:,a", "compression": "" } })),
                file("/gzip", json!({ "contents": { "source": "data:,a", "compression": "gzip" } })),
            ] },
        });
        let document = Document::read(&config).unwrap().document;
        let document = document.with_file_defaults().into_json();
        let files = document["storage"]["files"].as_array().unwrap();
        let overwrite: Vec<_> = files.iter().map(|file| file.get("overwrite")).collect();
        let (yes, no) = (Some(&json!(true)), Some(&json!(false)));
        assert_eq!(overwrite, [yes, yes, None, None, no, yes, yes]);
        assert_eq!(files[5]["contents"], source);
        assert_eq!(files[6]["contents"]["compression"], "gzip");
    }
}
