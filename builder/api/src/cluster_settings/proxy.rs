//! The proxy, whose address may hold a password.

use std::collections::BTreeMap;
use std::fmt;

use schemars::JsonSchema;
use serde::Deserialize;
use zeroize::Zeroize as _;

use super::ClusterSettingsError;

/// The proxy for registries.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct Proxy {
    /// The proxy for `http` URLs.
    pub http_proxy: Option<ProxyUrl>,
    /// The proxy for `https` URLs.
    pub https_proxy: Option<ProxyUrl>,
    /// Hosts, domains and networks that are contacted without the proxy, separated by commas.
    pub no_proxy: Option<String>,
    /// Name of a Secret whose keys `httpProxy`, `httpsProxy` and `noProxy` override the fields; for addresses
    /// with a password.
    pub secret: Option<String>,
}

/// `http://[user:password@]host:port`. `Debug` leaves out user and password.
#[derive(Clone, PartialEq, Eq, Deserialize, JsonSchema)]
pub struct ProxyUrl(String);

impl ProxyUrl {
    /// An address as it was written.
    pub fn new(text: impl Into<String>) -> Self {
        Self(text.into())
    }

    /// The whole address, for the one place that writes it into a Secret.
    pub fn expose(&self) -> &str {
        &self.0
    }

    fn split(&self) -> (&str, Option<&str>, &str) {
        let (scheme, rest) = match self.0.find("://") {
            Some(at) => self.0.split_at(at + "://".len()),
            None => ("", &*self.0),
        };
        match rest.rsplit_once('@') {
            Some((user, host)) => (scheme, Some(user), host),
            None => (scheme, None, rest),
        }
    }

    /// Whether it contains a user or a password.
    pub fn has_user(&self) -> bool {
        self.split().1.is_some()
    }

    /// Whether it is such an address, on one line.
    pub fn is_valid(&self) -> bool {
        let (scheme, _, host) = self.split();
        ["http://", "https://"].contains(&scheme)
            && !host.is_empty()
            && !self.0.chars().any(|c| c.is_control() || c.is_whitespace())
    }
}

/// Its memory is overwritten: it may hold a password.
impl Drop for ProxyUrl {
    fn drop(&mut self) {
        self.0.zeroize();
    }
}

impl fmt::Debug for ProxyUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (scheme, user, host) = self.split();
        let user = user.map_or("", |_| "[secret]@");
        write!(f, "\"{scheme}{user}{host}\"")
    }
}

impl Proxy {
    /// Whether no proxy is set.
    pub fn is_empty(&self) -> bool {
        self.http_proxy.is_none() && self.https_proxy.is_none()
    }

    /// The environment variables, in upper case (most programs) and lower case (curl).
    pub fn variables(&self) -> BTreeMap<String, String> {
        let url = |url: &Option<ProxyUrl>| url.as_ref().map(|url| url.0.clone());
        let all = [
            ("http_proxy", url(&self.http_proxy)),
            ("https_proxy", url(&self.https_proxy)),
            ("no_proxy", self.no_proxy.clone()),
        ];
        let given = all.into_iter().filter_map(|(name, value)| {
            let value = value.filter(|value| !value.is_empty())?;
            Some([(name.to_uppercase(), value.clone()), (name.to_owned(), value)])
        });
        given.flatten().collect()
    }

    /// The proxy, overridden by the Secret that [`Self::secret`] names.
    ///
    /// # Errors
    /// An unknown key, or a value that is not an address; the value is never quoted.
    pub fn with_secret(
        mut self,
        data: &BTreeMap<String, Vec<u8>>,
    ) -> Result<Self, ClusterSettingsError> {
        let secret = self.secret.clone().unwrap_or_default();
        let wrong =
            |problem: String| ClusterSettingsError::ProxySecret { secret: secret.clone(), problem };
        for (key, value) in data {
            let text = std::str::from_utf8(value)
                .map_err(|_| wrong(format!("{key} is not text")))?
                .trim()
                .to_owned();
            let url = || {
                let url = ProxyUrl(text.clone());
                let problem = || wrong(format!("{key} is not http://host:port"));
                url.is_valid().then_some(url).ok_or_else(problem)
            };
            match &**key {
                "httpProxy" => self.http_proxy = Some(url()?),
                "httpsProxy" => self.https_proxy = Some(url()?),
                "noProxy" => self.no_proxy = Some(text),
                _ => {
                    return Err(wrong(format!(
                        "{key:?} is none of httpProxy, httpsProxy, noProxy"
                    )));
                }
            }
        }
        Ok(self)
    }
}
