//! Asks registries and the API server, with the credentials of a pool. Credentials never enter a
//! snapshot or a log.

mod limits;
mod machine_access;
mod registry_client_pool;
mod rendered_config;
mod secrets;

use std::sync::Arc;

use crate::ClusterCache;
pub use limits::{
    LOOKUP_TIMEOUT, LookupError, LookupLimits, LookupPermit, MAX_PLAN_HOLD, while_held,
};
pub use machine_access::{MachineAccess, MachineSecrets};
use mosb_api::ClusterSettings;
use mosb_build::fetch::{self, Fetcher};
use mosb_build::registry_client::{self, RegistryClient};
use mosb_image::{Digest, ImageRef};
use mosb_reconcile::Problem;
use mosb_registry::Client;
use mosb_types::ErrorClass;
pub use registry_client_pool::RegistryClientPool;
pub use rendered_config::{NO_RENDERED_CONFIG, get_rendered_config};

/// Resolves lookups.
#[derive(Clone)]
pub struct Resolver {
    pub client: kube::Client,
    pub cache: Arc<ClusterCache>,
    pub registries: Arc<RegistryClientPool>,
    pub limits: Arc<LookupLimits>,
}

impl std::fmt::Debug for Resolver {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Resolver").finish_non_exhaustive()
    }
}

impl Resolver {
    /// The digest that a tag has now.
    pub async fn digest_of(&self, image: &ImageRef) -> Result<Digest, Problem> {
        let registry_client = self.pulling_client(None).await?;
        tagged_digest(registry_client.client(), image).await
    }

    /// A client with a pull secret and the global one; without a name, with the global one only.
    pub async fn pulling_client(&self, own: Option<&str>) -> Result<Arc<RegistryClient>, Problem> {
        let settings = self.settings()?;
        let proxy = self.proxy(&settings).await?;
        let pull = self.pull_secret(own, &settings).await?;
        Ok(self.registries.open(&pull, &settings, proxy.as_ref())?)
    }

    /// What fetches by HTTP, with the proxy and the CAs of the settings.
    pub async fn fetcher(&self) -> Result<Fetcher, Problem> {
        let (settings, _) = self.cache.settings()?;
        let proxy = self.proxy(&settings).await?;
        Ok(Fetcher::new(fetch::Options {
            authorities: settings.additional_trust_bundle.map(|pem| pem.into_bytes().into()),
            proxy: proxy.as_ref().map(registry_client::proxy_variables).unwrap_or_default(),
            ..fetch::Options::default()
        })?)
    }

    /// The settings. What is wrong with them and does no harm is logged.
    pub fn settings(&self) -> Result<ClusterSettings, Problem> {
        let (settings, findings) = self.cache.settings()?;
        for finding in findings {
            let object = finding.object.unwrap_or_default();
            tracing::warn!(code = finding.code, "{object}: {}", finding.message);
        }
        Ok(settings)
    }
}

/// The digest that a tag has now.
///
/// # Errors
/// The registry does not answer, or has no such tag.
pub async fn tagged_digest(client: &Client, image: &ImageRef) -> Result<Digest, Problem> {
    let digest = client.digest_of(image).await?;
    digest.ok_or_else(|| {
        let message = format!("{image}: the registry has no such tag; check the name");
        invalid_input("not-found", message)
    })
}

/// A problem with user input.
pub fn invalid_input(reason: &str, message: String) -> Problem {
    Problem { class: ErrorClass::InvalidInput, reason: reason.to_owned(), message }
}
