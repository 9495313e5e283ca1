//! One try to fetch something, with its redirects.

use std::time::{Duration, SystemTime};

use bytes::{Bytes, BytesMut};
use reqwest::header::{
    ACCEPT, ACCEPT_ENCODING, CONTENT_LENGTH, HOST, HeaderMap, HeaderName, HeaderValue, LOCATION,
    RETRY_AFTER, TRAILER, TRANSFER_ENCODING,
};
use reqwest::{Response, StatusCode};
use url::Url;

use super::headers::HostHeaders;
use mosb_ignition::snapshot::{MAX_RESPONSE_SIZE, Request};
use mosb_registry::http::{
    AttemptOutcome, ForbiddenAddress, Proxies, RequestError, UrlSource, retry_after, same_origin,
};

/// Redirects that are followed; the default of Go.
pub(super) const REDIRECTS: usize = 10;

/// How a try ended.
#[derive(Debug)]
pub(super) enum AttemptResult {
    Body(Bytes),
    /// Any other response.
    Status {
        status: u16,
        retry_after: Option<Duration>,
    },
    /// More than [`MAX_RESPONSE_SIZE`].
    TooLarge,
    /// More than [`REDIRECTS`].
    TooManyRedirects,
}

/// One attempt at a request, and the URL that it has come to.
#[derive(Debug)]
pub(super) struct Attempt<'r> {
    request: &'r Request,
    extra: &'r HostHeaders,
    proxies: &'r Proxies,
    pub url: Url,
    /// Whether a redirect led to another server.
    left_host: bool,
    /// Whether every server so far answered from loopback.
    on_loopback: bool,
}

impl<'r> Attempt<'r> {
    pub fn new(request: &'r Request, extra: &'r HostHeaders, proxies: &'r Proxies) -> Self {
        let url = request.url().clone();
        Self { request, extra, proxies, url, left_host: false, on_loopback: true }
    }

    /// Follows redirects to the last response. `client` returns the client for a URL.
    pub async fn run(
        &mut self,
        client: impl Fn(&Url, UrlSource) -> Result<reqwest::Client, RequestError>,
    ) -> Result<AttemptResult, RequestError> {
        for hop in 0..=REDIRECTS {
            let sending = client(&self.url, self.url_source()?)?
                .get(self.url.clone())
                .headers(self.headers(hop == 0))
                .send();
            let response = match self.request.settings().response_headers {
                Some(limit) => tokio::time::timeout(limit, sending)
                    .await
                    .map_err(|_| RequestError::new(AttemptOutcome::TimedOut, "no answer"))?,
                None => sending.await,
            }?;
            self.on_loopback &= self.proxies.answered_on_loopback(&response, &self.url);
            match redirect(&response, &self.url) {
                Some(next) => {
                    self.left_host |= !same_origin(&next, self.request.url());
                    self.url = next;
                }
                None => return receive(response).await,
            }
        }
        Ok(AttemptResult::TooManyRedirects)
    }

    /// A link-local address is another server to each machine, so an image can't hold its contents.
    fn url_source(&self) -> Result<UrlSource, ForbiddenAddress> {
        UrlSource::LoopbackServer.check(&self.url)?;
        Ok(UrlSource::of(self.left_host, self.on_loopback))
    }

    /// The config's own headers are for the URL that it names; those for a host are sent until a
    /// redirect leads to another host.
    fn headers(&self, first: bool) -> HeaderMap {
        // Headers of the connection, which Go's client doesn't let callers set.
        const NOT_SENT: [HeaderName; 4] = [HOST, CONTENT_LENGTH, TRANSFER_ENCODING, TRAILER];
        let mut headers = HeaderMap::new();
        headers.insert(ACCEPT, HeaderValue::from_static(self.request.accept()));
        headers.insert(ACCEPT_ENCODING, HeaderValue::from_static("identity"));
        for (name, value) in self.request.headers().iter().filter(|_| first) {
            let name =
                HeaderName::from_bytes(name.as_bytes()).expect("a request has no other names");
            let mut value =
                HeaderValue::from_bytes(value.as_bytes()).expect("a request has no other values");
            value.set_sensitive(true);
            headers.insert(name, value);
        }
        if let Some(extra) = self.extra.of(&self.url).filter(|_| !self.left_host) {
            headers.extend(extra.clone());
        }
        for name in NOT_SENT {
            headers.remove(name);
        }
        headers
    }
}

/// Where a response redirects to; `None` if nothing can be fetched there, and then its status is
/// the error.
fn redirect(response: &Response, from: &Url) -> Option<Url> {
    // Those that Go follows.
    if !matches!(response.status().as_u16(), 301 | 302 | 303 | 307 | 308) {
        return None;
    }
    let location = response.headers().get(LOCATION)?.to_str().ok()?;
    let next = from.join(location).ok()?;
    (matches!(next.scheme(), "http" | "https") && next.has_host()).then_some(next)
}

async fn receive(mut response: Response) -> Result<AttemptResult, RequestError> {
    let status = response.status();
    if !matches!(status, StatusCode::OK | StatusCode::NO_CONTENT) {
        let asked = response.headers().get(RETRY_AFTER);
        let asked = asked.and_then(|value| value.to_str().ok());
        return Ok(AttemptResult::Status {
            status: status.as_u16(),
            retry_after: asked.and_then(|value| retry_after(value, SystemTime::now())),
        });
    }
    if response.content_length().is_some_and(|length| length > MAX_RESPONSE_SIZE) {
        return Ok(AttemptResult::TooLarge);
    }
    let mut body = BytesMut::new();
    while let Some(chunk) = response.chunk().await? {
        if (body.len() + chunk.len()) as u64 > MAX_RESPONSE_SIZE {
            return Ok(AttemptResult::TooLarge);
        }
        body.extend_from_slice(&chunk);
    }
    Ok(AttemptResult::Body(body.freeze()))
}
