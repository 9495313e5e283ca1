//! What a machine pulls one image with, beside a login: mirrors, CAs and proxy of the cluster's
//! settings, and where it verifies signatures, the policy of the image's config. The controller makes
//! it, a Secret carries it as JSON, and the machine's tools see it while they pull.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use serde::{Deserialize, Serialize};

use mosb_api::ClusterSettings;
use mosb_api::cluster_settings::{Proxy, ProxyUrl};
use mosb_image::{PinnedRef, RepoRef};
use mosb_plan::plan::SignatureFiles;
use mosb_registry::registries_conf::By;
use mosb_types::{Diagnostic, Secret};

use crate::{pull_repositories, registries_conf};
use registry_entry::RegistryEntry;

mod json;
mod registry_entry;

/// The most bytes of the JSON. A Secret has at most 1 MiB, and this one has more in it.
pub const MAX_PULL_SETTINGS: usize = 512 * 1024;

/// Mirrors of the repository of one image, CAs of the hosts that it may come from, the proxy, and how
/// signatures are verified.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct PullSettings {
    registry: Option<RegistryEntry>,
    authorities: Authorities,
    proxy: Option<Proxy>,
    signatures: SignatureFiles,
}

/// The settings don't fit into the Secret of a Job.
#[derive(Debug, thiserror::Error, Diagnostic)]
#[error(
    "{image}: mirrors, CAs, proxy and policy for its pull have {bytes} bytes, of which {largest} has {largest_bytes}; a machine gets at most {MAX_PULL_SETTINGS}: leave only those CAs in it that registries need"
)]
#[diagnostic(code = "pull-settings-too-large", class = InvalidInput)]
pub struct PullSettingsTooLarge {
    pub image: PinnedRef,
    pub bytes: usize,
    /// The field of the settings with the largest bundle of CAs, or a file of the config.
    pub largest: String,
    pub largest_bytes: usize,
}

impl PullSettings {
    /// The settings for pulling this image by its digest. `settings.proxy` has its addresses;
    /// `signatures` replace the machine's own files of the same names.
    ///
    /// # Errors
    /// They are too large.
    pub fn new(
        image: &PinnedRef,
        settings: &ClusterSettings,
        signatures: SignatureFiles,
    ) -> Result<Self, PullSettingsTooLarge> {
        let conf = registries_conf(settings);
        let repos = pull_repositories(image.repo(), conf.as_deref(), &[By::Digest]);
        let made = Self {
            registry: conf.and_then(|conf| RegistryEntry::of(image.repo(), &conf)),
            authorities: Authorities::of(&repos, settings),
            proxy: settings
                .proxy
                .clone()
                .filter(|proxy| !proxy.is_empty())
                .map(|proxy| Proxy { secret: None, ..proxy }),
            signatures,
        };
        let bytes = made.to_json().expose().len();
        if bytes > MAX_PULL_SETTINGS {
            let (largest, largest_bytes) = largest_part(settings, &made);
            let image = image.clone();
            return Err(PullSettingsTooLarge { image, bytes, largest, largest_bytes });
        }
        Ok(made)
    }

    /// Whether a machine pulls as it would without them.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// A drop-in of `registries.conf` with the one entry for the repository, which takes precedence
    /// over all wider ones.
    pub fn registries_conf(&self) -> Option<String> {
        self.registry.as_ref().map(RegistryEntry::to_conf)
    }

    /// Each host with the PEM certificates of its CAs.
    pub fn authorities(&self) -> Vec<(String, String)> {
        self.authorities.by_host()
    }

    /// How signatures are verified, where that is not by the machine's own files alone.
    pub fn signatures(&self) -> &SignatureFiles {
        &self.signatures
    }

    /// Whether there are mirrors, CAs or files about signatures.
    pub fn has_containers(&self) -> bool {
        let has_others = self.registry.is_some() || !self.authorities.hosts.is_empty();
        has_others || !self.signatures.is_empty()
    }

    /// The environment of what pulls, if there is a proxy.
    pub fn environment(&self) -> Option<Secret<String>> {
        self.proxy.as_ref().map(|proxy| environment_file(Some(proxy)))
    }

    /// The addresses of the proxies, which may have a password.
    pub fn proxy_urls(&self) -> impl Iterator<Item = &str> {
        let proxy = self.proxy.iter();
        proxy
            .flat_map(|proxy| [&proxy.http_proxy, &proxy.https_proxy])
            .flatten()
            .map(ProxyUrl::expose)
    }
}

/// A file for `EnvironmentFile=` (systemd.exec(5)). It is not empty: the unit of a first boot knows by
/// it that there is something to do.
pub(crate) fn environment_file(proxy: Option<&Proxy>) -> Secret<String> {
    let mut text = "# The proxy of the pull\n".to_owned();
    for (name, value) in proxy.map(Proxy::variables).unwrap_or_default() {
        let quoted = value.replace('\\', "\\\\").replace('"', "\\\"");
        writeln!(text, "{name}=\"{quoted}\"").expect("a String takes it");
    }
    Secret::new(text)
}

/// The field with the largest bundle of CAs that a machine gets, or a file about signatures that is
/// larger, and its bytes.
fn largest_part(settings: &ClusterSettings, made: &PullSettings) -> (String, usize) {
    let everywhere = [
        ("additionalTrustBundle", &settings.additional_trust_bundle),
        ("registryTrustBundle", &settings.registry_trust_bundle),
    ];
    let everywhere = everywhere
        .into_iter()
        .filter_map(|(field, pem)| Some((field.to_owned(), pem.as_ref()?.len())));
    let of_hosts = settings.image_registry_bundles.iter();
    let of_hosts = of_hosts.filter(|(host, _)| made.authorities.hosts.contains_key(*host));
    let of_hosts = of_hosts.map(|(host, pem)| (format!("imageRegistryBundles.{host}"), pem.len()));
    let files = made.signatures.files().map(|(name, text)| (name.to_owned(), text.len()));
    let largest = everywhere.chain(of_hosts).chain(files).max_by_key(|(_, bytes)| *bytes);
    largest.unwrap_or_else(|| ("mirrors".to_owned(), 0))
}

#[cfg(test)]
mod tests;

/// PEM certificates of CAs.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub(crate) struct Authorities {
    /// Those for each of the hosts.
    pub(super) everywhere: String,
    /// Each host that an image may come from, with the CAs for this host only.
    pub(super) hosts: BTreeMap<String, String>,
}

impl Authorities {
    pub fn of(repos: &[RepoRef], settings: &ClusterSettings) -> Self {
        let everywhere = [&settings.additional_trust_bundle, &settings.registry_trust_bundle];
        let everywhere: String =
            everywhere.into_iter().flatten().map(|pem| line_end(pem)).collect();
        let hosts = repos.iter().filter_map(|repo| {
            let own = settings.image_registry_bundles.get(repo.host());
            let own = own.map(|pem| line_end(pem)).unwrap_or_default();
            let has_any = !own.is_empty() || !everywhere.is_empty();
            has_any.then(|| (repo.host().to_owned(), own))
        });
        let hosts: BTreeMap<String, String> = hosts.collect();
        // Without a host, there is nothing to be trusted.
        if hosts.is_empty() { Self::default() } else { Self { everywhere, hosts } }
    }

    /// Each host with all PEM certificates for it.
    pub fn by_host(&self) -> Vec<(String, String)> {
        let all = self.hosts.iter();
        all.map(|(host, own)| (host.clone(), format!("{}{own}", self.everywhere))).collect()
    }
}

fn line_end(pem: &str) -> String {
    format!("{}\n", pem.trim_end())
}
