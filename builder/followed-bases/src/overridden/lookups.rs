//! Looks up which MachineConfig sets the OS image of a pool, and whether that is older than the release's.

use kube::Api;
use kube::core::DynamicObject;

use super::{Age, Override, OverrideLookup};
use crate::streams::image_release;
use mosb_cluster::kinds;
use mosb_cluster::resolver::{LookupError, LookupPermit, Resolver, get_rendered_config};
use mosb_image::ImageRef;
use mosb_reconcile::{Error, Problem};
use mosb_types::ErrorClass;

/// The most MachineConfigs that are read to find the one that sets the image.
const MAX_SOURCES: usize = 200;

/// Reads the rendered config, the MachineConfig that sets its image, and both images.
pub(super) async fn look_up(
    resolver: &Resolver,
    lookup: &OverrideLookup,
) -> Result<Override, LookupError> {
    let config = get_rendered_config(resolver, &lookup.rendered).await?;
    let image = config.os_image_url.unwrap_or_default();
    let by = find_source(resolver, lookup, &image).await?;
    let age = match age(resolver, lookup, &image).await {
        Ok(age) => age,
        // Until the settings or a Secret change, it would fail again.
        Err(LookupError::Problem(problem)) if problem.class != ErrorClass::Transient => {
            Age::Unknown(problem.message)
        }
        Err(error) => return Err(error),
    };
    Ok(Override { image, by, age })
}

/// The last MachineConfig with this image, or with a tag that was pinned to it.
async fn find_source(
    resolver: &Resolver,
    lookup: &OverrideLookup,
    image: &str,
) -> Result<Option<String>, Problem> {
    let api: Api<DynamicObject> =
        Api::all_with(resolver.client.clone(), &kinds::MACHINE_CONFIG.resource());
    for name in lookup.sources.iter().rev().take(MAX_SOURCES) {
        let found = api.get_opt(name).await;
        let found = found.map_err(Error::api(format!("machineconfig {name}"), "get"))?;
        let url = found.as_ref().and_then(|one| one.data.pointer("/spec/osImageURL")?.as_str());
        if let Some(url) = url.filter(|url| !url.is_empty()) {
            let is_pinned_tag = || {
                let (url, image) = (url.parse::<ImageRef>(), image.parse::<ImageRef>());
                url.is_ok_and(|url| image.is_ok_and(|image| image.repo() == url.repo()))
            };
            return Ok((url == image || is_pinned_tag()).then(|| name.clone()));
        }
    }
    Ok(None)
}

async fn age(
    resolver: &Resolver,
    lookup: &OverrideLookup,
    image: &str,
) -> Result<Age, LookupError> {
    let unknown = |why: &str| Ok(Age::Unknown(why.to_owned()));
    let Some(release) = &lookup.release else {
        return unknown(
            "no image of a release is known; set baseOSContainerImage in ConfigMap mosb-config",
        );
    };
    let (Ok(own), Ok(release)) = (image.parse::<ImageRef>(), release.parse::<ImageRef>()) else {
        return unknown("one of both is not the name of an image");
    };
    let hosts = [&own, &release].map(|image| image.repo().host().to_owned());
    let _permit = resolver.limits.hosts(LookupPermit::default(), hosts.into()).await?;
    let what = || format!("{own} and {release}");
    let platform = lookup.platform.as_ref();
    let both = Box::pin(async {
        Ok::<_, Problem>((
            image_release(resolver, &own, platform).await?,
            image_release(resolver, &release, platform).await?,
        ))
    });
    let (own, release) = resolver.limits.with_timeout(what, both).await?;
    Ok(if own.created.is_none() || release.created.is_none() {
        Age::Unknown("one of both does not say when it was made".to_owned())
    } else if own.is_before(&release) {
        Age::Older { own, release }
    } else {
        Age::NotOlder
    })
}
