//! Settings for fetching: `ignition.proxy`, `.timeouts`, `.security.tls`.

use std::fmt;
use std::time::Duration;

use bytes::Bytes;
use serde_json::Value;

use mosb_types::Finding;

/// Proxy, timeouts and certificate authorities of a fetch. `Debug` shows no proxy, which may
/// contain a password.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Settings {
    /// `ignition.proxy`.
    pub proxy: Proxy,
    /// `ignition.timeouts.httpResponseHeaders`: until a response begins; `None` for no limit.
    pub response_headers: Option<Duration>,
    /// `ignition.timeouts.httpTotal`: with all retries; `None` for no limit.
    pub total: Option<Duration>,
    /// Certificate authorities in addition to the system's: PEM, one or more certificates each.
    pub authorities: Vec<Bytes>,
}

/// `ignition.proxy`. Ignition doesn't use environment variables.
#[derive(Clone, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Proxy {
    pub http: Option<String>,
    pub https: Option<String>,
    /// `noProxy`: hosts, domains and networks that are reached directly.
    pub no_proxy: Vec<String>,
}

/// `internal/resource/http.go` of Ignition 2.24.
const RESPONSE_HEADERS: Duration = Duration::from_secs(10);

impl Default for Settings {
    fn default() -> Self {
        Self {
            proxy: Proxy::default(),
            response_headers: Some(RESPONSE_HEADERS),
            total: None,
            authorities: Vec::new(),
        }
    }
}

impl Settings {
    /// The settings of a config, with the given authorities: those of the config must be fetched
    /// first.
    pub(super) fn of(config: &Value, authorities: Vec<Bytes>) -> Result<Self, Finding> {
        let text = |at: &str| config.pointer(at).and_then(Value::as_str);
        let proxy = |at: &str| text(at).filter(|url| !url.is_empty()).map(str::to_owned);
        let no_proxy = config.pointer("/ignition/proxy/noProxy").and_then(Value::as_array);
        let seconds = |field: &'static str| {
            let seconds = config.pointer("/ignition/timeouts")?.get(field)?.as_i64()?;
            Some(u64::try_from(seconds).map_err(|_| {
                Finding::new("bad-timeout", "must not be below 0")
                    .object(format!("ignition.timeouts.{field}"))
            }))
        };
        // 0 means no limit, as in Go.
        let limit = |seconds: u64| (seconds > 0).then(|| Duration::from_secs(seconds));
        Ok(Self {
            proxy: Proxy {
                http: proxy("/ignition/proxy/httpProxy"),
                https: proxy("/ignition/proxy/httpsProxy"),
                no_proxy: no_proxy
                    .into_iter()
                    .flatten()
                    .filter_map(Value::as_str)
                    .map(str::to_owned)
                    .collect(),
            },
            response_headers: match seconds("httpResponseHeaders").transpose()? {
                Some(seconds) => limit(seconds),
                None => Some(RESPONSE_HEADERS),
            },
            total: seconds("httpTotal").transpose()?.and_then(limit),
            authorities,
        })
    }
}

impl fmt::Debug for Settings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Settings")
            .field("proxy", &self.proxy)
            .field("response_headers", &self.response_headers)
            .field("total", &self.total)
            .field("authorities", &self.authorities.len())
            .finish()
    }
}

impl fmt::Debug for Proxy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Proxy")
            .field("http", &self.http.is_some())
            .field("https", &self.https.is_some())
            .field("no_proxy", &self.no_proxy)
            .finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn settings_are_read_as_ignition_reads_them() {
        let s = Duration::from_secs;
        for (what, ignition, want) in [
            ("nothing", json!({}), (None, Some(s(10)), None)),
            (
                "all",
                json!({ "proxy": { "httpsProxy": "https://u:p@x" }, "timeouts": { "httpResponseHeaders": 3, "httpTotal": 9 } }),
                (Some("https://u:p@x"), Some(s(3)), Some(s(9))),
            ),
            (
                "no limits, no proxy",
                json!({ "proxy": { "httpsProxy": "" }, "timeouts": { "httpResponseHeaders": 0, "httpTotal": 0 } }),
                (None, None, None),
            ),
        ] {
            let got = Settings::of(&json!({ "ignition": ignition }), Vec::new()).unwrap();
            let got = (got.proxy.https.as_deref(), got.response_headers, got.total);
            assert_eq!(got, want, "{what}");
        }
        let below = json!({ "ignition": { "timeouts": { "httpTotal": -1 } } });
        let problem = Settings::of(&below, Vec::new()).unwrap_err();
        assert_eq!(problem.object.as_deref(), Some("ignition.timeouts.httpTotal"));
    }

    #[test]
    fn a_proxys_password_is_not_shown() {
        let config = json!({ "ignition": { "proxy": { "httpProxy": "http://u:hunter2@x" } } });
        let settings = Settings::of(&config, Vec::new()).unwrap();
        assert!(settings.proxy.http.is_some());
        assert!(!format!("{settings:?}").contains("hunter2"));
    }
}
