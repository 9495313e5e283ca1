//! The one way to make an HTTP client.

use std::sync::Arc;
use std::time::Duration;

use url::Url;

use super::broken::{Broken, deepest};
use super::named_by::{CheckedResolver, NamedBy, SystemResolver};
use super::proxy::Proxies;
use super::retry::Outcome;

/// Whose certificates are good.
#[derive(Debug, Clone)]
pub enum Trust {
    /// No one's: for plain HTTP, so that a machine without any certificates can talk.
    Nobody,
    /// Those of the system's authorities and of these.
    System(Vec<reqwest::Certificate>),
    /// Everyone's.
    Anybody,
}

/// A client that follows no redirects, uses these proxies only, connects only where `named_by` may lead, and keeps its
/// connections.
pub fn client(
    user_agent: &str,
    trust: Trust,
    identity: Option<reqwest::Identity>,
    proxies: Arc<Proxies>,
    named_by: NamedBy,
    connect: Duration,
) -> Result<reqwest::Client, Broken> {
    let resolver = CheckedResolver {
        named_by,
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
        Trust::Nobody => builder.tls_certs_only([]),
        Trust::Anybody => builder.tls_danger_accept_invalid_certs(true),
        Trust::System(more) => builder.tls_certs_merge(more),
    };
    if let Some(identity) = identity {
        builder = builder.identity(identity);
    }
    builder.build().map_err(|e| Broken { tls: true, ..Broken::new(Outcome::Fatal, deepest(&e)) })
}

/// Whether two URLs are of one server: scheme, host and port.
pub fn same_origin(a: &Url, b: &Url) -> bool {
    a.scheme() == b.scheme()
        && a.host_str() == b.host_str()
        && a.port_or_known_default() == b.port_or_known_default()
}
