//! Recognises a pre-built image as equal to what would be built: made by mosb, directly, from the
//! same MachineConfigs on the release's own base.
//!
//! Its label is only checked to save work: the image [assembled here](super::direct_image) must have
//! the same digest. If that can't be done, a Job builds the image again.

use serde_json::Value;

use super::build_request::build_request;
use super::direct_image::direct_digest;
use super::{Resolver, unknown_image};
use crate::lookup::PlanLookup;
use mosb_api::cluster_settings::Proxy;
use mosb_api::{ClusterSettings, RenderedConfig, labels};
use mosb_build::NamedSecret;
use mosb_build::resolve::{self, PlanContext};
use mosb_image::PinnedRef;
use mosb_reconcile::Problem;
use mosb_registry::{Client, Resolved, Source};
use mosb_render::without_components;
use mosb_types::ErrorClass;

/// Settings and credentials for registry requests.
pub(super) struct RegistryAccess<'a> {
    pub settings: &'a ClusterSettings,
    pub proxy: Option<&'a Proxy>,
    pub push: &'a NamedSecret,
    pub pull: &'a NamedSecret,
}

/// Whether the image is a direct build of the pool's own config on the release's base, or of its
/// MachineConfigs without the component. If that can't be computed here, the result is `false` and
/// a Job builds the image.
///
/// # Errors
/// The registry rejected the request or did not answer. Nothing is built until it does.
pub(super) async fn recognised(
    resolver: &Resolver,
    lookup: &PlanLookup,
    own: &RenderedConfig,
    with: RegistryAccess<'_>,
) -> Result<bool, Problem> {
    let Some(image) = &lookup.recognise else {
        return Ok(false);
    };
    let logins = NamedSecret {
        name: with.push.name.clone(),
        credentials: with.push.credentials.over(&with.pull.credentials),
    };
    let registry_client = resolver.registries.open(&logins, with.settings, with.proxy)?;
    let client = registry_client.client();
    let source = Source::Registry(image.clone().into());
    let there = match client.resolve(&source, lookup.platform.as_ref()).await {
        Ok(there) => there,
        Err(error) => return missing_or_unknown(image, error.into()),
    };
    // mosb does not create image indexes.
    let Some(inputs) = inputs_of(&there).filter(|_| there.manifest == image.digest()) else {
        return Ok(false);
    };
    let same = (&*inputs, image);
    match matches_own_build(resolver, lookup, client, own, with.settings, same).await {
        Ok(recognised) => Ok(recognised),
        Err(problem) => Ok(not_recognised(image, &problem)),
    }
}

/// `false` if the image is missing or invalid; otherwise its status is unknown.
fn missing_or_unknown(image: &PinnedRef, problem: Problem) -> Result<bool, Problem> {
    match problem.class {
        ErrorClass::Transient | ErrorClass::Rejected => Err(unknown_image(problem)),
        ErrorClass::InvalidInput | ErrorClass::Internal => Ok(not_recognised(image, &problem)),
    }
}

fn not_recognised(image: &PinnedRef, problem: &Problem) -> bool {
    let reason = &problem.reason;
    tracing::info!(reason, "{image} is not recognised: {}", problem.message);
    false
}

async fn matches_own_build(
    resolver: &Resolver,
    lookup: &PlanLookup,
    client: &Client,
    own: &RenderedConfig,
    settings: &ClusterSettings,
    (inputs, image): (&str, &PinnedRef),
) -> Result<bool, Problem> {
    let is_own = |image: &String| {
        let instead = lookup.instead.as_ref();
        instead.is_none_or(|instead| !instead.of.contains(image))
    };
    if own.os_image_url.as_ref().is_some_and(is_own)
        && is_direct_build_of(resolver, lookup, client, own, settings, (inputs, image)).await?
    {
        return Ok(true);
    }
    let config = without_components(resolver, lookup.pool.as_str()).await?;
    is_direct_build_of(resolver, lookup, client, &config, settings, (inputs, image)).await
}

/// The inputs label of an image made by mosb.
pub(super) fn inputs_of(image: &Resolved) -> Option<String> {
    let config: Value = serde_json::from_slice(&image.config_bytes).ok()?;
    let label = config.get("config")?.get("Labels")?.get(labels::IMAGE_INPUTS)?;
    label.as_str().map(str::to_owned)
}

/// Whether a direct build of this config is the image with these inputs.
async fn is_direct_build_of(
    resolver: &Resolver,
    lookup: &PlanLookup,
    client: &Client,
    config: &RenderedConfig,
    settings: &ClusterSettings,
    (inputs, image): (&str, &PinnedRef),
) -> Result<bool, Problem> {
    let plain = PlanLookup { base: None, recorded: None, instead: None, ..lookup.clone() };
    let context = PlanContext { client, trees: None, on_step: &|step| tracing::debug!("{step}") };
    let build_request = build_request(&plain, config.clone(), settings, false)?;
    let resolved_draft = resolve::draft(context, build_request).await?;
    if resolved_draft.draft.names().0.hex() != inputs {
        return Ok(false);
    }
    let made = direct_digest(resolver, context, resolved_draft, lookup, image).await?;
    Ok(made == Some(image.digest()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lookup_that_failed_is_not_a_missing_image() {
        let image: PinnedRef = format!("quay.io/os@sha256:{}", "1".repeat(64)).parse().unwrap();
        for (what, class, is_known) in [
            ("away", ErrorClass::Transient, false),
            ("refused", ErrorClass::Rejected, false),
            ("missing", ErrorClass::InvalidInput, true),
            ("our mistake", ErrorClass::Internal, true),
        ] {
            let problem =
                Problem { class, reason: what.to_owned(), message: format!("{image}: {what}") };
            let got = missing_or_unknown(&image, problem.clone());
            let want = if is_known { Ok(false) } else { Err(unknown_image(problem)) };
            assert_eq!(got, want, "{what}");
        }
    }
}
