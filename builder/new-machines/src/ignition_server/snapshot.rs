//! The input of a decision about the server's Secrets.

use std::collections::{BTreeMap, BTreeSet};

use super::server_keys::ServerKeys;
use mosb_cluster::secret_ref::SecretRef;
use mosb_cluster::user_data_secret::FoundSecret;
use mosb_ignition_server::ServingCertificate;
use mosb_plan::api::cluster_settings::Endpoint;

/// Everything observed about the server.
#[derive(Debug, Clone)]
pub struct ServerSnapshot {
    /// mosb's namespace.
    pub namespace: String,
    /// Without it, nothing is served.
    pub endpoint: Option<Endpoint>,
    /// The pools with user data.
    pub pools: BTreeSet<String>,
    /// resourceVersion of the Secret with the CA, as the watch shows it.
    pub authority_version: Option<String>,
    /// A pass found the Secrets as they should be, not long ago, with the same inputs.
    pub is_current: bool,
    pub lookup_results: ServerLookupResults,
}

/// Results of the lookups of this pass.
#[derive(Debug, Clone, Default)]
pub struct ServerLookupResults {
    pub secrets: BTreeMap<SecretRef, FoundSecret>,
    /// The keys of the Secret, with new ones where needed.
    pub keys: Option<ServerKeys>,
    /// A new certificate.
    pub certificate: Option<ServingCertificate>,
}
