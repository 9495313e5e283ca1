//! What a build in the cluster is made from.

use mosb_api::{ClusterSettings, RecordedBase, RenderedConfig};
use mosb_build::resolve::{Unresolved, UnresolvedBase};
use mosb_image::ImageRef;
use mosb_plan::plan::{BaseName, BuildRequest};
use mosb_registry::Source;

use super::invalid_input;
use crate::lookup::PlanLookup;
use mosb_reconcile::Problem;

/// The build request, with the base from lookup, config and settings. `is_rendering`: the config may
/// be one that mosb rendered, with the recorded base in it.
pub(super) fn build_request(
    lookup: &PlanLookup,
    config: RenderedConfig,
    settings: &ClusterSettings,
    is_rendering: bool,
) -> Result<BuildRequest<Unresolved>, Problem> {
    let bad = |text: &str, error: mosb_image::ReferenceError| {
        invalid_input("bad-reference", format!("{text}: {error}"))
    };
    let own = config.os_image_url.clone();
    let instead = lookup.instead.as_ref().filter(|instead| {
        let own = own.as_ref();
        own.is_some_and(|own| instead.of.contains(own))
    });
    let named = match instead {
        Some(instead) => Some(instead.stock.as_ref().ok_or_else(|| {
            let message = format!(
                "machineconfig {}: its OS image is pre-built, and the release's own is unknown; set baseOSContainerImage in ConfigMap mosb-config",
                config.name()
            );
            invalid_input("no-base-image", message)
        })?),
        None => own.as_ref().or(settings.base_os_container_image.as_ref()),
    };
    let recorded = lookup.recorded.as_ref().filter(|_| instead.is_none());
    let is_named = |recorded: &RecordedBase| named.is_some_and(|named| recorded.is_of(named));
    let stream = settings.base_stream.as_ref().filter(|_| !is_rendering);
    let recorded = recorded.filter(|recorded| {
        is_named(recorded) || stream.is_some_and(|stream| recorded.is_of(stream))
    });
    let base_name = match (recorded, named) {
        (Some(recorded), _) if !is_named(recorded) => {
            let base = recorded.pinned();
            Some(BaseName::from_registry(base.repo(), base.digest()))
        }
        (_, Some(text)) => {
            Some(BaseName::from_os_image_url(text).map_err(|error| bad(text, error))?)
        }
        (_, None) => None,
    };
    let pinned = lookup.base.clone().or_else(|| recorded.map(RecordedBase::pinned));
    let pinned = pinned.as_ref().map(ToString::to_string);
    let base = pinned
        .as_ref()
        .or(named)
        .map(|text| text.parse::<ImageRef>().map_err(|error| bad(text, error)))
        .transpose()?;
    let extensions = match (&config.extensions_image, &settings.base_os_extensions_container_image)
    {
        (None, Some(text)) => Some(text.parse::<ImageRef>().map_err(|error| bad(text, error))?),
        _ => None,
    };
    let base = UnresolvedBase {
        image: base.map(Source::Registry),
        name: base_name,
        platform: lookup.platform.clone(),
    };
    Ok(BuildRequest {
        extensions_image: extensions,
        containerfile: lookup.containerfile.clone(),
        trust_bundle: settings.additional_trust_bundle.clone().map(|pem| pem.into_bytes().into()),
        push: Some(lookup.push.clone()),
        build_on: lookup.build_on,
        ..BuildRequest::new(config, base)
    })
}
