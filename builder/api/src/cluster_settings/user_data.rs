//! What the user data of new machines contains beside their image.

use std::fmt;
use std::net::{IpAddr, Ipv6Addr};

use schemars::JsonSchema;
use serde::Deserialize;

/// What new machines of pools are given.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct UserDataSettings {
    /// Name of the Secret with the Ignition config that joins a machine to the cluster: its key `ignition.POOL`, or
    /// `ignition` for pools without a key of their own. Without it, new machines boot and do not join.
    pub join_secret: Option<String>,
    /// `host` or `host:port` by which new machines reach the Service of `mosb serve-ignition`. With it, user data is a
    /// small config that fetches the rest from there; without it, the whole config.
    pub endpoint: Option<Endpoint>,
}

/// A server of HTTPS: a DNS name or an IP address, and a port.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Deserialize, JsonSchema)]
#[serde(try_from = "String")]
#[schemars(with = "String")]
pub struct Endpoint {
    host: Host,
    port: Option<u16>,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
enum Host {
    Name(String),
    Address(IpAddr),
}

const FORM: &str = "want host or host:port, the host a DNS name, an IPv4 address or an IPv6 address in brackets, as in ignition.example.com:8443";
/// RFC 1035.
const MAX_NAME_LEN: usize = 253;
const MAX_LABEL_LEN: usize = 63;

impl Endpoint {
    /// The name or address that the server's certificate has.
    pub fn host(&self) -> String {
        match &self.host {
            Host::Name(name) => name.clone(),
            Host::Address(address) => address.to_string(),
        }
    }

    /// The URL of a pool's config.
    pub fn url(&self, pool: &str) -> String {
        format!("https://{self}/{pool}")
    }
}

impl TryFrom<String> for Endpoint {
    type Error = &'static str;

    fn try_from(text: String) -> Result<Self, Self::Error> {
        let (host, port) = match text.rsplit_once(':') {
            Some((host, port)) if !port.ends_with(']') => (host, Some(port)),
            _ => (&*text, None),
        };
        let port = port.map(|port| match port.parse::<u16>() {
            Ok(number) if number > 0 && number.to_string() == port => Ok(number),
            _ => Err(FORM),
        });
        let host = match host.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')) {
            Some(address) => {
                Host::Address(IpAddr::V6(address.parse::<Ipv6Addr>().map_err(|_| FORM)?))
            }
            None => match host.parse() {
                Ok(address @ IpAddr::V4(_)) => Host::Address(address),
                Ok(IpAddr::V6(_)) => return Err(FORM),
                Err(_) if is_name(host) => Host::Name(host.to_owned()),
                Err(_) => return Err(FORM),
            },
        };
        if matches!(&host, Host::Address(address) if address.is_unspecified() || address.is_multicast())
        {
            return Err("machines can't connect to this address");
        }
        Ok(Self { host, port: port.transpose()? })
    }
}

/// Lower case, so that there is one spelling. The last label has a letter, as in no address.
fn is_name(host: &str) -> bool {
    let is_fine = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-';
    let is_label = |label: &str| {
        (1..=MAX_LABEL_LEN).contains(&label.len())
            && label.bytes().all(is_fine)
            && !label.starts_with('-')
            && !label.ends_with('-')
    };
    let last = host.rsplit('.').next().unwrap_or_default();
    host.len() <= MAX_NAME_LEN
        && host.split('.').all(is_label)
        && last.bytes().any(|b| b.is_ascii_lowercase())
}

impl fmt::Display for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.host {
            Host::Name(name) => f.write_str(name)?,
            Host::Address(IpAddr::V4(address)) => write!(f, "{address}")?,
            Host::Address(IpAddr::V6(address)) => write!(f, "[{address}]")?,
        }
        match self.port {
            Some(port) => write!(f, ":{port}"),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn endpoint_is_host_of_a_certificate_and_port() {
        for (text, want) in [
            ("ignition.example.com", Some("ignition.example.com")),
            ("ignition.example.com:8443", Some("ignition.example.com")),
            ("ignition", Some("ignition")),
            ("192.0.2.1:8443", Some("192.0.2.1")),
            ("[2001:db8::1]", Some("2001:db8::1")),
            ("[2001:db8::1]:8443", Some("2001:db8::1")),
            ("", None),
            ("2001:db8::1", None),
            ("[192.0.2.1]", None),
            ("https://ignition.example.com", None),
            ("ignition.example.com/path", None),
            ("ignition.example.com:", None),
            ("ignition.example.com:0", None),
            ("ignition.example.com:08443", None),
            ("ignition.example.com:65536", None),
            ("ignition.example.com.", None),
            ("Ignition.example.com", None),
            ("-a.example.com", None),
            ("a..b", None),
            ("1.2.3", None),
            ("user@host", None),
            ("a b", None),
            ("0.0.0.0", None),
            ("[::]", None),
            (&"a".repeat(64), None),
        ] {
            let read = Endpoint::try_from(text.to_owned()).ok();
            assert_eq!(read.as_ref().map(Endpoint::host).as_deref(), want, "{text}");
            if let Some(read) = read {
                assert_eq!(read.to_string(), text);
                assert_eq!(read.url("worker"), format!("https://{text}/worker"));
            }
        }
    }
}
