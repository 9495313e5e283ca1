//! Sends HTTP requests to a registry and to the servers it redirects to, with timeouts, redirects,
//! size limits and retries.

pub mod certs;
pub(crate) mod endpoint;
pub(crate) mod request;

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant, SystemTime};

use bytes::{Bytes, BytesMut};
use futures_util::StreamExt as _;
use mosb_types::Secret;
use reqwest::header::{AUTHORIZATION, CONTENT_LENGTH, HeaderValue, LOCATION, RETRY_AFTER};
use reqwest::{Method, StatusCode};
use url::Url;

use crate::error::Error;
use crate::http::{
    self, AttemptOutcome, Proxies, RequestError, RetryDecision, RetryPolicy, SpeedMeter, Trust,
    UploadMeter, UrlSource, decide_retry, jitter, retry_after, same_origin,
};
use crate::store::BlobStream;
use crate::transport::certs::Certificates;
use crate::transport::request::{
    ERROR_BODY, Request, Response, Timeouts, TransferStats, no_response,
};

/// Uploads slower than this time out.
const SLOWEST_BYTES_PER_SECOND: u64 = 32 << 10;
/// Redirects followed for one request.
const REDIRECTS: usize = 5;

/// The connections to one registry and to what it points at.
#[derive(Debug)]
pub(crate) struct Transport {
    pub host: String,
    pub certificates: Certificates,
    pub verify: bool,
    pub proxies: Arc<Proxies>,
    pub timeouts: Timeouts,
    pub policy: RetryPolicy,
    /// One client, and so one connection pool, per scheme (https or not) and allowed addresses.
    pub clients: Mutex<HashMap<(bool, UrlSource), reqwest::Client>>,
    /// Whether the registry has answered from another machine. It then never counts as a loopback
    /// registry again, whatever its name resolves to.
    pub remote: AtomicBool,
}

impl Transport {
    /// The client for a URL. The one for plain HTTP loads no certificates, so that it also works on
    /// machines without any.
    fn client(&self, url: &Url, url_source: UrlSource) -> Result<reqwest::Client, RequestError> {
        url_source.check(url)?;
        let https = url.scheme() == "https";
        let mut clients = self.clients.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(client) = clients.get(&(https, url_source)) {
            return Ok(client.clone());
        }
        let trust = match (https, self.verify) {
            (false, _) => Trust::NoRoots,
            (true, false) => Trust::AnyCertificate,
            (true, true) => Trust::System(self.certificates.authorities.clone()),
        };
        let client = http::client(
            concat!("mosb/", env!("CARGO_PKG_VERSION")),
            trust,
            self.certificates.identity.clone().filter(|_| https),
            Arc::clone(&self.proxies),
            url_source,
            self.timeouts.connect,
        )?;
        clients.insert((https, url_source), client.clone());
        Ok(client)
    }

    /// Whether every response of the registry itself came from loopback.
    fn is_on_loopback(&self) -> bool {
        !self.remote.load(Ordering::Relaxed)
    }

    /// Sends a request, with retries. A 2xx status is returned, and so is a permanent error (4xx).
    pub async fn send(
        &self,
        request: &Request,
        auth: Option<&Secret<String>>,
    ) -> Result<Response, Error> {
        let began = Instant::now();
        let mut attempt = 0;
        loop {
            attempt += 1;
            // On the heap: all that a pull, a push or a lookup polls is nested around it.
            let result = Box::pin(self.once(request, auth)).await;
            let outcome = match &result {
                Ok(answer) => attempt_outcome(answer),
                Err(broken) => broken.outcome,
            };
            match decide_retry(outcome, attempt, began.elapsed(), &self.policy, jitter()) {
                RetryDecision::RetryAfter(pause) => {
                    tracing::debug!(host = %self.host, ?outcome, ?pause, "retrying");
                    tokio::time::sleep(pause).await;
                }
                RetryDecision::Return => {
                    return result.map_err(|broken| no_response(broken, &self.host, attempt));
                }
                RetryDecision::GiveUp => {
                    let answer =
                        result.map_err(|broken| no_response(broken, &self.host, attempt))?;
                    return Err(retries_exhausted(&self.host, &answer, attempt));
                }
            }
        }
    }

    /// One attempt, with its redirects.
    pub async fn once(
        &self,
        request: &Request,
        auth: Option<&Secret<String>>,
    ) -> Result<Response, RequestError> {
        let mut url = request.url.clone();
        let mut by_server = request.by_server;
        let mut on_loopback = self.is_on_loopback();
        for _ in 0..=REDIRECTS {
            let url_source = UrlSource::of(by_server, on_loopback);
            let mut builder =
                self.client(&url, url_source)?.request(request.method.clone(), url.clone());
            builder = builder.headers(request.headers.clone());
            if let Some(auth) = auth.filter(|_| same_origin(&url, &request.url)) {
                builder = builder.header(AUTHORIZATION, secret_header(auth)?);
            }
            if !request.body.is_empty() || matches!(request.method, Method::POST | Method::PUT) {
                builder =
                    builder.header(CONTENT_LENGTH, request.body.len()).body(request.body.clone());
            }
            let length = request.body.len() as u64;
            let time_limit =
                self.timeouts.idle + Duration::from_secs(length / SLOWEST_BYTES_PER_SECOND);
            let response = tokio::time::timeout(time_limit, builder.send())
                .await
                .map_err(|_| RequestError::new(AttemptOutcome::TimedOut, "no answer"))?
                .map_err(RequestError::from)?;
            on_loopback &= self.proxies.answered_on_loopback(&response, &url);
            if !by_server && !on_loopback {
                self.remote.store(true, Ordering::Relaxed);
            }
            if let Some(stats) = &request.stats {
                stats.add_pushed(request.body.len());
            }
            match redirect(&response, &url)? {
                Some(next) if !body_may_follow(request, &next) => {
                    let cause = "redirected to another host with a login in the request";
                    return Err(RequestError::new(AttemptOutcome::Fatal, cause));
                }
                Some(next) => {
                    by_server = request.by_server || !same_origin(&next, &request.url);
                    url = next;
                }
                None => return self.receive(response, url, request).await,
            }
        }
        Err(RequestError::new(AttemptOutcome::Fatal, "too many redirects"))
    }

    async fn receive(
        &self,
        response: reqwest::Response,
        url: Url,
        request: &Request,
    ) -> Result<Response, RequestError> {
        let (status, headers) = (response.status().as_u16(), response.headers().clone());
        let good = response.status().is_success();
        let limit = match (good, request.limit) {
            (true, None) => {
                return Ok(Response {
                    status,
                    headers,
                    body: Bytes::new(),
                    rest: Some(response),
                    url,
                });
            }
            (true, Some(limit)) => limit,
            (false, _) => ERROR_BODY,
        };
        let body =
            self.read(response, limit, good.then_some(request.stats.as_deref()).flatten()).await?;
        Ok(Response { status, headers, body, rest: None, url })
    }

    /// Reads the body up to one byte beyond the limit, so that the caller notices a larger one.
    async fn read(
        &self,
        mut response: reqwest::Response,
        limit: u64,
        stats: Option<&TransferStats>,
    ) -> Result<Bytes, RequestError> {
        let mut body = BytesMut::new();
        let mut speed = SpeedMeter::new(self.timeouts.least_speed);
        while let Some(chunk) = speed.wait(response.chunk()).await?? {
            speed.add(chunk.len());
            if let Some(stats) = stats {
                stats.add_pulled(chunk.len());
            }
            let room = usize::try_from(limit + 1).unwrap_or(usize::MAX).saturating_sub(body.len());
            body.extend_from_slice(&chunk[..chunk.len().min(room)]);
            if body.len() as u64 > limit {
                break;
            }
        }
        Ok(body.freeze())
    }

    /// Sends a body that can't be repeated, without retries. An error of the body itself is
    /// returned as [`StreamError::Source`].
    pub async fn stream(
        &self,
        request: &Request,
        length: u64,
        body: BlobStream<Error>,
        auth: Option<&Secret<String>>,
    ) -> Result<Response, StreamError> {
        let failed: Arc<Mutex<Option<Error>>> = Arc::default();
        let (slot, stats) = (Arc::clone(&failed), request.stats.clone());
        let speed = UploadMeter::new(self.timeouts.least_speed, length);
        let body = speed.measure(body).map(move |chunk| match chunk {
            Ok(chunk) => {
                if let Some(stats) = &stats {
                    stats.add_pushed(chunk.len());
                }
                Ok(chunk)
            }
            Err(error) => {
                *slot.lock().unwrap_or_else(PoisonError::into_inner) = Some(error);
                Err(std::io::Error::other("the source of the blob failed"))
            }
        });
        let url_source = UrlSource::of(request.by_server, self.is_on_loopback());
        let mut builder = self
            .client(&request.url, url_source)?
            .request(request.method.clone(), request.url.clone())
            .headers(request.headers.clone())
            .header(CONTENT_LENGTH, length)
            .body(reqwest::Body::wrap_stream(body));
        if let Some(auth) = auth {
            builder = builder.header(AUTHORIZATION, secret_header(auth)?);
        }
        let answer = speed.answer(self.timeouts.idle, builder.send()).await;
        let response = answer.and_then(|answer| answer.map_err(RequestError::from));
        if let Some(error) = failed.lock().unwrap_or_else(PoisonError::into_inner).take() {
            return Err(StreamError::Source(error));
        }
        let response = response?;
        if !request.by_server && !self.proxies.answered_on_loopback(&response, &request.url) {
            self.remote.store(true, Ordering::Relaxed);
        }
        Ok(self.receive(response, request.url.clone(), request).await?)
    }
}

/// Why a streamed request failed.
#[derive(Debug)]
pub(crate) enum StreamError {
    /// The request failed; the registry can be asked how much arrived.
    Transport(RequestError),
    /// The body could not be read.
    Source(Error),
}

impl From<RequestError> for StreamError {
    fn from(broken: RequestError) -> Self {
        Self::Transport(broken)
    }
}

pub(crate) fn attempt_outcome(answer: &Response) -> AttemptOutcome {
    let asked = answer.headers.get(RETRY_AFTER).and_then(|v| v.to_str().ok());
    AttemptOutcome::Status {
        status: answer.status,
        retry_after: asked.and_then(|value| retry_after(value, SystemTime::now())),
    }
}

/// The error of an answer that would be retried if there were tries left.
pub(crate) fn retries_exhausted(host: &str, answer: &Response, tries: u32) -> Error {
    let host = host.to_owned();
    match answer.status {
        429 => Error::TooManyRequests { host, tries },
        status => Error::Server { host, status, tries, message: answer.message() },
    }
}

fn secret_header(auth: &Secret<String>) -> Result<HeaderValue, RequestError> {
    let mut value = HeaderValue::from_str(auth.expose()).map_err(|_| {
        RequestError::new(
            AttemptOutcome::Fatal,
            "the credentials hold bytes that no header can have",
        )
    })?;
    value.set_sensitive(true);
    Ok(value)
}

/// Whether the body may be sent to the target of a redirect: the body of a POST is a login (uploads
/// use PUT).
fn body_may_follow(request: &Request, next: &Url) -> bool {
    request.method != Method::POST || request.body.is_empty() || same_origin(&request.url, next)
}

/// The target of a redirect. A redirect from https to http is an error, except from a registry
/// behind a TLS proxy to itself.
fn redirect(response: &reqwest::Response, from: &Url) -> Result<Option<Url>, RequestError> {
    let follow = [
        StatusCode::MOVED_PERMANENTLY,
        StatusCode::FOUND,
        StatusCode::SEE_OTHER,
        StatusCode::TEMPORARY_REDIRECT,
        StatusCode::PERMANENT_REDIRECT,
    ];
    if !follow.contains(&response.status()) {
        return Ok(None);
    }
    let Some(location) = response.headers().get(LOCATION).and_then(|l| l.to_str().ok()) else {
        return Ok(None);
    };
    follow_location(from, location).map(Some).ok_or_else(|| {
        RequestError::new(AttemptOutcome::Fatal, "redirected from https to http, or to no URL")
    })
}

/// Resolves a `Location`; `None` if it is not a URL or would downgrade https to http.
pub(crate) fn follow_location(from: &Url, location: &str) -> Option<Url> {
    let mut next = from.join(location).ok()?;
    if from.scheme() == "https" && next.scheme() == "http" {
        // A registry that does not know that it is behind a TLS proxy returns http URLs of itself.
        if next.host_str() != from.host_str() {
            return None;
        }
        next.set_scheme("https").ok()?;
        next.set_port(from.port()).ok()?;
    }
    matches!(next.scheme(), "http" | "https").then_some(next)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_location_never_leaves_tls() {
        let from = Url::parse("https://reg.example:8443/v2/x/blobs/uploads/").unwrap();
        for (location, want) in [
            (
                "/v2/x/blobs/uploads/1?s=2",
                Some("https://reg.example:8443/v2/x/blobs/uploads/1?s=2"),
            ),
            ("https://cdn.example/x", Some("https://cdn.example/x")),
            ("http://reg.example/v2/u", Some("https://reg.example:8443/v2/u")),
            ("http://cdn.example/x", None),
            ("ftp://cdn.example/x", None),
            ("https://", None),
        ] {
            let got = follow_location(&from, location).map(|url| url.to_string());
            assert_eq!(got.as_deref(), want, "{location}");
        }
    }

    #[test]
    fn credentials_stay_with_their_origin() {
        let url = |s| Url::parse(s).unwrap();
        let home = url("https://reg.example/v2/");
        let mut login = Request::new(Method::POST, home.clone());
        login.body = Bytes::from_static(b"refresh_token=x");
        let upload = Request { method: Method::PUT, ..login.clone() };
        for (other, want) in [
            ("https://reg.example:443/x", true),
            ("https://reg.example:8443/x", false),
            ("http://reg.example/x", false),
            ("https://cdn.reg.example/x", false),
        ] {
            assert_eq!(same_origin(&home, &url(other)), want, "{other}");
            assert_eq!(body_may_follow(&login, &url(other)), want, "{other}");
            assert!(body_may_follow(&upload, &url(other)), "{other}");
        }
    }
}
