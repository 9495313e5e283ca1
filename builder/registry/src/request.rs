//! Requests, responses, and the error for a missing response.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use bytes::Bytes;
use reqwest::Method;
use reqwest::header::{HeaderMap, HeaderValue};
use url::Url;

use super::error::Error;
use super::error_body::RegistryMessage;
use crate::http::{AttemptOutcome, LeastSpeed, RequestError};

/// Most bytes of an error's body that are read.
pub(super) const ERROR_BODY: u64 = 64 << 10;

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

    pub(super) fn add_pulled(&self, bytes: usize) {
        self.pulled.fetch_add(bytes as u64, Ordering::Relaxed);
    }

    pub(super) fn add_pushed(&self, bytes: usize) {
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
pub(super) struct Request {
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
pub(super) struct Response {
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
pub(super) fn no_response(broken: RequestError, host: &str, tries: u32) -> Error {
    let host = host.to_owned();
    match broken.outcome {
        _ if broken.is_plain_http() => Error::PlainHttp { host },
        _ if broken.tls => Error::Tls { host, cause: broken.cause },
        AttemptOutcome::TimedOut => Error::TimedOut { host, tries },
        AttemptOutcome::TooSlow => Error::TooSlow { host, cause: broken.cause, tries },
        _ => Error::Unreachable { host, cause: broken.cause },
    }
}
