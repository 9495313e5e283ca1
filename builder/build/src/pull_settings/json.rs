//! The JSON of a Secret, which is checked when it is read: machines get files of it.

use serde_json::json;

use super::{Authorities, MAX_PULL_SETTINGS, PullSettings};
use mosb_api::cluster_settings::{ProxyUrl, is_host};
use mosb_image::RepoRef;
use mosb_types::{Secret, canonical_json};

/// The most mirrors, and hosts with CAs, that are read.
pub(super) const MAX_ENTRIES: usize = 100;
pub(super) const CERTIFICATE: &str = "-----BEGIN CERTIFICATE-----";

impl PullSettings {
    /// The canonical JSON, as [`parse`](Self::parse) reads it.
    pub fn to_json(&self) -> Secret<Vec<u8>> {
        let mut value = json!({});
        if let Some(registry) = &self.registry {
            value["registry"] = json!(registry);
        }
        if !self.authorities.hosts.is_empty() {
            value["authorities"] = json!(self.authorities);
        }
        if let Some(proxy) = &self.proxy {
            let url = |url: &Option<_>| url.as_ref().map(|url: &ProxyUrl| url.expose().to_owned());
            value["proxy"] = json!({
                "httpProxy": url(&proxy.http_proxy),
                "httpsProxy": url(&proxy.https_proxy),
                "noProxy": proxy.no_proxy,
            });
        }
        if !self.signatures.is_empty() {
            value["signatures"] = json!(self.signatures);
        }
        Secret::new(canonical_json(&value))
    }

    /// Reads the JSON. The error quotes nothing of it: an address of a proxy may have a password.
    ///
    /// # Errors
    /// It is too long, no such JSON, or has values that are invalid in a file of the machine.
    pub fn parse(bytes: &[u8]) -> Result<Self, String> {
        if bytes.len() > MAX_PULL_SETTINGS {
            return Err(format!("more than {MAX_PULL_SETTINGS} bytes"));
        }
        let read: Self = serde_json::from_slice(bytes).map_err(|error| {
            format!("no pull settings: line {}, column {}", error.line(), error.column())
        })?;
        read.check()?;
        Ok(read)
    }

    fn check(&self) -> Result<(), String> {
        let registry = self.registry.iter();
        let mirrors = || self.registry.iter().flat_map(|registry| &registry.mirrors);
        let mut locations = registry
            .map(|registry| &registry.location)
            .chain(mirrors().map(|mirror| &mirror.location));
        if mirrors().count() > MAX_ENTRIES || !locations.all(|place| is_repository(place)) {
            return Err("registry: a location is not a repository".to_owned());
        }
        let Authorities { everywhere, hosts } = &self.authorities;
        if hosts.len() > MAX_ENTRIES || !hosts.keys().all(|host| is_host(host)) {
            return Err("authorities: a key is neither host nor host:port".to_owned());
        }
        let mut pems = hosts.values().chain([everywhere]).filter(|pem| !pem.is_empty());
        if !pems.all(|pem| pem.contains(CERTIFICATE) && !pem.contains('\0')) {
            return Err("authorities: a value has no certificate; want PEM".to_owned());
        }
        if !self.signatures.is_valid() {
            return Err(
                "signatures: a key is neither policy.json nor registries.d/NAME.yaml".to_owned()
            );
        }
        let Some(proxy) = &self.proxy else {
            return Ok(());
        };
        let mut urls = [&proxy.http_proxy, &proxy.https_proxy].into_iter().flatten();
        let no_proxy = proxy.no_proxy.as_deref().unwrap_or_default();
        if !urls.all(ProxyUrl::is_valid) || no_proxy.contains('\0') || proxy.secret.is_some() {
            return Err(
                "proxy: want httpProxy and httpsProxy as http://host:port, and noProxy".to_owned()
            );
        }
        Ok(())
    }
}

fn is_repository(text: &str) -> bool {
    text.parse::<RepoRef>().is_ok()
}
