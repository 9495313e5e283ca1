//! Finds the image of a direct build that the registry has already, because CI, another cluster or an
//! earlier build of the same name pushed it.
//!
//! Neither the tag nor the labels of an image prove anything: everybody who may push to the repository
//! can write them. So the image is [made here once more](super::direct_image), in memory, from the
//! inputs of the build, and the one in the registry is taken only if it has this very digest: then it
//! is, byte for byte, what the Job would push. The tree of the base is the one that the Job would read.

use super::build_request::build_request;
use super::direct_image::direct_digest;
use super::plan::hosts;
use super::{LookupError, LookupPermit, Resolver, invalid_input};
use crate::lookup::ExistingLookup;
use mosb_api::ClusterSettings;
use mosb_build::resolve::{self, PlanContext};
use mosb_build::{NamedSecret, with_policy_of};
use mosb_cluster::resolver::{MAX_PLAN_HOLD, get_rendered_config, while_held};
use mosb_image::{Digest, PinnedRef, RepoRef};
use mosb_reconcile::Problem;
use mosb_registry::{Client, Confirmed};

/// The image, if both of its tags name it. Costs one request if the registry has no such tag.
///
/// # Errors
/// It is not known. The build need not wait for it: a Job finds out.
pub(super) async fn find(
    resolver: &Resolver,
    lookup: &ExistingLookup,
) -> Result<Option<Confirmed<PinnedRef>>, LookupError> {
    let plan = &lookup.plan;
    let host = plan.push.host().to_owned();
    let permit = resolver.limits.hosts(LookupPermit::default(), [host].into()).await?;
    let settings = resolver.settings()?;
    let proxy = resolver.proxy(&settings).await?;
    let push = resolver.secret(&plan.push_secret).await?;
    let registry_client = resolver.registries.open(&push, &settings, proxy.as_ref())?;
    let client = registry_client.client();
    let Some(digest) = tagged(client, &plan.push, &lookup.build.tag()).await? else {
        return Ok(None);
    };
    let image = plan.push.pinned(digest);
    // A Job moves this tag to its image as well, so it must be there.
    if tagged(client, &plan.push, &plan.rendered.tag()).await? != Some(digest) {
        tracing::info!("{image} has not all tags of {}; a Job builds it", lookup.build);
        return Ok(None);
    }

    // From here on, it costs as much as a plan.
    let plan_permit = resolver.limits.plan(false).await?;
    let making = Box::pin(makes(resolver, lookup, &image, (settings, push, permit)));
    if while_held(plan_permit, MAX_PLAN_HOLD, making).await? {
        return Ok(client.confirm(&image).await?);
    }
    Ok(None)
}

/// Whether the build makes exactly this image.
async fn makes(
    resolver: &Resolver,
    lookup: &ExistingLookup,
    image: &PinnedRef,
    (settings, push, permit): (ClusterSettings, NamedSecret, LookupPermit),
) -> Result<bool, LookupError> {
    let plan = &lookup.plan;
    let config = get_rendered_config(resolver, plan.rendered.as_str()).await?;
    let settings = with_policy_of(settings, &config)?;
    let proxy = resolver.proxy(&settings).await?;
    let pull = resolver.pull_secret(plan.pull_secret.as_deref(), &settings).await?;
    let credentials = push.credentials.over(&pull.credentials);
    let logins = NamedSecret { name: push.name, credentials };
    let registry_client = resolver.registries.open(&logins, &settings, proxy.as_ref())?;
    let request = build_request(plan, config, &settings, resolver.cache.rendering)?;
    let _permit = resolver.limits.hosts(permit, hosts(&request, plan)).await?;
    let on_step = |step: &str| tracing::debug!("{step}");
    let context = PlanContext { client: registry_client.client(), trees: None, on_step: &on_step };
    let draft = resolve::draft(context, request).await?;
    if draft.draft.names().1 != lookup.build {
        // The inputs changed meanwhile.
        return Ok(false);
    }
    let made = direct_digest(resolver, context, draft, plan, image).await?;
    if let Some(made) = made.filter(|made| *made != image.digest()) {
        tracing::warn!(
            "{image} has the tag of {}, which makes {made}; a Job builds it and moves the tag",
            lookup.build
        );
    }
    Ok(made == Some(image.digest()))
}

/// What a tag of the push repository names.
async fn tagged(client: &Client, push: &RepoRef, tag: &str) -> Result<Option<Digest>, Problem> {
    let image = push.tagged(tag);
    let image = image.map_err(|error| invalid_input("bad-reference", error.to_string()))?;
    Ok(client.digest_of(&image).await?)
}
