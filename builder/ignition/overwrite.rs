//! Whether files of a merged config replace what is at their path.

use serde_json::{Value, json};

use super::document::Document;

impl Document {
    /// The same, where files that bring contents replace what is at their path unless they say otherwise. To Ignition
    /// the default is that they don't, and without a source they may not (`merging.md`, 2).
    #[must_use]
    pub fn replacing_by_default(mut self) -> Self {
        let files = self.0.pointer_mut("/storage/files");
        let files = files.and_then(Value::as_array_mut);
        for file in files.into_iter().flatten() {
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
    fn only_files_with_a_source_replace_by_default() {
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
            ] },
        });
        let document = Document::read(&config).unwrap().document;
        let document = document.replacing_by_default().into_json();
        let files = document["storage"]["files"].as_array().unwrap();
        let said: Vec<_> = files.iter().map(|file| file.get("overwrite")).collect();
        let (yes, no) = (json!(true), json!(false));
        assert_eq!(said, [Some(&yes), Some(&yes), None, None, Some(&no)]);
    }
}
