//! `--http-headers-file`: headers for some hosts, such as credentials that must not be in a
//! MachineConfig.

use std::collections::HashMap;
use std::fmt;

use reqwest::header::{HeaderMap, HeaderName, HeaderValue};
use serde_json::Value;
use url::{Host, Url};

use super::error::Error;
use mosb_registry::http::is_loopback;

/// Headers by host. Its `Debug` shows hosts only.
#[derive(Clone, Default)]
pub struct HostHeaders(HashMap<(String, u16), HeaderMap>);

/// The port of https, and of a host without a port.
const PORT: u16 = 443;

impl HostHeaders {
    /// Reads the file's object: for each `host` or `host:port`, names and values. The default port
    /// is that of https.
    ///
    /// # Errors
    /// The first invalid entry; never a value.
    pub fn read(file: &Value) -> Result<Self, Error> {
        let wrong = |cause: String| Err(Error::HeadersFile { cause });
        let Some(hosts) = file.as_object() else {
            return wrong("must be an object with hosts".to_owned());
        };
        let mut all = HashMap::new();
        for (key, pairs) in hosts {
            let Some(host) = host(key) else {
                return wrong(format!("{key:?} must be `host` or `host:port`"));
            };
            let Some(pairs) = pairs.as_object() else {
                return wrong(format!("{key:?} must have names and values"));
            };
            let mut headers = HeaderMap::new();
            for (name, value) in pairs {
                let Ok(named) = HeaderName::from_bytes(name.as_bytes()) else {
                    return wrong(format!("{key:?}: {name:?} is not a header name"));
                };
                let value = value.as_str().map(HeaderValue::from_str);
                let Some(Ok(mut value)) = value else {
                    return wrong(format!("{key:?}: the value of {name:?} is not a header value"));
                };
                value.set_sensitive(true);
                headers.insert(named, value);
            }
            if all.insert(host, headers).is_some() {
                return wrong(format!("{key:?} is there twice"));
            }
        }
        Ok(Self(all))
    }

    /// The headers for a URL, if they may be sent there.
    pub(super) fn of(&self, url: &Url) -> Option<&HeaderMap> {
        self.known(url).filter(|_| is_safe(url))
    }

    /// Whether there are headers for a URL, which must not be sent there.
    pub(super) fn are_held_back(&self, url: &Url) -> bool {
        self.known(url).is_some() && !is_safe(url)
    }

    fn known(&self, url: &Url) -> Option<&HeaderMap> {
        let host = url.host_str()?.to_owned();
        self.0.get(&(host, url.port_or_known_default()?))
    }
}

/// Whether a request can't be read on its way.
fn is_safe(url: &Url) -> bool {
    url.scheme() == "https" || url.host().is_some_and(|host: Host<&str>| is_loopback(&host))
}

/// A host as URLs have it, and its port.
fn host(text: &str) -> Option<(String, u16)> {
    let url = Url::parse(&format!("https://{text}/")).ok()?;
    let bare = url.path() == "/" && url.query().is_none() && url.fragment().is_none();
    let is_host_only = url.username().is_empty() && url.password().is_none() && !text.contains('@');
    let host = url.host_str().filter(|_| bare && is_host_only)?;
    Some((host.to_owned(), url.port().unwrap_or(PORT)))
}

impl fmt::Debug for HostHeaders {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.0.keys()).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use mosb_types::Diagnostic as _;
    use serde_json::json;

    #[test]
    fn headers_are_for_one_host_by_https_or_on_this_machine() {
        let headers = json!({ "x": "hunter2" });
        let file = json!({ "Mirror.corp": headers, "mirror.corp:8443": headers, "[::1]:80": headers, "10.0.0.1:80": headers });
        let all = HostHeaders::read(&file).unwrap();
        for (url, sent, held_back) in [
            ("https://mirror.corp/x", true, false),
            ("https://mirror.corp:8443/", true, false),
            ("https://mirror.corp:1/", false, false),
            ("https://a.mirror.corp/", false, false),
            ("http://mirror.corp:8443/", false, true),
            ("http://mirror.corp/", false, false),
            ("http://[::1]/", true, false),
            ("http://10.0.0.1/", false, true),
        ] {
            let url = Url::parse(url).unwrap();
            assert_eq!(all.of(&url).is_some(), sent, "{url}");
            assert_eq!(all.are_held_back(&url), held_back, "{url}");
        }
        assert!(!format!("{all:?}").contains("hunter2"));
    }

    #[test]
    fn a_file_that_is_none_is_an_error_without_its_values() {
        for (what, file) in [
            ("a list", json!(["hunter2"])),
            ("a URL", json!({ "https://h/": {} })),
            ("a path", json!({ "h/p": {} })),
            ("a user", json!({ "u@h": {} })),
            ("a value for a host", json!({ "h": "hunter2" })),
            ("a number", json!({ "h": { "x": 1 } })),
            ("a line's end", json!({ "h": { "x": "hunter2\r\n" } })),
            ("a name", json!({ "h": { "x y": "hunter2" } })),
            ("twice", json!({ "h": {}, "H:443": {} })),
        ] {
            let error = HostHeaders::read(&file).unwrap_err();
            assert_eq!(error.code(), "bad-headers-file", "{what}");
            assert!(!error.to_string().contains("hunter2"), "{what}: {error}");
        }
    }
}
