//! Which addresses a URL may resolve to, by its source. A server that redirects or names a token
//! server must not make this process send requests to this machine or its network (SSRF).

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::Arc;

use reqwest::dns::{Addrs, Name, Resolve, Resolving};
use url::{Host, Url};

use super::proxy::{Proxies, is_loopback};

/// The source of a URL.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum UrlSource {
    /// The user. A DNS name must still not resolve to a link-local address: its owner may be the
    /// attacker.
    User,
    /// A server on loopback: neither the network nor its owner learns more from it than from the
    /// server itself.
    LoopbackServer,
    /// Any other server: not on loopback either.
    Server,
}

/// An address that must not be contacted.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ForbiddenAddress {
    #[error("{0} is a link-local or cloud metadata address; names and servers must not lead to it")]
    LinkLocal(String),
    #[error("{0} is on loopback, but the server that named it is not")]
    Loopback(String),
}

impl UrlSource {
    /// Of a URL that the user or a server named, which is on loopback or not.
    pub fn of(by_server: bool, on_loopback: bool) -> Self {
        match (by_server, on_loopback) {
            (false, _) => Self::User,
            (true, true) => Self::LoopbackServer,
            (true, false) => Self::Server,
        }
    }

    /// Whether the host of a URL may be asked, as far as it can be said before its name is
    /// resolved.
    pub fn check(self, url: &Url) -> Result<(), ForbiddenAddress> {
        if self == Self::User {
            return Ok(());
        }
        let Some(host) = url.host() else {
            return Ok(());
        };
        match host {
            Host::Ipv4(ip) => self.check_address(&ip.to_string(), ip.into()),
            Host::Ipv6(ip) => self.check_address(&ip.to_string(), ip.into()),
            Host::Domain(name) if is_loopback(&host) => {
                self.check_address(name, Ipv4Addr::LOCALHOST.into())
            }
            Host::Domain(_) => Ok(()),
        }
    }

    /// Whether an address of a host may be asked.
    fn check_address(self, host: &str, ip: IpAddr) -> Result<(), ForbiddenAddress> {
        let ip = embedded_v4(ip);
        let shown = || match host.parse::<IpAddr>() {
            Ok(_) => host.to_owned(),
            Err(_) => format!("{host} ({ip})"),
        };
        if is_link_local(ip) {
            return Err(ForbiddenAddress::LinkLocal(shown()));
        }
        // Linux takes the unspecified address for loopback.
        if self == Self::Server && (ip.is_loopback() || ip.is_unspecified()) {
            return Err(ForbiddenAddress::Loopback(shown()));
        }
        Ok(())
    }
}

/// Link-local, or an address at which clouds hand out credentials to the machine that asks; those
/// of `deploy/base/network-policy.yaml`.
fn is_link_local(ip: IpAddr) -> bool {
    match embedded_v4(ip) {
        IpAddr::V4(ip) => {
            ip.is_link_local()
                // Azure's WireServer; Alibaba.
                || ip == Ipv4Addr::new(168, 63, 129, 16)
                || ip == Ipv4Addr::new(100, 100, 100, 200)
        }
        IpAddr::V6(ip) => {
            ip.is_unicast_link_local()
                // AWS: fd00:ec2::/32; Google.
                || ip.segments()[..2] == [0xfd00, 0xec2]
                || ip == Ipv6Addr::new(0xfd20, 0xce, 0, 0, 0, 0, 0, 0x254)
        }
    }
}

/// The IPv4 address inside an IPv6 address: mapped (`::ffff:a.b.c.d`), compatible, or NAT64
/// (`64:ff9b::/96`).
fn embedded_v4(ip: IpAddr) -> IpAddr {
    let IpAddr::V6(v6) = ip else {
        return ip;
    };
    if v6.is_loopback() || v6.is_unspecified() {
        return ip;
    }
    let [.., high, low] = v6.segments();
    let nat64 = v6.segments()[..6] == [0x64, 0xff9b, 0, 0, 0, 0];
    if nat64 {
        let (high, low) = (high.to_be_bytes(), low.to_be_bytes());
        return Ipv4Addr::new(high[0], high[1], low[0], low[1]).into();
    }
    v6.to_ipv4().map_or(ip, IpAddr::V4)
}

/// Resolves names as the system does, and drops the addresses that must not be asked. A name that
/// resolves to another address the next time is checked again: what is connected to is what was
/// checked.
pub(super) struct CheckedResolver {
    pub url_source: UrlSource,
    pub proxies: Arc<Proxies>,
    /// The system's, except in tests.
    pub lookup: Arc<dyn Resolve>,
}

impl Resolve for CheckedResolver {
    fn resolve(&self, name: Name) -> Resolving {
        let host = name.as_str().to_owned();
        // The user names proxies, or the author of a config does.
        let url_source = if self.proxies.are_at(&host) { UrlSource::User } else { self.url_source };
        let resolving = self.lookup.resolve(name);
        Box::pin(async move {
            let all = resolving.await?;
            let mut forbidden = None;
            let mut allowed = Vec::new();
            for address in all {
                match url_source.check_address(&host, address.ip()) {
                    Ok(()) => allowed.push(address),
                    Err(error) => forbidden = Some(error),
                }
            }
            match (allowed.is_empty(), forbidden) {
                (true, Some(error)) => Err(error.into()),
                _ => Ok(Box::new(allowed.into_iter()) as Addrs),
            }
        })
    }
}

impl fmt::Debug for CheckedResolver {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CheckedResolver")
            .field("url_source", &self.url_source)
            .finish_non_exhaustive()
    }
}

/// `getaddrinfo`.
#[derive(Debug)]
pub(super) struct SystemResolver;

impl Resolve for SystemResolver {
    fn resolve(&self, name: Name) -> Resolving {
        Box::pin(async move {
            let found: Vec<SocketAddr> =
                tokio::net::lookup_host((name.as_str(), 0)).await?.collect();
            Ok(Box::new(found.into_iter()) as Addrs)
        })
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::http::{AttemptOutcome, ProxyVariables, RequestError};
    use mosb_types::Secret;

    #[test]
    fn a_server_names_no_link_local_address_and_only_one_on_loopback_names_loopback() {
        for (url, by_server, by_loopback) in [
            ("https://cdn.example/x", true, true),
            ("http://10.1.2.3/x", true, true),
            ("http://192.168.0.1:5000/", true, true),
            ("http://[fd00::1]/", true, true),
            ("http://localhost/", false, true),
            ("http://LOCALHOST:5000/", false, true),
            ("http://127.0.0.1/", false, true),
            ("http://127.9.9.9/", false, true),
            ("http://0x7f.1/", false, true),
            ("http://2130706433/", false, true),
            ("http://0.0.0.0:5000/", false, true),
            ("http://[::]/", false, true),
            ("http://[::1]/", false, true),
            ("http://[::ffff:127.0.0.1]/", false, true),
            ("http://[::127.0.0.1]/", false, true),
            ("http://169.254.169.254/latest", false, false),
            ("http://169.254.0.1/", false, false),
            ("http://2852039166/", false, false),
            ("http://[::ffff:169.254.169.254]/", false, false),
            ("http://[64:ff9b::a9fe:a9fe]/", false, false),
            ("http://[fe80::1]/", false, false),
            ("http://[fd00:ec2::254]/", false, false),
            ("http://[fd20:ce::254]/", false, false),
            ("http://168.63.129.16/", false, false),
            ("http://100.100.100.200/", false, false),
        ] {
            let parsed = Url::parse(url).unwrap();
            let allowed = |url_source: UrlSource| url_source.check(&parsed).is_ok();
            assert!(allowed(UrlSource::User), "{url}");
            assert_eq!(allowed(UrlSource::Server), by_server, "{url}");
            assert_eq!(allowed(UrlSource::LoopbackServer), by_loopback, "{url}");
        }
    }

    /// Every name has these addresses.
    struct Always(Vec<SocketAddr>);

    impl Resolve for Always {
        fn resolve(&self, _: Name) -> Resolving {
            let all = self.0.clone();
            Box::pin(async move { Ok(Box::new(all.into_iter()) as Addrs) })
        }
    }

    fn resolver(url_source: UrlSource, addresses: &[&str]) -> CheckedResolver {
        let addresses = addresses.iter().map(|ip| (ip.parse::<IpAddr>().unwrap(), 0).into());
        CheckedResolver {
            url_source,
            proxies: Arc::new(
                Proxies::new(&ProxyVariables {
                    http: Some(Secret::new("http://proxy.example:3128".to_owned())),
                    ..ProxyVariables::default()
                })
                .unwrap(),
            ),
            lookup: Arc::new(Always(addresses.collect())),
        }
    }

    #[tokio::test]
    async fn a_name_gets_around_nothing() {
        for (what, host, url_source, has, want) in [
            ("user, loopback", "a", UrlSource::User, &["127.0.0.1"][..], 1),
            ("user, link-local", "a", UrlSource::User, &["169.254.169.254"], 0),
            ("user, mapped", "a", UrlSource::User, &["::ffff:169.254.1.1"], 0),
            ("server, private", "a", UrlSource::Server, &["10.0.0.1"], 1),
            ("server, loopback", "a", UrlSource::Server, &["127.0.0.1", "::1"], 0),
            ("server, one of two", "a", UrlSource::Server, &["127.0.0.1", "10.0.0.1"], 1),
            ("loopback, loopback", "a", UrlSource::LoopbackServer, &["127.0.0.1"], 1),
            ("loopback, link-local", "a", UrlSource::LoopbackServer, &["fe80::1"], 0),
            ("a proxy", "proxy.example", UrlSource::Server, &["127.0.0.1"], 1),
            ("a proxy, link-local", "proxy.example", UrlSource::User, &["169.254.169.254"], 0),
        ] {
            let resolved = resolver(url_source, has).resolve(host.parse().unwrap()).await;
            assert_eq!(resolved.map_or(0, Iterator::count), want, "{what}");
        }
    }

    #[tokio::test]
    async fn a_name_on_loopback_that_a_server_named_is_not_connected_to() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        listener.set_nonblocking(true).unwrap();
        let port = listener.local_addr().unwrap().port();
        let client = reqwest::Client::builder()
            .no_proxy()
            .tls_certs_only([])
            .dns_resolver(resolver(UrlSource::Server, &["127.0.0.1"]))
            .build()
            .unwrap();
        let asked = client
            .get(format!("http://cdn.example:{port}/"))
            .timeout(Duration::from_secs(5))
            .send()
            .await;
        let broken = RequestError::from(asked.unwrap_err());
        assert_eq!(broken.outcome, AttemptOutcome::Fatal, "{broken:?}");
        assert!(broken.cause.starts_with("cdn.example (127.0.0.1) is on loopback"), "{broken:?}");
        let connected = listener.accept().map_err(|e| e.kind());
        assert_eq!(connected.unwrap_err(), std::io::ErrorKind::WouldBlock);
    }
}
