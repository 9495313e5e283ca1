//! One registry: how it is reached, and requests to it that log in if the registry asks for it.

use std::borrow::Cow;
use std::collections::HashMap;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex};
use std::time::Instant;

use reqwest::Method;
use tokio::sync::OnceCell;
use url::Url;

use crate::auth::keyring::Keyring;
use crate::auth::login_key::normal_host;
use crate::auth::token::Scopes;
use crate::auth::{Auth, Ticket};
use crate::error::Error;
use crate::http::{
    Proxies, RetryDecision, RetryPolicy, decide_retry, is_loopback, jitter, same_origin,
};
use crate::store::BlobStream;
use crate::transport::certs::CertDirs;
use crate::transport::request::{Request, Response, Timeouts, no_response};
use crate::transport::{StreamError, Transport};

/// How a registry is connected to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Trust {
    /// TLS, its certificate checked.
    Verified,
    /// TLS with any certificate, else plain HTTP: what `insecure` means to containers' tools.
    Insecure,
    /// Plain HTTP: a registry on loopback for which there are no certificates.
    Plain,
}

/// What all endpoints of a client share.
#[derive(Debug)]
pub(crate) struct Settings {
    pub keyring: Arc<Keyring>,
    pub proxies: Arc<Proxies>,
    pub certs: CertDirs,
    pub tls_verify: bool,
    pub timeouts: Timeouts,
    pub policy: RetryPolicy,
}

/// One registry.
#[derive(Debug)]
pub(crate) struct Endpoint {
    transport: Transport,
    auth: Auth,
    trust: Trust,
    base: OnceCell<Url>,
}

/// How often a request is repeated after a 401: to log in, and because a token has just expired.
const MAX_LOGINS: u32 = 2;

impl Endpoint {
    pub fn new(
        host: &str,
        insecure: bool,
        settings: &Settings,
        policy: RetryPolicy,
    ) -> Result<Self, Error> {
        let certificates = settings.certs.read(host)?;
        let loopback = Url::parse(&format!("http://{host}/"))
            .is_ok_and(|url| url.host().is_some_and(|host| is_loopback(&host)));
        let insecure = insecure || !settings.tls_verify;
        let trust = if insecure {
            Trust::Insecure
        } else if loopback && certificates.is_none() {
            Trust::Plain
        } else {
            Trust::Verified
        };
        let mut certificates = certificates.unwrap_or_default();
        let everywhere = settings.certs.read_everywhere()?;
        certificates.authorities.extend(everywhere.authorities);
        Ok(Self {
            transport: Transport {
                host: host.to_owned(),
                certificates,
                verify: trust != Trust::Insecure,
                proxies: Arc::clone(&settings.proxies),
                timeouts: settings.timeouts,
                policy,
                clients: Mutex::new(HashMap::new()),
                remote: AtomicBool::new(false),
            },
            auth: Auth::new(normal_host(host), Arc::clone(&settings.keyring)),
            trust,
            base: OnceCell::new(),
        })
    }

    pub fn host(&self) -> &str {
        &self.transport.host
    }

    pub fn policy(&self) -> &RetryPolicy {
        &self.transport.policy
    }

    pub fn timeouts(&self) -> &Timeouts {
        &self.transport.timeouts
    }

    /// `https://host/` or `http://host/`; if that isn't certain, it is tried once.
    async fn base(&self) -> Result<&Url, Error> {
        self.base
            .get_or_try_init(|| async {
                match self.trust {
                    Trust::Verified => self.root("https"),
                    Trust::Plain => self.root("http"),
                    Trust::Insecure => self.probe().await,
                }
            })
            .await
    }

    fn root(&self, scheme: &str) -> Result<Url, Error> {
        let host = match normal_host(self.host()) {
            "docker.io" => "registry-1.docker.io",
            _ => self.host(),
        };
        Url::parse(&format!("{scheme}://{host}/"))
            .map_err(|e| Error::Unreachable { host: self.host().to_owned(), cause: e.to_string() })
    }

    async fn probe(&self) -> Result<Url, Error> {
        let began = Instant::now();
        let mut attempt = 0;
        loop {
            attempt += 1;
            let mut failed = None;
            for scheme in ["https", "http"] {
                let root = self.root(scheme)?;
                let ping = root.join("v2/").expect("a relative path joins");
                match self.transport.once(&Request::new(Method::GET, ping), None).await {
                    Ok(_) => return Ok(root),
                    Err(broken) => failed = Some(broken),
                }
            }
            let failed = failed.expect("two schemes were tried");
            match decide_retry(
                failed.outcome,
                attempt,
                began.elapsed(),
                &self.transport.policy,
                jitter(),
            ) {
                RetryDecision::RetryAfter(pause) => tokio::time::sleep(pause).await,
                RetryDecision::Return | RetryDecision::GiveUp => {
                    return Err(no_response(failed, self.host(), attempt));
                }
            }
        }
    }

    /// Whether the registry answers at all; a request to log in is an answer.
    pub async fn ping(&self) -> Result<(), Error> {
        let root = self.base().await?;
        let ping = root.join("v2/").expect("a relative path joins");
        let answer = self.transport.send(&Request::new(Method::GET, ping), None).await?;
        if answer.status == 400 && self.wants_tls().await {
            return Err(Error::TlsOnLoopback { host: self.host().to_owned() });
        }
        Ok(())
    }

    /// The URL of something in a repository.
    pub async fn url(&self, repository: &str, rest: &str) -> Result<Url, Error> {
        let path = format!("v2/{repository}/{rest}");
        Ok(self.base().await?.join(&path).expect("names and digests are valid in a path"))
    }

    /// Sends a request, logs in if the registry asks for it, and retries transient errors.
    pub async fn send(
        &self,
        call: &Request,
        scopes: &Scopes,
        repository: &str,
    ) -> Result<Response, Error> {
        self.send_with_login(call, scopes, repository, true).await
    }

    /// The same without retries: for requests that mean something else when they are repeated.
    pub async fn send_once(
        &self,
        call: &Request,
        scopes: &Scopes,
        repository: &str,
    ) -> Result<Response, Error> {
        self.send_with_login(call, scopes, repository, false).await
    }

    async fn send_with_login(
        &self,
        call: &Request,
        scopes: &Scopes,
        repository: &str,
        retry: bool,
    ) -> Result<Response, Error> {
        let base = self.base().await?;
        let home = same_origin(&call.url, base);
        let call = if home {
            Cow::Borrowed(call)
        } else {
            // An upload may go to another server, without the credentials.
            Cow::Owned(Request { by_server: true, ..call.clone() })
        };
        let mut logins = 0;
        let mut refused = None;
        loop {
            let ticket = if home {
                self.auth.ticket(&self.transport, scopes, repository).await?
            } else {
                None
            };
            let header = ticket.as_ref().map(|t| &t.header);
            if let Some(refused) = refused.filter(|_| header.is_none()) {
                // The registry asks for a login, and there are no credentials.
                return Ok(refused);
            }
            let answer = if retry {
                self.transport.send(&call, header).await?
            } else {
                let sent = self.transport.once(&call, header).await;
                sent.map_err(|broken| no_response(broken, self.host(), 1))?
            };
            if answer.status == 401 && same_origin(&answer.url, base) && logins < MAX_LOGINS {
                logins += 1;
                if self.read_challenge(&answer, scopes, ticket.as_ref()).await? {
                    refused = Some(answer);
                    continue;
                }
            }
            return Ok(answer);
        }
    }

    /// Whether a 401 of the registry itself said how to log in. If not, `/v2/` is asked, which must
    /// answer so (OCI distribution spec, determining support).
    async fn read_challenge(
        &self,
        answer: &Response,
        scopes: &Scopes,
        ticket: Option<&Ticket>,
    ) -> Result<bool, Error> {
        let base = self.base().await?;
        if self.auth.challenged(&answer.headers, scopes, ticket, base) {
            return Ok(true);
        }
        let ping = Request::new(Method::GET, base.join("v2/").expect("a relative path joins"));
        let answer = self.transport.send(&ping, None).await?;
        // After a redirect, another server must not decide where the credentials go.
        let own = answer.status == 401 && same_origin(&answer.url, base);
        Ok(own && self.auth.challenged(&answer.headers, scopes, None, base))
    }

    /// Sends a stream, once. The challenge of a 401 is remembered, and the 401 returned.
    pub async fn stream(
        &self,
        call: &Request,
        length: u64,
        body: BlobStream<Error>,
        scopes: &Scopes,
        repository: &str,
    ) -> Result<Response, StreamError> {
        let source = StreamError::Source;
        let base = self.base().await.map_err(source)?;
        let home = same_origin(&call.url, base);
        let ticket = if home {
            self.auth.ticket(&self.transport, scopes, repository).await.map_err(source)?
        } else {
            None
        };
        let header = ticket.as_ref().map(|t| &t.header);
        let call = Request { by_server: !home, ..call.clone() };
        let answer = self.transport.stream(&call, length, body, header).await?;
        if answer.status == 401 && home {
            self.auth.challenged(&answer.headers, scopes, ticket.as_ref(), base);
        }
        Ok(answer)
    }

    /// The error for a response other than success.
    pub async fn response_error(
        &self,
        answer: &Response,
        image: &str,
        repository: &str,
        doing: &'static str,
    ) -> Error {
        let image = image.to_owned();
        match answer.status {
            status @ (401 | 403) => Error::Denied {
                image,
                status,
                with: self.credentials_origin(answer, repository).await,
                message: answer.message(),
            },
            404 => Error::NotFound { image, message: answer.message() },
            429 => Error::TooManyRequests { host: self.host().to_owned(), tries: 1 },
            status @ 500..=599 => Error::Server {
                host: self.host().to_owned(),
                status,
                tries: 1,
                message: answer.message(),
            },
            400 if self.wants_tls().await => Error::TlsOnLoopback { host: self.host().to_owned() },
            status => Error::Unexpected {
                image,
                host: self.host().to_owned(),
                doing,
                status,
                message: answer.message(),
            },
        }
    }

    /// The origin of a refused request's credentials; other servers than the registry get none.
    async fn credentials_origin(&self, answer: &Response, repository: &str) -> String {
        match self.base().await {
            Ok(base) if !same_origin(&answer.url, base) => format!(
                "without credentials, at {}, to which the registry led",
                answer.url.origin().ascii_serialization()
            ),
            _ => self.auth.origin(repository).await,
        }
    }

    /// Whether a 400 came because plain HTTP was sent to a registry with TLS.
    async fn wants_tls(&self) -> bool {
        if self.trust != Trust::Plain {
            return false;
        }
        let Ok(root) = self.root("https") else {
            return false;
        };
        let ping = root.join("v2/").expect("a relative path joins");
        match self.transport.once(&Request::new(Method::GET, ping), None).await {
            Ok(_) => true,
            Err(broken) => broken.tls && !broken.is_plain_http(),
        }
    }
}

#[cfg(test)]
mod tests;
