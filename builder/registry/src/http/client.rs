//! Makes HTTP clients with the TLS, proxy and address rules that all requests follow.

use std::sync::Arc;
use std::time::Duration;

use url::Url;

use super::proxy::Proxies;
use super::request_error::{RequestError, root_cause};
use super::retry::AttemptOutcome;
use super::url_source::{CheckedResolver, SystemResolver, UrlSource};

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
