//! One HTTP request to a registry or to what it points at: timeouts, redirects, bounded bodies, retries.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant, SystemTime};

use bytes::{Bytes, BytesMut};
use futures_util::StreamExt as _;
use reqwest::header::{AUTHORIZATION, CONTENT_LENGTH, HeaderValue, LOCATION, RETRY_AFTER};
use reqwest::{Method, StatusCode};
use url::Url;

use super::blobs::BlobStream;
use super::certs::Certificates;
use super::error::Error;
use super::message::{Answer, Call, ERROR_BODY, Moved, Timeouts, unanswered};
use crate::http::{
    self, Broken, NamedBy, Next, Outcome, Proxies, RetryPolicy, Secret, SpeedMeter, Trust,
    UploadMeter, decide, jitter, retry_after, same_origin,
};

/// Slowest upload that isn't taken for a dead one.
const SLOWEST_BYTES_PER_SECOND: u64 = 32 << 10;
/// Redirects followed for one request.
const REDIRECTS: usize = 5;

/// The connections to one registry and to what it points at.
#[derive(Debug)]
pub(super) struct Wire {
    pub host: String,
    pub certificates: Certificates,
    pub verify: bool,
    pub proxies: Arc<Proxies>,
    pub timeouts: Timeouts,
    pub policy: RetryPolicy,
    /// By whether they are for https, and where they may connect to. Made once, as they keep the connections.
    pub clients: Mutex<HashMap<(bool, NamedBy), reqwest::Client>>,
    /// Whether the registry itself answered from another machine. Then it never counts as one on loopback again, whatever
    /// its name resolves to.
    pub remote: AtomicBool,
}

impl Wire {
    /// The client for a URL. The one for plain HTTP has no certificates at all, so that a machine without any can talk to a
    /// registry on it.
    fn client(&self, url: &Url, named_by: NamedBy) -> Result<reqwest::Client, Broken> {
        named_by.check(url)?;
        let https = url.scheme() == "https";
        let mut clients = self.clients.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(client) = clients.get(&(https, named_by)) {
            return Ok(client.clone());
        }
        let trust = match (https, self.verify) {
            (false, _) => Trust::Nobody,
            (true, false) => Trust::Anybody,
            (true, true) => Trust::System(self.certificates.authorities.clone()),
        };
        let client = http::client(
            concat!("mosb/", env!("CARGO_PKG_VERSION")),
            trust,
            self.certificates.identity.clone().filter(|_| https),
            Arc::clone(&self.proxies),
            named_by,
            self.timeouts.connect,
        )?;
        clients.insert((https, named_by), client.clone());
        Ok(client)
    }

    /// Whether all that the registry itself answered came from loopback.
    fn is_on_loopback(&self) -> bool {
        !self.remote.load(Ordering::Relaxed)
    }

    /// Sends a request until it is answered or enough is enough. Statuses that stand (2xx, 4xx) are answers.
    pub async fn send(&self, call: &Call, auth: Option<&Secret<String>>) -> Result<Answer, Error> {
        let began = Instant::now();
        let mut attempt = 0;
        loop {
            attempt += 1;
            let tried = self.once(call, auth).await;
            let outcome = match &tried {
                Ok(answer) => outcome_of(answer),
                Err(broken) => broken.outcome,
            };
            match decide(outcome, attempt, began.elapsed(), &self.policy, jitter()) {
                Next::Again(pause) => {
                    tracing::debug!(host = %self.host, ?outcome, ?pause, "trying again");
                    tokio::time::sleep(pause).await;
                }
                Next::Take => {
                    return tried.map_err(|broken| unanswered(broken, &self.host, attempt));
                }
                Next::GiveUp => {
                    let answer = tried.map_err(|broken| unanswered(broken, &self.host, attempt))?;
                    return Err(gave_up(&self.host, &answer, attempt));
                }
            }
        }
    }

    /// One try, with its redirects.
    pub async fn once(&self, call: &Call, auth: Option<&Secret<String>>) -> Result<Answer, Broken> {
        let mut url = call.url.clone();
        let mut by_server = call.by_server;
        let mut on_loopback = self.is_on_loopback();
        for _ in 0..=REDIRECTS {
            let named_by = NamedBy::of(by_server, on_loopback);
            let mut request =
                self.client(&url, named_by)?.request(call.method.clone(), url.clone());
            request = request.headers(call.headers.clone());
            if let Some(auth) = auth.filter(|_| same_origin(&url, &call.url)) {
                request = request.header(AUTHORIZATION, secret_header(auth)?);
            }
            if !call.body.is_empty() || matches!(call.method, Method::POST | Method::PUT) {
                request = request.header(CONTENT_LENGTH, call.body.len()).body(call.body.clone());
            }
            let length = call.body.len() as u64;
            let patience =
                self.timeouts.idle + Duration::from_secs(length / SLOWEST_BYTES_PER_SECOND);
            let response = tokio::time::timeout(patience, request.send())
                .await
                .map_err(|_| Broken::new(Outcome::TimedOut, "no answer"))?
                .map_err(Broken::from)?;
            on_loopback &= self.proxies.answered_on_loopback(&response, &url);
            if !by_server && !on_loopback {
                self.remote.store(true, Ordering::Relaxed);
            }
            if let Some(moved) = &call.moved {
                moved.add_pushed(call.body.len());
            }
            match redirect(&response, &url)? {
                Some(next) if !body_may_follow(call, &next) => {
                    let cause = "redirected to another host with a login in the request";
                    return Err(Broken::new(Outcome::Fatal, cause));
                }
                Some(next) => {
                    by_server = call.by_server || !same_origin(&next, &call.url);
                    url = next;
                }
                None => return self.receive(response, url, call).await,
            }
        }
        Err(Broken::new(Outcome::Fatal, "too many redirects"))
    }

    async fn receive(
        &self,
        response: reqwest::Response,
        url: Url,
        call: &Call,
    ) -> Result<Answer, Broken> {
        let (status, headers) = (response.status().as_u16(), response.headers().clone());
        let good = response.status().is_success();
        let limit = match (good, call.limit) {
            (true, None) => {
                return Ok(Answer {
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
            self.read(response, limit, good.then_some(call.moved.as_deref()).flatten()).await?;
        Ok(Answer { status, headers, body, rest: None, url })
    }

    /// The body, up to one byte more than the limit, so that the caller sees that it is larger.
    async fn read(
        &self,
        mut response: reqwest::Response,
        limit: u64,
        moved: Option<&Moved>,
    ) -> Result<Bytes, Broken> {
        let mut body = BytesMut::new();
        let mut speed = SpeedMeter::new(self.timeouts.least_speed);
        while let Some(chunk) = speed.wait(response.chunk()).await?? {
            speed.add(chunk.len());
            if let Some(moved) = moved {
                moved.add_pulled(chunk.len());
            }
            let room = usize::try_from(limit + 1).unwrap_or(usize::MAX).saturating_sub(body.len());
            body.extend_from_slice(&chunk[..chunk.len().min(room)]);
            if body.len() as u64 > limit {
                break;
            }
        }
        Ok(body.freeze())
    }

    /// Sends a body that can't be sent again, once. An error of the body itself comes out as [`Streamed::Source`].
    pub async fn stream(
        &self,
        call: &Call,
        length: u64,
        body: BlobStream<Error>,
        auth: Option<&Secret<String>>,
    ) -> Result<Answer, Streamed> {
        let failed: Arc<Mutex<Option<Error>>> = Arc::default();
        let (slot, moved) = (Arc::clone(&failed), call.moved.clone());
        let speed = UploadMeter::new(self.timeouts.least_speed, length);
        let body = speed.measure(body).map(move |chunk| match chunk {
            Ok(chunk) => {
                if let Some(moved) = &moved {
                    moved.add_pushed(chunk.len());
                }
                Ok(chunk)
            }
            Err(error) => {
                *slot.lock().unwrap_or_else(PoisonError::into_inner) = Some(error);
                Err(std::io::Error::other("the source of the blob failed"))
            }
        });
        let named_by = NamedBy::of(call.by_server, self.is_on_loopback());
        let mut request = self
            .client(&call.url, named_by)?
            .request(call.method.clone(), call.url.clone())
            .headers(call.headers.clone())
            .header(CONTENT_LENGTH, length)
            .body(reqwest::Body::wrap_stream(body));
        if let Some(auth) = auth {
            request = request.header(AUTHORIZATION, secret_header(auth)?);
        }
        let answer = speed.answer(self.timeouts.idle, request.send()).await;
        let response = answer.and_then(|answer| answer.map_err(Broken::from));
        if let Some(error) = failed.lock().unwrap_or_else(PoisonError::into_inner).take() {
            return Err(Streamed::Source(error));
        }
        let response = response?;
        if !call.by_server && !self.proxies.answered_on_loopback(&response, &call.url) {
            self.remote.store(true, Ordering::Relaxed);
        }
        Ok(self.receive(response, call.url.clone(), call).await?)
    }
}

/// How sending a stream failed.
#[derive(Debug)]
pub(super) enum Streamed {
    /// On the way; what arrived can be asked for.
    Wire(Broken),
    /// The bytes could not be had.
    Source(Error),
}

impl From<Broken> for Streamed {
    fn from(broken: Broken) -> Self {
        Self::Wire(broken)
    }
}

pub(super) fn outcome_of(answer: &Answer) -> Outcome {
    let asked = answer.headers.get(RETRY_AFTER).and_then(|v| v.to_str().ok());
    Outcome::Status {
        status: answer.status,
        retry_after: asked.and_then(|value| retry_after(value, SystemTime::now())),
    }
}

/// The error of an answer that would be tried again if there were tries left.
pub(super) fn gave_up(host: &str, answer: &Answer, tries: u32) -> Error {
    let host = host.to_owned();
    match answer.status {
        429 => Error::TooManyRequests { host, tries },
        status => Error::Server { host, status, tries, said: answer.said() },
    }
}

fn secret_header(auth: &Secret<String>) -> Result<HeaderValue, Broken> {
    let mut value = HeaderValue::from_str(auth.expose()).map_err(|_| {
        Broken::new(Outcome::Fatal, "the credentials hold bytes that no header can have")
    })?;
    value.set_sensitive(true);
    Ok(value)
}

/// Whether what a request holds may go where a redirect leads: the body of a POST is a login (that of an upload is none,
/// and goes by PUT).
fn body_may_follow(call: &Call, next: &Url) -> bool {
    call.method != Method::POST || call.body.is_empty() || same_origin(&call.url, next)
}

/// Where a redirect leads. From https it never leads to http, except where a registry behind a TLS proxy names itself so.
fn redirect(response: &reqwest::Response, from: &Url) -> Result<Option<Url>, Broken> {
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
    follow_location(from, location)
        .map(Some)
        .ok_or_else(|| Broken::new(Outcome::Fatal, "redirected from https to http, or to no URL"))
}

/// A `Location`, relative or absolute; `None` where it is no URL or would leave TLS.
pub(super) fn follow_location(from: &Url, location: &str) -> Option<Url> {
    let mut next = from.join(location).ok()?;
    if from.scheme() == "https" && next.scheme() == "http" {
        // A registry behind a TLS proxy that doesn't tell it so names itself with http.
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
        let mut login = Call::new(Method::POST, home.clone());
        login.body = Bytes::from_static(b"refresh_token=x");
        let upload = Call { method: Method::PUT, ..login.clone() };
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
