//! Makes HTTP clients with the TLS, proxy and address rules that all requests follow, and the error
//! of a request without a response.

use std::sync::Arc;
use std::time::Duration;

use mosb_types::error_text;
use url::Url;

use super::proxy::Proxies;
use super::retry::AttemptOutcome;
use super::url_source::{CheckedResolver, ForbiddenAddress, SystemResolver, UrlSource};

/// Which server certificates are accepted.
#[derive(Debug, Clone)]
pub enum Trust {
    /// None: for plain HTTP, so that it also works on machines without certificates.
    NoRoots,
    /// Those signed by the system's CAs or by these.
    System(Vec<reqwest::Certificate>),
    /// Any; verification is off.
    AnyCertificate,
}

/// A client that follows no redirects, uses only these proxies, and connects only to addresses that
/// `url_source` allows.
pub fn client(
    user_agent: &str,
    trust: Trust,
    identity: Option<reqwest::Identity>,
    proxies: Arc<Proxies>,
    url_source: UrlSource,
    connect: Duration,
) -> Result<reqwest::Client, RequestError> {
    let resolver = CheckedResolver {
        url_source,
        proxies: Arc::clone(&proxies),
        lookup: Arc::new(SystemResolver),
    };
    let mut builder = reqwest::Client::builder()
        .user_agent(user_agent)
        .redirect(reqwest::redirect::Policy::none())
        .dns_resolver(resolver)
        .no_proxy()
        .proxy(reqwest::Proxy::custom(move |url| proxies.of(url)))
        .connect_timeout(connect)
        .tcp_keepalive(Duration::from_secs(30));
    builder = match trust {
        Trust::NoRoots => builder.tls_certs_only([]),
        Trust::AnyCertificate => builder.tls_danger_accept_invalid_certs(true),
        Trust::System(more) => builder.tls_certs_merge(more),
    };
    if let Some(identity) = identity {
        builder = builder.identity(identity);
    }
    builder.build().map_err(|e| RequestError {
        tls: true,
        ..RequestError::new(AttemptOutcome::Fatal, root_cause(&e))
    })
}

/// Whether scheme, host and port are equal.
pub fn same_origin(a: &Url, b: &Url) -> bool {
    a.scheme() == b.scheme()
        && a.host_str() == b.host_str()
        && a.port_or_known_default() == b.port_or_known_default()
}

/// rustls' error for a response that does not begin like TLS, such as plain HTTP.
const NO_TLS: &str = "InvalidContentType";

/// The error of one attempt without a response.
#[derive(Debug)]
pub struct RequestError {
    pub outcome: AttemptOutcome,
    /// Whether the TLS handshake failed.
    pub tls: bool,
    /// The root cause, without URLs.
    pub cause: String,
}

impl RequestError {
    pub fn new(outcome: AttemptOutcome, cause: impl Into<String>) -> Self {
        Self { outcome, tls: false, cause: cause.into() }
    }

    /// Whether the server doesn't speak TLS at all.
    pub fn is_plain_http(&self) -> bool {
        self.tls && self.cause.contains(NO_TLS)
    }
}

/// The cause below this one. An io error's own `source` skips the error that it wraps.
fn below<'a>(
    error: &'a (dyn std::error::Error + 'static),
) -> Option<&'a (dyn std::error::Error + 'static)> {
    match error.downcast_ref::<std::io::Error>().and_then(|e| e.get_ref()) {
        Some(wrapped) => Some(wrapped),
        None => error.source(),
    }
}

/// The innermost cause: the outer ones say only that something failed, and may hold a URL with a
/// token in it.
pub fn root_cause(error: &(dyn std::error::Error + 'static)) -> String {
    let mut cause = error;
    while let Some(next) = below(cause) {
        cause = next;
    }
    error_text(cause)
}

impl From<ForbiddenAddress> for RequestError {
    fn from(error: ForbiddenAddress) -> Self {
        Self::new(AttemptOutcome::Fatal, error.to_string())
    }
}

impl From<reqwest::Error> for RequestError {
    fn from(error: reqwest::Error) -> Self {
        let error = error.without_url();
        let (mut tls, mut forbidden) = (false, false);
        let mut source = std::error::Error::source(&error);
        while let Some(cause) = source {
            // tokio-rustls wraps every failure of a handshake so.
            tls |= cause
                .downcast_ref::<std::io::Error>()
                .is_some_and(|e| e.kind() == std::io::ErrorKind::InvalidData);
            forbidden |= cause.is::<ForbiddenAddress>();
            source = below(cause);
        }
        let outcome = if error.is_timeout() {
            AttemptOutcome::TimedOut
        } else if error.is_builder() || (error.is_connect() && tls) || forbidden {
            AttemptOutcome::Fatal
        } else if error.is_connect() {
            AttemptOutcome::NoConnection
        } else {
            AttemptOutcome::Cut
        };
        RequestError { outcome, tls: tls && error.is_connect(), cause: root_cause(&error) }
    }
}
