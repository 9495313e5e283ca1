//! References that must be fetched, and the contents that were.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use ::url::Url;
use bytes::Bytes;
use serde_json::{Map, Value};

use super::super::version::Spec;
use super::settings::Settings;
use super::source::without_credentials;
use mosb_types::Finding;

/// An HTTP request. Equal requests are sent once.
///
/// `Debug` shows the URL without credentials, and no header.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Request {
    url: Url,
    accept: &'static str,
    headers: Vec<(String, String)>,
    settings: Arc<Settings>,
}

/// The `Accept` header of Ignition 2.24 (`internal/resource/url.go`). It doesn't ask for 3.6.0,
/// which the machines of a pool may not support; a config of 3.6.0 is accepted all the same.
const ACCEPT_3: &str = "application/vnd.coreos.ignition+json;version=3.5.0, */*;q=0.1";
/// The same of Ignition 0.35.
const ACCEPT_2: &str = "application/vnd.coreos.ignition+json; version=2.2.0, application/vnd.coreos.ignition+json; version=1; q=0.5, */*; q=0.1";
/// Of a document that is not a config.
const ACCEPT_JSON: &str = "application/json, */*;q=0.1";

impl Request {
    /// The request for a resource of a config, or the problem of its headers.
    pub(super) fn new(
        url: Url,
        resource: &Map<String, Value>,
        spec: Option<Spec>,
        settings: &Arc<Settings>,
    ) -> Result<Self, Finding> {
        Ok(Self {
            url,
            accept: match spec {
                Some(Spec::V2(_)) => ACCEPT_2,
                Some(Spec::V3(_)) | None => ACCEPT_3,
            },
            headers: headers(resource)?,
            settings: Arc::clone(settings),
        })
    }

    /// The request for a JSON document. `url` has a host, and no fragment.
    pub fn json(url: Url) -> Self {
        Self { url, accept: ACCEPT_JSON, headers: Vec::new(), settings: Arc::default() }
    }

    /// `http` or `https`, with a host and without a fragment. It may contain a password.
    pub fn url(&self) -> &Url {
        &self.url
    }

    /// The URL for a message: without user, password and query.
    pub fn shown(&self) -> String {
        without_credentials(self.url.as_str())
    }

    /// The header `Accept`, unless [`Request::headers`] has one.
    pub fn accept(&self) -> &'static str {
        self.accept
    }

    /// The config's own headers: names in lower case, each once, sorted. A value may be secret.
    pub fn headers(&self) -> &[(String, String)] {
        &self.headers
    }

    /// Proxy, timeouts and certificate authorities.
    pub fn settings(&self) -> &Settings {
        &self.settings
    }
}

/// `httpHeaders`: as in Ignition, the last of those that differ only in case is used.
fn headers(resource: &Map<String, Value>) -> Result<Vec<(String, String)>, Finding> {
    let mut headers = BTreeMap::new();
    let listed = resource.get("httpHeaders").and_then(Value::as_array);
    for header in listed.into_iter().flatten() {
        let text = |key| header.get(key).and_then(Value::as_str).unwrap_or_default();
        let (name, value) = (text("name"), text("value"));
        let problem = |what: &str| {
            let name: String = name.chars().take(100).collect();
            Err(Finding::new("bad-source", format!("httpHeaders: {name:?} {what}")))
        };
        // RFC 9110, 5.1 and 5.5.
        if name.is_empty()
            || !name.bytes().all(|b| b.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&b))
        {
            return problem("is not a header name; correct it");
        }
        if value.is_empty() {
            return problem("has no value; give one, or remove the header");
        }
        if !value.bytes().all(|b| b == b'\t' || (b >= b' ' && b != 0x7f)) {
            return problem("has a control character in its value; correct it");
        }
        headers.insert(name.to_ascii_lowercase(), value.to_owned());
    }
    Ok(headers.into_iter().collect())
}

impl fmt::Debug for Request {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Request({})", self.shown())
    }
}

/// A request, and its place in the config.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reference {
    request: Request,
    place: String,
}

impl Reference {
    /// `place`: what refers to it, for messages.
    pub fn new(request: Request, place: String) -> Self {
        Self { request, place }
    }

    pub fn request(&self) -> &Request {
        &self.request
    }

    /// The first field that refers to it, as `storage.files[/etc/motd].contents`; after
    /// [`Reference::of`] with a prefix.
    pub fn place(&self) -> &str {
        &self.place
    }

    /// Adds the field that has the config: with `99-x: spec.config`, the place is
    /// `99-x: spec.config.storage.files[/etc/motd].contents`.
    #[must_use]
    pub fn of(mut self, field: &str) -> Self {
        self.place = format!("{field}.{}", self.place);
        self
    }
}

impl fmt::Display for Reference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.place, self.request.shown())
    }
}

/// The contents that were fetched so far. `Debug` shows only their sizes.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Contents(BTreeMap<Request, Bytes>);

impl Contents {
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds the response to a request.
    pub fn insert(&mut self, request: Request, bytes: Bytes) {
        self.0.insert(request, bytes);
    }

    /// The response to a request.
    pub fn get(&self, request: &Request) -> Option<&Bytes> {
        self.0.get(request)
    }

    /// The number of responses.
    pub fn count(&self) -> usize {
        self.0.len()
    }

    /// The bytes of all responses.
    pub fn size(&self) -> u64 {
        self.0.values().map(|bytes| bytes.len() as u64).sum()
    }
}

impl fmt::Debug for Contents {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let lengths = self.0.iter().map(|(request, bytes)| (request, bytes.len()));
        f.debug_map().entries(lengths).finish()
    }
}

/// The references that must be fetched: each request once, with its first place.
#[derive(Debug, Default)]
pub(super) struct Needs(BTreeMap<Request, (usize, String)>);

impl Needs {
    pub fn add(&mut self, request: Request, place: impl fmt::Display) {
        let number = self.0.len();
        self.0.entry(request).or_insert_with(|| (number, place.to_string()));
    }

    pub fn append(&mut self, other: Self) {
        for reference in other.into_references() {
            self.add(reference.request, reference.place);
        }
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// In the order in which they were added.
    pub fn into_references(self) -> Vec<Reference> {
        let mut all: Vec<_> = self.0.into_iter().collect();
        all.sort_by_key(|(_, (number, _))| *number);
        all.into_iter().map(|(request, (_, place))| Reference::new(request, place)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn request(url: &str, resource: Value) -> Result<Request, Finding> {
        let resource = resource.as_object().unwrap();
        Request::new(Url::parse(url).unwrap(), resource, None, &Arc::default())
    }

    #[test]
    fn last_header_of_a_name_is_used() {
        let header = |name: &str, value: &str| json!({ "name": name, "value": value });
        let with = |headers: Vec<Value>| request("https://h/", json!({ "httpHeaders": headers }));
        assert_eq!(
            with(vec![header("B", "1"), header("a", "2")]).unwrap(),
            with(vec![header("A", "2"), header("b", "0"), header("B", "1")]).unwrap()
        );
        assert_ne!(with(vec![header("a", "1")]).unwrap(), with(vec![header("a", "2")]).unwrap());
        for (what, wrong) in [
            ("no value", json!({ "name": "a" })),
            ("an empty value", header("a", "")),
            ("a line's end", header("a", "hunter2\r\nb: c")),
            ("no name", header("", "hunter2")),
            ("a name with a blank", header("a b", "hunter2")),
        ] {
            let problem = with(vec![wrong]).unwrap_err();
            assert_eq!(problem.code, "bad-source", "{what}");
            assert!(!problem.message.contains("hunter2"), "{what}: {problem:?}");
        }
    }

    #[test]
    fn secrets_are_shown_nowhere() {
        let headers = json!({ "httpHeaders": [{ "name": "Authorization", "value": "hunter2" }] });
        let request = request("https://u:hunter2@h/p?t=hunter2", headers).unwrap();
        let reference = Reference::new(request.clone(), "storage.files[/x].contents".to_owned());
        let mut contents = Contents::new();
        contents.insert(request, Bytes::from_static(b"hunter2"));
        let shown = format!("{reference:?} {reference} {contents:?}");
        assert!(!shown.contains("hunter2"), "{shown}");
        assert!(shown.contains("storage.files[/x].contents: https://h/p?…"), "{shown}");
        assert_eq!(contents.size(), 7);
    }

    #[test]
    fn each_is_needed_once_in_order_of_config() {
        let of = |url| request(url, json!({})).unwrap();
        let mut needs = Needs::default();
        needs.add(of("https://z/"), "first");
        needs.add(of("https://a/"), "second");
        needs.add(of("https://z/#x"), "third");
        let places: Vec<_> = needs.into_references().iter().map(|r| r.place.clone()).collect();
        // The fragment was cut off when the source was read.
        assert_eq!(places, ["first", "second", "third"]);
    }
}
