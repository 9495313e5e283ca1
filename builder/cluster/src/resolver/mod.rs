//! Asks registries and the API server, with the credentials of a pool. Credentials never enter a
//! snapshot or a log.

mod limits;
mod machine_access;
mod registry_client_pool;
mod rendered_config;
mod secrets;

use std::sync::Arc;

use kube::Client;

use crate::ClusterCache;
pub use limits::{
    LOOKUP_TIMEOUT, LookupError, LookupLimits, LookupPermit, MAX_PLAN_HOLD, while_held,
};
pub use machine_access::{MachineAccess, MachineSecrets};
use mosb_image::{Digest, ImageRef};
use mosb_plan::api::ClusterSettings;
use mosb_reconcile::Problem;
use mosb_types::ErrorClass;
pub use registry_client_pool::RegistryClientPool;
pub use rendered_config::{NO_RENDERED_CONFIG, get_rendered_config};

/// Resolves lookups.
#[derive(Clone)]
pub struct Resolver {
    pub client: Client,
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
        let settings = self.settings()?;
        let proxy = self.proxy(&settings).await?;
        let pull = self.pull_secret(None, &settings).await?;
        let registry_client = self.registries.open(&pull, &settings, proxy.as_ref())?;
        let digest = registry_client.client().digest_of(image).await?;
        digest.ok_or_else(|| {
            let message = format!("{image}: the registry has no such tag; check the name");
            invalid_input("not-found", message)
        })
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

/// A problem with user input.
pub fn invalid_input(reason: &str, message: String) -> Problem {
    Problem { class: ErrorClass::InvalidInput, reason: reason.to_owned(), message }
}
