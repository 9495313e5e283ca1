//! Which requests go through a proxy: `HTTP_PROXY`, `HTTPS_PROXY`, `NO_PROXY`, as Go's programs read
//! them, because buildah and Ignition get the same settings.
//!
//! Not hyper-util's `client::proxy::matcher`: it reads them as curl does. There `.quay.io` is also
//! `quay.io` itself, `*.quay.io` and `host:port` match nothing, and an invalid proxy is ignored.

use std::net::IpAddr;

use url::{Host, Url};

use mosb_types::{Diagnostic, Secret};

/// The variables, as `cli` read them (upper case first, then lower). They may hold a password.
#[derive(Debug, Clone, Default)]
pub struct ProxyVariables {
    /// `HTTP_PROXY`.
    pub http: Option<Secret<String>>,
    /// `HTTPS_PROXY`.
    pub https: Option<Secret<String>>,
    pub no_proxy: Option<String>,
}

/// A proxy that is not a URL, by the variable that names it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error, Diagnostic)]
#[error("{0}: not a proxy's URL; write http://host:port")]
#[diagnostic(code = "bad-proxy", class = InvalidInput)]
pub struct BadProxy(pub &'static str);

/// The parsed variables.
#[derive(Debug, Clone)]
pub struct Proxies {
    http: Option<Secret<Url>>,
    https: Option<Secret<Url>>,
    direct: Vec<Direct>,
}

/// One entry of `NO_PROXY`.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Direct {
    Everything,
    Network { address: IpAddr, bits: u8, port: Option<u16> },
    Domain { name: String, below_only: bool, port: Option<u16> },
}

impl Proxies {
    pub fn new(variables: &ProxyVariables) -> Result<Self, BadProxy> {
        Ok(Self {
            http: proxy_url("HTTP_PROXY", variables.http.as_ref())?,
            https: proxy_url("HTTPS_PROXY", variables.https.as_ref())?,
            direct: variables
                .no_proxy
                .iter()
                .flat_map(|text| text.split([',', ' ']))
                .filter_map(direct)
                .collect(),
        })
    }

    /// The proxy for this URL, if it isn't reached directly. Loopback always is.
    pub fn of(&self, url: &Url) -> Option<Url> {
        let proxy = match url.scheme() {
            "https" => self.https.as_ref(),
            _ => self.http.as_ref(),
        }?;
        let port = url.port_or_known_default();
        let host = url.host()?;
        if is_loopback(&host) || self.direct.iter().any(|entry| entry.matches(&host, port)) {
            return None;
        }
        Some(proxy.expose().clone())
    }

    /// Whether an answer from this URL came from loopback, and through no proxy.
    pub fn answered_on_loopback(&self, response: &reqwest::Response, url: &Url) -> bool {
        let address = response.remote_addr().map(|address| address.ip());
        self.of(url).is_none() && address.is_some_and(|ip| ip.to_canonical().is_loopback())
    }

    /// Whether one of the proxies has this host name.
    pub fn are_at(&self, host: &str) -> bool {
        let all = [&self.http, &self.https].into_iter().flatten();
        let mut hosts = all.filter_map(|proxy| proxy.expose().host_str());
        hosts.any(|proxy| proxy.eq_ignore_ascii_case(host))
    }
}

/// `localhost`, 127.0.0.0/8 and ::1.
pub fn is_loopback<S: AsRef<str>>(host: &Host<S>) -> bool {
    match host {
        Host::Domain(name) => name.as_ref().eq_ignore_ascii_case("localhost"),
        Host::Ipv4(ip) => ip.is_loopback(),
        Host::Ipv6(ip) => ip.is_loopback(),
    }
}

fn proxy_url(
    variable: &'static str,
    value: Option<&Secret<String>>,
) -> Result<Option<Secret<Url>>, BadProxy> {
    let Some(text) = value.map(Secret::expose).filter(|text| !text.trim().is_empty()) else {
        return Ok(None);
    };
    let text = text.trim();
    let full = if text.contains("://") { text.to_owned() } else { format!("http://{text}") };
    Url::parse(&full)
        .ok()
        .filter(|url| url.has_host() && matches!(url.scheme(), "http" | "https"))
        .map(|url| Some(Secret::new(url)))
        .ok_or(BadProxy(variable))
}

/// `*`, `.domain`, `*.domain`, `domain`, an address, a network, each but the first with an optional
/// port.
fn direct(entry: &str) -> Option<Direct> {
    let entry = entry.trim().to_ascii_lowercase();
    if entry.is_empty() {
        return None;
    }
    if entry == "*" {
        return Some(Direct::Everything);
    }
    if let Some((address, bits)) = entry.split_once('/') {
        let address: IpAddr = address.parse().ok()?;
        let most = if address.is_ipv4() { 32 } else { 128 };
        let bits = bits.parse().ok().filter(|bits| *bits <= most)?;
        return Some(Direct::Network { address, bits, port: None });
    }
    let (name, port) = match entry.rsplit_once(':') {
        Some((name, port)) if !name.contains(':') || name.ends_with(']') => {
            (name, Some(port.parse().ok()?))
        }
        _ => (&*entry, None),
    };
    let bare = name.strip_prefix('[').and_then(|n| n.strip_suffix(']')).unwrap_or(name);
    if let Ok(address) = bare.parse::<IpAddr>() {
        let bits = if address.is_ipv4() { 32 } else { 128 };
        return Some(Direct::Network { address, bits, port });
    }
    let (name, below_only) = match name.strip_prefix("*.").or_else(|| name.strip_prefix('.')) {
        Some(domain) => (domain, true),
        None => (name, false),
    };
    Some(Direct::Domain { name: name.trim_end_matches('.').to_owned(), below_only, port })
}

impl Direct {
    fn matches(&self, host: &Host<&str>, at: Option<u16>) -> bool {
        match self {
            Self::Everything => true,
            Self::Network { address, bits, port } => {
                let inside = match (host, address) {
                    (Host::Ipv4(ip), IpAddr::V4(net)) => {
                        let shift = 32 - u32::from(*bits);
                        u32::from(*ip).checked_shr(shift) == u32::from(*net).checked_shr(shift)
                    }
                    (Host::Ipv6(ip), IpAddr::V6(net)) => {
                        let shift = 128 - u32::from(*bits);
                        u128::from(*ip).checked_shr(shift) == u128::from(*net).checked_shr(shift)
                    }
                    _ => false,
                };
                inside && (port.is_none() || *port == at)
            }
            Self::Domain { name, below_only, port } => {
                let Host::Domain(host) = host else {
                    return false;
                };
                let host = host.trim_end_matches('.');
                let below =
                    host.strip_suffix(name.as_str()).is_some_and(|rest| rest.ends_with('.'));
                (below || (!below_only && host == name)) && (port.is_none() || *port == at)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_proxy_is_read_as_go_reads_it() {
        for (no_proxy, url, want) in [
            ("", "https://quay.io/v2/", true),
            ("", "http://localhost:5000/", false),
            ("", "http://127.8.0.1/", false),
            ("", "http://[::1]:5000/", false),
            ("*", "https://quay.io/", false),
            ("quay.io", "https://quay.io/", false),
            ("quay.io", "https://cdn.quay.io/", false),
            ("quay.io", "https://notquay.io/", true),
            (".quay.io", "https://quay.io/", true),
            (".quay.io", "https://cdn.quay.io/", false),
            ("*.quay.io", "https://cdn.quay.io/", false),
            ("QUAY.io:443", "https://quay.io/", false),
            ("quay.io:8443", "https://quay.io/", true),
            ("a.io, 10.0.0.0/8", "https://10.1.2.3/", false),
            ("10.0.0.0/8", "https://11.1.2.3/", true),
            ("0.0.0.0/0", "https://11.1.2.3/", false),
            ("10.1.2.3:5000", "http://10.1.2.3:5000/", false),
            ("10.1.2.3:5000", "http://10.1.2.3:5001/", true),
            ("fd00::/8", "https://[fd00::1]/", false),
            ("[fd00::1]:5000", "https://[fd00::1]:5000/", false),
            ("10.0.0.0/99,:,/", "https://10.0.0.1/", true),
        ] {
            let proxies = Proxies::new(&ProxyVariables {
                http: Some(Secret::new("proxy.corp:3128".to_owned())),
                https: Some(Secret::new("http://user:pass@proxy.corp:3128".to_owned())),
                no_proxy: Some(no_proxy.to_owned()),
            })
            .unwrap();
            let got = proxies.of(&Url::parse(url).unwrap()).is_some();
            assert_eq!(got, want, "{no_proxy:?} {url}");
        }
    }

    #[test]
    fn errors_of_invalid_proxies_quote_nothing() {
        let of = |text: &str| {
            Proxies::new(&ProxyVariables {
                https: Some(Secret::new(text.to_owned())),
                ..ProxyVariables::default()
            })
        };
        assert!(of(" ").unwrap().https.is_none());
        for wrong in ["socks5://hunter2@x", "http://", "http://hunter2 :p"] {
            let error = of(wrong).unwrap_err();
            assert_eq!(error, BadProxy("HTTPS_PROXY"), "{wrong}");
            assert!(!error.to_string().contains("hunter2"));
        }
    }
}
