//! What files of a merged config leave unsaid at the end.

use serde_json::{Value, json};

use super::document::Document;

impl Document {
    /// The same with the defaults of a pool's files, once all are merged: those that bring contents replace what is at
    /// their path unless they say otherwise (to Ignition the default is that they don't, and without a source they may
    /// not), and an empty `compression`, said against an earlier file's, is unsaid again.
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
    fn what_is_unsaid_at_the_end() {
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
        let said: Vec<_> = files.iter().map(|file| file.get("overwrite")).collect();
        let (yes, no) = (Some(&json!(true)), Some(&json!(false)));
        assert_eq!(said, [yes, yes, None, None, no, yes, yes]);
        assert_eq!(files[5]["contents"], source);
        assert_eq!(files[6]["contents"]["compression"], "gzip");
    }
}
