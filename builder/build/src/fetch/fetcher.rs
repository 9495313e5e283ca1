//! The fetcher: created once from plain options, shared by all fetches.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use bytes::Bytes;
use futures_util::{StreamExt as _, stream};
use reqwest::Certificate;
use url::Url;

use super::attempt::{Attempt, AttemptResult, REDIRECTS};
use super::error::{Asked, Error};
use super::headers::HostHeaders;
use mosb_ignition::snapshot::{
    Contents, MAX_REFERENCES, MAX_RESPONSE_SIZE, MAX_TOTAL_SIZE, Proxy, Reference, Request,
    without_credentials,
};
use mosb_registry::http::{
    self, AttemptOutcome, Proxies, ProxyVariables, RequestError, RetryDecision, RetryPolicy, Trust,
    UrlSource, decide_retry, jitter,
};
use mosb_types::Secret;

/// Options of a fetcher. This module reads no environment variables and no files; the command line
/// does.
#[derive(Debug, Clone)]
pub struct Options {
    /// `--http-headers-file`.
    pub headers: HostHeaders,
    /// `--ca`: PEM.
    pub authorities: Option<Bytes>,
    /// `--timeout`: for one reference, tries and pauses included.
    pub timeout: Duration,
    /// The proxy variables, for configs that name no proxy.
    pub proxy: ProxyVariables,
    /// References that are fetched at once.
    pub parallel: usize,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            headers: HostHeaders::default(),
            authorities: None,
            timeout: Duration::from_secs(60),
            proxy: ProxyVariables::default(),
            parallel: 8,
        }
    }
}

/// Connections, shared by all references that want the same proxy and trust the same authorities.
#[derive(Debug)]
pub struct Fetcher {
    options: Options,
    authorities: Vec<Certificate>,
    proxies: Arc<Proxies>,
    clients: Mutex<HashMap<ClientKey, reqwest::Client>>,
}

/// Proxy, authorities, whether it is for https, and where it may connect to.
type ClientKey = (Proxy, Vec<Bytes>, bool, UrlSource);

/// The name that servers know, and our own.
const USER_AGENT: &str = concat!("Ignition/2.24.0 mosb/", env!("CARGO_PKG_VERSION"));
/// `internal/resource/http.go` of Ignition 2.24: limit of a connection attempt.
const CONNECT: Duration = Duration::from_secs(30);
/// The same: pauses between tries.
const FIRST_PAUSE: Duration = Duration::from_millis(200);
const LONGEST_PAUSE: Duration = Duration::from_secs(5);

/// Whether a config names proxies of its own.
fn has_proxy(proxy: &Proxy) -> bool {
    proxy.http.is_some() || proxy.https.is_some()
}

impl Fetcher {
    /// Connects to nothing yet.
    ///
    /// # Errors
    /// Invalid proxy variables or authorities.
    pub fn new(options: Options) -> Result<Self, Error> {
        let authorities = match &options.authorities {
            Some(pem) => certificates(pem).ok_or(Error::CaFile)?,
            None => Vec::new(),
        };
        Ok(Self {
            proxies: Arc::new(Proxies::new(&options.proxy)?),
            authorities,
            clients: Mutex::default(),
            options,
        })
    }

    /// Fetches all of these, several at once, and adds them to the contents.
    ///
    /// Dropping the future ends all fetches. Complete ones remain in the contents.
    ///
    /// # Errors
    /// All that could not be fetched; the others are in the contents.
    pub async fn fetch_all(
        &self,
        references: &[Reference],
        contents: &mut Contents,
    ) -> Result<(), Error> {
        let left = MAX_REFERENCES.saturating_sub(contents.count());
        if let Some(first) = references.get(left) {
            return Err(Error::TooMany {
                asked: Asked::of(first),
                found: contents.count() + references.len(),
                limit: MAX_REFERENCES,
            });
        }
        let fetches = references
            .iter()
            .enumerate()
            .map(|(n, reference)| async move { (n, self.fetch(reference).await) });
        // Made before the first is awaited: a stream that makes them can't be sent to another
        // thread.
        let fetches: Vec<_> = fetches.collect();
        let mut answers = stream::iter(fetches).buffer_unordered(self.options.parallel.max(1));
        let (mut errors, mut size) = (Vec::new(), contents.size());
        while let Some((n, answer)) = answers.next().await {
            match answer {
                Ok(bytes) => {
                    size += bytes.len() as u64;
                    if size > MAX_TOTAL_SIZE {
                        return Err(Error::TotalTooLarge {
                            asked: Asked::of(&references[n]),
                            limit: MAX_TOTAL_SIZE,
                        });
                    }
                    contents.insert(references[n].request().clone(), bytes);
                }
                Err(error) => errors.push((n, error)),
            }
        }
        errors.sort_by_key(|(n, _)| *n);
        let errors = errors.into_iter().map(|(_, error)| error).collect();
        Error::all(errors).map_or(Ok(()), Err)
    }

    /// Fetches one reference; retries transient failures within its time limit.
    ///
    /// # Errors
    /// Why it can't be fetched.
    pub async fn fetch(&self, reference: &Reference) -> Result<Bytes, Error> {
        let request = reference.request();
        let timeout = self.options.timeout;
        let total = request.settings().total.map_or(timeout, |t| t.min(timeout));
        let policy = RetryPolicy { tries: u32::MAX, first: FIRST_PAUSE, cap: LONGEST_PAUSE, total };
        let trust = self.trust(reference)?;
        let proxies = self.proxies(reference)?;
        let began = Instant::now();
        let mut tries = 0;
        loop {
            tries += 1;
            let mut attempt = Attempt::new(request, &self.options.headers, &proxies);
            let client =
                |url: &Url, url_source| self.client(request, url, url_source, &trust, &proxies);
            let left = total.saturating_sub(began.elapsed());
            let result = match tokio::time::timeout(left, attempt.run(client)).await {
                Ok(result) => result,
                Err(_) => Err(RequestError::new(AttemptOutcome::TimedOut, "no answer in time")),
            };
            let outcome = match &result {
                Ok(
                    AttemptResult::Body(_)
                    | AttemptResult::TooLarge
                    | AttemptResult::TooManyRedirects,
                ) => AttemptOutcome::Fatal,
                Ok(AttemptResult::Status { status, retry_after }) => {
                    AttemptOutcome::Status { status: *status, retry_after: *retry_after }
                }
                Err(broken) => broken.outcome,
            };
            if let RetryDecision::RetryAfter(pause) =
                decide_retry(outcome, tries, began.elapsed(), &policy, jitter())
            {
                tracing::debug!(%reference, ?outcome, ?pause, "trying again");
                tokio::time::sleep(pause).await;
                continue;
            }
            let mut asked = Asked::of(reference);
            asked.redirected =
                (attempt.url != *request.url()).then(|| without_credentials(attempt.url.as_str()));
            return match result {
                Ok(AttemptResult::Body(bytes)) => Ok(bytes),
                Ok(AttemptResult::TooLarge) => {
                    Err(Error::TooLarge { asked, limit: MAX_RESPONSE_SIZE })
                }
                Ok(AttemptResult::TooManyRedirects) => {
                    Err(Error::TooManyRedirects { asked, most: REDIRECTS })
                }
                Ok(AttemptResult::Status { status, .. }) => {
                    Err(self.answered(asked, status, tries, &attempt.url))
                }
                Err(broken) => Err(no_response(broken, asked, total, tries)),
            };
        }
    }

    fn answered(&self, asked: Asked, status: u16, tries: u32, url: &Url) -> Error {
        match status {
            404 | 410 => Error::NotFound { asked, status },
            401 | 403 | 407 => Error::Denied {
                asked,
                status,
                remedy: if self.options.headers.are_held_back(url) {
                    "the headers for this host are not sent without TLS; use https"
                } else {
                    "give the header that it wants in --http-headers-file or in httpHeaders"
                },
            },
            408 | 425 | 429 => Error::TooManyRequests { asked, status, tries },
            500..=599 => Error::Server { asked, status, tries },
            status => Error::Refused { asked, status },
        }
    }

    /// The authorities to trust: those of `--ca` and of the config.
    fn trust(&self, reference: &Reference) -> Result<Vec<Certificate>, Error> {
        let mut all = self.authorities.clone();
        for pem in &reference.request().settings().authorities {
            let found = certificates(pem)
                .ok_or_else(|| Error::Authority { asked: Asked::of(reference) })?;
            all.extend(found);
        }
        Ok(all)
    }

    /// The config's proxies, else those of the environment.
    fn proxies(&self, reference: &Reference) -> Result<Arc<Proxies>, Error> {
        let proxy = &reference.request().settings().proxy;
        if !has_proxy(proxy) {
            return Ok(Arc::clone(&self.proxies));
        }
        let variables = ProxyVariables {
            http: proxy.http.clone().map(Secret::new),
            https: proxy.https.clone().map(Secret::new),
            no_proxy: Some(proxy.no_proxy.join(",")),
        };
        match Proxies::new(&variables) {
            Ok(proxies) => Ok(Arc::new(proxies)),
            Err(_) => Err(Error::Proxy { asked: Asked::of(reference) }),
        }
    }

    fn client(
        &self,
        request: &Request,
        url: &Url,
        url_source: UrlSource,
        authorities: &[Certificate],
        proxies: &Arc<Proxies>,
    ) -> Result<reqwest::Client, RequestError> {
        url_source.check(url)?;
        let https = url.scheme() == "https";
        let settings = request.settings();
        // The config's author names the proxy, so the same addresses are forbidden as for a URL.
        let of_config = has_proxy(&settings.proxy).then(|| proxies.of(url));
        if let Some(proxy) = of_config.flatten() {
            UrlSource::LoopbackServer.check(&proxy)?;
        }
        let key = (settings.proxy.clone(), settings.authorities.clone(), https, url_source);
        let mut clients = self.clients.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(client) = clients.get(&key) {
            return Ok(client.clone());
        }
        let trust = if https { Trust::System(authorities.to_vec()) } else { Trust::NoRoots };
        let proxies = Arc::clone(proxies);
        let client = http::client(USER_AGENT, trust, None, proxies, url_source, CONNECT)?;
        clients.insert(key, client.clone());
        Ok(client)
    }
}

/// The certificates of a text in PEM; none if there is none, or one of them is broken.
fn certificates(pem: &[u8]) -> Option<Vec<Certificate>> {
    let found = Certificate::from_pem_bundle(pem).ok()?;
    (!found.is_empty()).then_some(found)
}

fn no_response(broken: RequestError, asked: Asked, after: Duration, tries: u32) -> Error {
    match broken.outcome {
        _ if broken.is_plain_http() => {
            Error::Tls { asked, cause: "the server answers in plain HTTP".to_owned() }
        }
        _ if broken.tls => Error::Tls { asked, cause: broken.cause },
        AttemptOutcome::TimedOut => Error::TimedOut { asked, after, tries },
        _ => Error::Unreachable { asked, cause: broken.cause },
    }
}

/// The error of references with `--offline`; `None` if there are none.
pub fn offline(references: &[Reference]) -> Option<Error> {
    let each = references.iter().map(|reference| Error::Offline { asked: Asked::of(reference) });
    Error::all(each.collect())
}
