//! CAs of the hosts that an image may come from.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use mosb_image::RepoRef;
use mosb_plan::api::ClusterSettings;

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
