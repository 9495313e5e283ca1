//! Plans a build again, as far as the tree of its base is not needed.

use std::sync::Arc;

use super::build_request::build_request;
use super::plan::hosts;
use super::{LookupError, LookupPermit, Resolver};
use crate::lookup::PlanLookup;
use mosb_build::registry_client::RegistryClient;
use mosb_build::resolve::{self, PlanContext, ResolvedDraft};
use mosb_build::{NamedSecret, with_policy_of};
use mosb_cluster::resolver::get_rendered_config;

/// A draft, and what it was made with.
pub(super) struct DraftAgain {
    pub registry_client: Arc<RegistryClient>,
    pub resolved_draft: ResolvedDraft,
    _permit: LookupPermit,
}

impl DraftAgain {
    /// The draft of a build whose base is pinned. Signatures that a policy requires are verified again.
    pub async fn of(
        resolver: &Resolver,
        plan: &PlanLookup,
        push: NamedSecret,
        permit: LookupPermit,
    ) -> Result<Self, LookupError> {
        let config = get_rendered_config(resolver, plan.rendered.as_str()).await?;
        let settings = with_policy_of(resolver.settings()?, &config)?;
        let proxy = resolver.proxy(&settings).await?;
        let pull = resolver.pull_secret(plan.pull_secret.as_deref(), &settings).await?;
        let credentials = push.credentials.over(&pull.credentials);
        let logins = NamedSecret { name: push.name, credentials };
        let registry_client = resolver.registries.open(&logins, &settings, proxy.as_ref())?;
        let request = build_request(plan, config, &settings, resolver.cache.rendering)?;
        let permit = resolver.limits.hosts(permit, hosts(&request, plan)).await?;
        let resolved_draft = resolve::draft(context_of(&registry_client), request).await?;
        Ok(Self { registry_client, resolved_draft, _permit: permit })
    }
}

/// What a build is planned with here.
pub(super) fn context_of(registry_client: &RegistryClient) -> PlanContext<'_> {
    PlanContext { client: registry_client.client(), trees: None, on_step: &log_step }
}

fn log_step(step: &str) {
    tracing::debug!("{step}");
}
