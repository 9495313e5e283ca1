//! Requests, responses, the error for a missing response, and the message of an error response: only
//! the fields meant for readers, printable and truncated.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use bytes::Bytes;
use reqwest::Method;
use reqwest::header::{HeaderMap, HeaderValue};
use serde::Deserialize;
use url::Url;

use crate::error::Error;
use crate::http::{AttemptOutcome, LeastSpeed, RequestError};

/// Most bytes of an error's body that are read.
pub(crate) const ERROR_BODY: u64 = 64 << 10;

/// Bytes of manifests, configs and blobs that were transferred.
#[derive(Debug, Default)]
pub struct TransferStats {
    pulled: AtomicU64,
    pushed: AtomicU64,
}

impl TransferStats {
    pub fn pulled(&self) -> u64 {
        self.pulled.load(Ordering::Relaxed)
    }

    pub fn pushed(&self) -> u64 {
        self.pushed.load(Ordering::Relaxed)
    }

    pub(crate) fn add_pulled(&self, bytes: usize) {
        self.pulled.fetch_add(bytes as u64, Ordering::Relaxed);
    }

    pub(crate) fn add_pushed(&self, bytes: usize) {
        self.pushed.fetch_add(bytes as u64, Ordering::Relaxed);
    }
}

/// Time limits of requests.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Timeouts {
    /// Until the connection is established.
    pub connect: Duration,
    /// Until the response begins.
    pub idle: Duration,
    /// Of bodies, in both directions.
    pub least_speed: LeastSpeed,
}

impl Default for Timeouts {
    fn default() -> Self {
        Self {
            connect: Duration::from_secs(15),
            idle: Duration::from_secs(60),
            least_speed: LeastSpeed::default(),
        }
    }
}

/// A request that can be repeated. Its body may be a login, so `Debug` omits it.
#[derive(Clone)]
pub(crate) struct Request {
    pub method: Method,
    pub url: Url,
    pub headers: HeaderMap,
    pub body: Bytes,
    /// Size limit of a successful response; `None` leaves the body in [`Response::rest`].
    pub limit: Option<u64>,
    pub stats: Option<Arc<TransferStats>>,
    /// Whether a server supplied the URL: an upload location or a token server.
    pub by_server: bool,
}

impl fmt::Debug for Request {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}{}", self.method, self.url.authority(), self.url.path())
    }
}

impl Request {
    pub fn new(method: Method, url: Url) -> Self {
        Self {
            method,
            url,
            headers: HeaderMap::new(),
            body: Bytes::new(),
            limit: Some(ERROR_BODY),
            stats: None,
            by_server: false,
        }
    }

    pub fn header(mut self, name: reqwest::header::HeaderName, value: &str) -> Self {
        if let Ok(value) = HeaderValue::from_str(value) {
            self.headers.insert(name, value);
        }
        self
    }
}

#[derive(Debug)]
pub(crate) struct Response {
    pub status: u16,
    pub headers: HeaderMap,
    /// The whole body, unless it is left in `rest`.
    pub body: Bytes,
    /// The body of a successful response, not read yet.
    pub rest: Option<reqwest::Response>,
    /// After redirects.
    pub url: Url,
}

impl Response {
    pub fn is_success(&self) -> bool {
        (200..300).contains(&self.status)
    }

    pub fn message(&self) -> RegistryMessage {
        RegistryMessage::from_body(&self.body)
    }

    pub fn text(&self, name: &str) -> Option<&str> {
        self.headers.get(name)?.to_str().ok()
    }
}

/// The error for a request without a response.
pub(crate) fn no_response(broken: RequestError, host: &str, tries: u32) -> Error {
    let host = host.to_owned();
    match broken.outcome {
        _ if broken.is_plain_http() => Error::PlainHttp { host },
        _ if broken.tls => Error::Tls { host, cause: broken.cause },
        AttemptOutcome::TimedOut => Error::TimedOut { host, tries },
        AttemptOutcome::TooSlow => Error::TooSlow { host, cause: broken.cause, tries },
        _ => Error::Unreachable { host, cause: broken.cause },
    }
}

/// The registry's error message, possibly empty. Displays as `: message`, to follow a status.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RegistryMessage {
    words: String,
    /// The code of the first error; empty if it has none.
    code: String,
}

#[derive(Deserialize)]
struct Errors {
    #[serde(default)]
    errors: Vec<OneError>,
}

#[derive(Deserialize)]
struct OneError {
    #[serde(default)]
    code: String,
    #[serde(default)]
    message: String,
}

/// Characters shown of a registry's message.
const SHOWN: usize = 200;

impl RegistryMessage {
    /// Code and message of an OCI error body (OCI distribution spec, error codes); empty for any
    /// other body.
    pub fn from_body(body: &[u8]) -> Self {
        let Ok(Errors { errors }) = serde_json::from_slice(body) else {
            return Self::default();
        };
        let printable = |text: &str| -> String {
            let printable = text.chars().filter(|c| !c.is_control() && !is_invisible(*c));
            printable.take(SHOWN).collect()
        };
        let words = errors
            .iter()
            .take(3)
            .map(|e| match (&*e.code, &*e.message) {
                (code, "") => code.to_owned(),
                ("", message) => message.to_owned(),
                (code, message) => format!("{code}: {message}"),
            })
            .collect::<Vec<_>>()
            .join("; ");
        Self {
            words: printable(&words),
            code: errors.first().map_or_else(String::new, |e| printable(&e.code)),
        }
    }

    /// Whether a 404 with this body means that the registry has no such image. Without an error
    /// code it may come from a proxy, and a permission error leaves open what exists.
    pub fn is_missing(&self) -> bool {
        !["", "UNAUTHORIZED", "DENIED"].contains(&&*self.code)
    }

    /// Appends the response to an earlier check.
    pub(crate) fn add_check(&mut self, image: &str, status: u16, answer: &Self) {
        if !self.words.is_empty() {
            self.words.push_str("; ");
        }
        let check = format!("asked before whether {image} is there, it answered {status}{answer}");
        self.words.push_str(&check);
    }

    /// Whether one of the errors has this code.
    pub fn has_code(body: &[u8], codes: &[&str]) -> bool {
        serde_json::from_slice::<Errors>(body)
            .is_ok_and(|all| all.errors.iter().any(|e| codes.contains(&&*e.code)))
    }
}

impl fmt::Display for RegistryMessage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.words.is_empty() {
            return Ok(());
        }
        write!(f, ": {}", self.words)
    }
}

/// Breaks of lines, and what turns the words around it.
fn is_invisible(c: char) -> bool {
    matches!(c, '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{feff}')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_code_and_message_are_repeated() {
        let long = format!(r#"{{"errors":[{{"message":"{}"}}]}}"#, "x".repeat(1000));
        for (what, body, want) in [
            ("html", "<html>token=abc</html>", String::new()),
            ("empty", "", String::new()),
            (
                "an error",
                r#"{"errors":[{"code":"DENIED","message":"no\nway\u001b[31m","detail":"secret"}]}"#,
                ": DENIED: noway[31m".to_owned(),
            ),
            (
                "words that are turned around",
                "{\"errors\":[{\"message\":\"a\u{202e}b\u{2028}c\u{2066}d\"}]}",
                ": abcd".to_owned(),
            ),
            ("only a code", r#"{"errors":[{"code":"DENIED"}]}"#, ": DENIED".to_owned()),
            ("long", &long, format!(": {}", "x".repeat(SHOWN))),
        ] {
            assert_eq!(RegistryMessage::from_body(body.as_bytes()).to_string(), want, "{what}");
        }
        assert!(RegistryMessage::has_code(
            br#"{"errors":[{"code":"BLOB_UNKNOWN"}]}"#,
            &["BLOB_UNKNOWN"]
        ));
        assert!(!RegistryMessage::has_code(b"BLOB_UNKNOWN", &["BLOB_UNKNOWN"]));
    }

    #[test]
    fn a_404_means_missing_only_with_error_code() {
        for (body, want) in [
            (r#"{"errors":[{"code":"MANIFEST_UNKNOWN","message":"x"}]}"#, true),
            (r#"{"errors":[{"code":"NAME_UNKNOWN"}]}"#, true),
            // Harbor.
            (r#"{"errors":[{"code":"NOT_FOUND","message":"x"}]}"#, true),
            // Artifactory, where a path is not a Docker repository.
            (r#"{"errors":[{"status":404,"message":"Not Found"}]}"#, false),
            (r#"{"errors":[{"code":"DENIED"}]}"#, false),
            (r#"{"errors":[{"code":"UNAUTHORIZED"}]}"#, false),
            (r#"{"errors":[]}"#, false),
            ("default backend - 404", false),
            ("", false),
        ] {
            assert_eq!(RegistryMessage::from_body(body.as_bytes()).is_missing(), want, "{body}");
        }
    }

    #[test]
    fn the_message_precedes_the_response_to_a_check() {
        let check = RegistryMessage::from_body(br#"{"errors":[{"code":"UNAUTHORIZED"}]}"#);
        let denied = RegistryMessage::from_body(br#"{"errors":[{"code":"DENIED"}]}"#);
        for (mut message, want) in [
            (
                denied,
                ": DENIED; asked before whether q.io/a:v1 is there, it answered 401: UNAUTHORIZED",
            ),
            (
                RegistryMessage::default(),
                ": asked before whether q.io/a:v1 is there, it answered 401: UNAUTHORIZED",
            ),
        ] {
            message.add_check("q.io/a:v1", 401, &check);
            assert_eq!(message.to_string(), want);
        }
    }
}
