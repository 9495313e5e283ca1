//! Whole resolutions, with a table in place of servers.

mod configs;
mod contents;

use std::time::Duration;

use bytes::Bytes;
use serde_json::{Value, json};

use super::super::document::Document;
use super::super::error::Error;
use super::super::version::{Spec, SpecV2, SpecVersion};
use super::*;
use mosb_types::Finding;

const CERTIFICATE: &str = "-----BEGIN CERTIFICATE-----\nx\n-----END CERTIFICATE-----\n";

/// What servers answer, by URL.
type Servers<'s> = &'s [(&'s str, &'s [u8])];

/// Fetches until it is done. Returns that, and what was fetched, in order.
fn fetched<T>(
    servers: Servers<'_>,
    mut step: impl FnMut(&Contents) -> Result<Resolution<T>, Error>,
) -> (Result<T, Vec<Finding>>, Vec<Reference>) {
    let (mut contents, mut asked) = (Contents::new(), Vec::new());
    for _ in 0..40 {
        match step(&contents) {
            Ok(Resolution::Done(done)) => return (Ok(done), asked),
            Err(Error::Invalid { problems }) => return (Err(problems), asked),
            Err(other) => panic!("{other}"),
            Ok(Resolution::Needs(needs)) => {
                assert!(!needs.is_empty());
                for reference in needs {
                    let url = reference.request().url().as_str();
                    let found = servers.iter().find(|(known, _)| *known == url);
                    let (_, bytes) = found.unwrap_or_else(|| panic!("{url} was asked for"));
                    assert!(contents.get(reference.request()).is_none(), "{url}: twice");
                    let bytes = Bytes::copy_from_slice(bytes);
                    contents.insert(reference.request().clone(), bytes);
                    asked.push(reference);
                }
            }
        }
    }
    panic!("asked for something new each time: {asked:?}");
}

fn document(config: &Value) -> (Document, Spec) {
    let read = Document::read(config).unwrap();
    (read.document, read.spec)
}

fn resolve(config: &Value, servers: Servers<'_>) -> (Result<Value, Vec<Finding>>, Vec<Reference>) {
    let (document, spec) = document(config);
    let (resolved, asked) = fetched(servers, |contents| configs(document.clone(), spec, contents));
    (resolved.map(|r| r.document.into_json()), asked)
}

fn embed(config: &Value, servers: Servers<'_>) -> (Result<Value, Vec<Finding>>, Vec<Reference>) {
    let (document, _) = document(config);
    let (embedded, asked) = fetched(servers, |bytes| contents(document.clone(), bytes));
    (embedded.map(Document::into_json), asked)
}

fn places(references: &[Reference]) -> Vec<&str> {
    references.iter().map(Reference::place).collect()
}

fn codes(problems: &[Finding]) -> Vec<(&str, &str)> {
    problems.iter().map(|p| (p.object.as_deref().unwrap_or_default(), p.code.as_str())).collect()
}

/// A config with a file for each path, with these contents, and with a section `ignition`.
fn config(mut ignition: Value, files: &[(&str, &str)]) -> Value {
    ignition["version"] = json!("3.5.0");
    let mut config = json!({ "ignition": ignition });
    if !files.is_empty() {
        let file = |(path, text): &(&str, &str)| json!({ "path": path, "contents": { "source": format!("data:,{text}") } });
        config["storage"]["files"] = files.iter().map(file).collect();
    }
    config
}

fn merge(urls: &[&str]) -> Value {
    let all: Vec<_> = urls.iter().map(|url| json!({ "source": url })).collect();
    json!({ "config": { "merge": all } })
}

fn replace(url: &str) -> Value {
    json!({ "config": { "replace": { "source": url } } })
}

fn text(config: &Value) -> Vec<u8> {
    config.to_string().into_bytes()
}
