//! Support bundles: files that show the state of a cluster or of an installation, and an index of them.
//!
//! Invariant: all texts lose the credentials that are known, and the user and password of each URL.

use std::collections::BTreeMap;

use jiff::Timestamp;
use serde::Serialize;
use serde_json::{Value, json};

use mosb_build::Redactor;
use mosb_plan::plan::FORMAT;

/// Bytes of all files before they are packed: what is attached to a support case must stay small.
pub const SIZE_LIMIT: usize = 20_000_000;
/// Bytes of one file. A rendered config is at most as large as an object of the API (1.5 MB), and a
/// bundle has not its contents.
pub const FILE_LIMIT: usize = 1_000_000;
/// Bytes that are left for the two indexes.
const INDEX_RESERVE: usize = 1_000_000;
/// Replaces what may be a secret.
pub const REDACTED: &str = "[secret]";

/// The files of a bundle.
#[derive(Debug, Default)]
pub struct Bundle {
    files: BTreeMap<String, Vec<u8>>,
    size: usize,
    redactor: Redactor,
    missing: Vec<Gap>,
    cut: Vec<Gap>,
}

/// What is not in a bundle.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct Gap {
    /// A file, or what was to be read.
    pub what: String,
    pub why: String,
}

/// A file in the index.
#[derive(Debug, Serialize)]
struct IndexEntry<'b> {
    path: &'b str,
    bytes: usize,
}

impl Bundle {
    /// A bundle whose texts lose these credentials.
    pub fn new(redactor: Redactor) -> Self {
        Self { redactor, ..Self::default() }
    }

    /// Adds an object as YAML.
    pub fn add_yaml(&mut self, path: &str, object: &Value) {
        let mut object = object.clone();
        self.redact_values(&mut object);
        self.add_text(path, &mosb_api::yaml::to_text(&object));
    }

    /// Adds a view as JSON.
    pub fn add_json(&mut self, path: &str, view: &impl Serialize) {
        match serde_json::to_value(view) {
            Ok(mut view) => {
                self.redact_values(&mut view);
                self.add_text(path, &format!("{view:#}\n"));
            }
            Err(error) => self.add_missing(path, error.to_string()),
        }
    }

    /// Adds a text. One that is too large is left out, and the index says so.
    pub fn add_text(&mut self, path: &str, text: &str) {
        let text = self.redacted(text);
        if text.len() > FILE_LIMIT {
            self.add_cut(path, format!("left out: more than {FILE_LIMIT} bytes"));
        } else if self.size + text.len() > SIZE_LIMIT - INDEX_RESERVE {
            self.add_cut(path, format!("left out: the bundle has {SIZE_LIMIT} bytes at most"));
        } else {
            self.size += text.len();
            self.files.insert(path.to_owned(), text.into_bytes());
        }
    }

    /// Records what could not be read.
    pub fn add_missing(&mut self, what: impl Into<String>, why: impl Into<String>) {
        let why = self.redacted(&why.into());
        self.missing.push(Gap { what: what.into(), why });
    }

    /// Records what is not whole.
    pub fn add_cut(&mut self, what: impl Into<String>, why: impl Into<String>) {
        self.cut.push(Gap { what: what.into(), why: why.into() });
    }

    /// What could not be read.
    pub fn missing(&self) -> &[Gap] {
        &self.missing
    }

    /// Whether nothing was read.
    pub fn is_empty(&self) -> bool {
        self.files.is_empty()
    }

    /// Redacts the texts that YAML or JSON writes with escapes, in which a credential would not be
    /// found any more.
    fn redact_values(&self, value: &mut Value) {
        match value {
            Value::String(text) if text.chars().any(is_escaped) => *text = self.redacted(text),
            Value::Array(list) => list.iter_mut().for_each(|one| self.redact_values(one)),
            Value::Object(fields) => fields.values_mut().for_each(|one| self.redact_values(one)),
            _ => {}
        }
    }

    fn redacted(&self, text: &str) -> String {
        without_userinfo(&self.redactor.redact(text))
    }

    /// All files with the indexes, by path.
    pub fn into_files(mut self, about: &Value, now: Timestamp) -> Vec<(String, Vec<u8>)> {
        self.missing.sort();
        self.missing.dedup();
        self.cut.sort();
        self.cut.dedup();
        let entries = self.files.iter();
        let entries: Vec<_> =
            entries.map(|(path, text)| IndexEntry { path, bytes: text.len() }).collect();
        let index = json!({
            "apiVersion": "mosb.dev/v1", "kind": "SupportBundle", "version": env!("CARGO_PKG_VERSION"),
            "time": now.to_string(), "about": about, "files": entries, "missing": self.missing, "cut": self.cut,
        });
        let readme = self.redacted(&self.readme(now));
        let index = self.redacted(&format!("{index:#}\n"));
        let mut files = self.files;
        files.insert("README.txt".to_owned(), readme.into_bytes());
        files.insert("index.json".to_owned(), index.into_bytes());
        files.into_iter().collect()
    }

    fn readme(&self, now: Timestamp) -> String {
        let version = env!("CARGO_PKG_VERSION");
        let mut text = format!(
            "Support bundle of mosb {version}, {now}\n\nSecrets are listed by name, type and keys only. Contents of files and units, of \
             Containerfiles and\nof ConfigMaps, values of variables, and annotations of others are left out. Read the files before you\n\
             send them: names of machines, registries and images are in them.\n"
        );
        let mut list = |title: &str, lines: Vec<String>| {
            let lines = if lines.is_empty() { vec!["nothing".to_owned()] } else { lines };
            text.push_str(&format!("\n{title}:\n"));
            lines.iter().for_each(|line| text.push_str(&format!("  {line}\n")));
        };
        let gaps =
            |gaps: &[Gap]| gaps.iter().map(|gap| format!("{}: {}", gap.what, gap.why)).collect();
        list("Could not be read", gaps(&self.missing));
        list("Is not whole", gaps(&self.cut));
        list("Files", self.files.keys().cloned().collect());
        text
    }
}

fn is_escaped(c: char) -> bool {
    c.is_control() || !c.is_ascii() || "\"'\\".contains(c)
}

/// The program, and the format of its images.
pub fn version() -> Value {
    json!({ "version": env!("CARGO_PKG_VERSION"), "format": FORMAT })
}

/// Replaces the user and password of each URL in a text.
fn without_userinfo(text: &str) -> String {
    let mut new = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find("://") {
        let (before, behind) = rest.split_at(at + "://".len());
        new.push_str(before);
        // A password may have any other character.
        let is_end = |c: char| c.is_whitespace() || "/?#\"`<>\\".contains(c);
        let authority = &behind[..behind.find(is_end).unwrap_or(behind.len())];
        rest = behind;
        if let Some(userinfo) = authority.rfind('@') {
            new.push_str(REDACTED);
            rest = &behind[userinfo..];
        }
    }
    new + rest
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls_lose_user_and_password() {
        for (what, text, want) in [
            ("none", "https://quay.io/a@sha256:1", "https://quay.io/a@sha256:1"),
            ("both", "proxy http://u:p@ss@proxy:3128, x", "proxy http://[secret]@proxy:3128, x"),
            ("user", "\"https://token@host/\"", "\"https://[secret]@host/\""),
            ("two", "a://b@c d://e:f@g", "a://[secret]@c d://[secret]@g"),
            ("punctuation", "(http://u:p,)]'@h)", "(http://[secret]@h)"),
            ("redacted already", "a://u:[secret]@h", "a://[secret]@h"),
            ("the end", "a://", "a://"),
        ] {
            assert_eq!(without_userinfo(text), want, "{what}");
        }
    }

    #[test]
    fn credentials_with_escapes_are_found_in_objects() {
        for secret in
            ["tab\tand \u{7f}", "a\u{a0}b\u{2028}c", "quote\"'s", "back\\slash", "päss-wörd"]
        {
            let mut bundle = Bundle::new(Redactor::default().with_lines([secret]));
            let object = json!({ "a": [{ "b": format!("before {secret} after") }] });
            bundle.add_yaml("yaml", &object);
            bundle.add_json("json", &object);
            for (path, text) in bundle.into_files(&json!({}), Timestamp::UNIX_EPOCH) {
                let text = String::from_utf8(text).unwrap();
                if ["yaml", "json"].contains(&&*path) {
                    assert!(text.contains("before [secret] after"), "{path}: {text}");
                }
            }
        }
    }

    #[test]
    fn what_is_too_large_is_left_out() {
        let mut bundle = Bundle::new(Redactor::default().with_lines(["canary-1"]));
        bundle.add_text("a", "has canary-1 in it");
        bundle.add_text("b", &"x".repeat(FILE_LIMIT + 1));
        for number in 0..30 {
            bundle.add_text(&format!("c{number:02}"), &"x".repeat(FILE_LIMIT));
        }
        bundle.add_missing("secrets", "forbidden for canary-1");
        let files = bundle.into_files(&json!({}), Timestamp::UNIX_EPOCH);
        let size: usize = files.iter().map(|(_, text)| text.len()).sum();
        assert!(size <= SIZE_LIMIT, "{size}");
        let names: Vec<&str> = files.iter().map(|(path, _)| &**path).collect();
        assert_eq!(names[..3], ["README.txt", "a", "c00"]);
        let of = |path: &str| {
            let found = files.iter().find(|(name, _)| name == path).unwrap();
            String::from_utf8(found.1.clone()).unwrap()
        };
        assert_eq!(of("a"), "has [secret] in it");
        let index: Value = serde_json::from_str(&of("index.json")).unwrap();
        assert_eq!(
            index["missing"],
            json!([{ "what": "secrets", "why": "forbidden for [secret]" }])
        );
        assert_eq!(index["cut"][0]["what"], "b");
        assert_eq!(index["cut"].as_array().unwrap().len(), 1 + 30 - 18);
        assert!(of("README.txt").contains("b: left out: more than 1000000 bytes"));
    }
}
