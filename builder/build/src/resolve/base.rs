//! The base of a build: which image it is, and how labels name it.

use mosb_api::{KernelType, RenderedConfig};
use mosb_image::layer::Layer;
use mosb_image::{ImageRef, ReferenceError};
use mosb_plan::plan::{self, Base, BaseName, BuildRequest};
use mosb_registry::{Resolved, Source};
use mosb_types::Finding;

use super::{Error, PlanContext, Unresolved, resolve};

/// The given base, else `spec.osImageURL`.
pub(super) fn base_source(request: &BuildRequest<Unresolved>) -> Result<Source, Error> {
    if let Some(source) = &request.base.image {
        return Ok(source.clone());
    }
    let config = &request.config;
    let url = config
        .os_image_url
        .as_ref()
        .ok_or_else(|| Error::NoBase { config: config.name().to_string() })?;
    config_image(config, "spec.osImageURL", url).map(Source::Registry)
}

pub(super) fn config_image(
    config: &RenderedConfig,
    field: &'static str,
    url: &str,
) -> Result<ImageRef, Error> {
    url.parse().map_err(|source| wrong_image(config, field, source))
}

fn wrong_image(config: &RenderedConfig, field: &'static str, source: ReferenceError) -> Error {
    Error::ConfigImage { config: config.name().to_string(), field, source }
}

pub(super) fn base(request: &BuildRequest<Unresolved>, resolved: &Resolved) -> Result<Base, Error> {
    let config = &request.config;
    let name = match (&request.base.name, &request.base.image, &config.os_image_url) {
        (Some(name), _, _) => name.clone(),
        (None, None, Some(url)) => BaseName::from_os_image_url(url)
            .map_err(|source| wrong_image(config, "spec.osImageURL", source))?,
        (None, _, _) => given_base_name(resolved),
    };
    let base = Base::new(
        name,
        resolved.pinned_text(),
        resolved.index,
        &resolved.manifest_bytes,
        &resolved.config_bytes,
    );
    Ok(base.map_err(plan::Error::from)?)
}

/// How labels name a base that was given instead of named by the config.
pub fn given_base_name(base: &Resolved) -> BaseName {
    match base.pinned() {
        Some(pinned) => BaseName::from_registry(pinned.repo(), base.manifest),
        None => BaseName::from_layout(base.manifest),
    }
}

/// The layers of an image as manifest and config describe them, lowest first.
pub fn layers(base: &Base, resolved: &Resolved) -> Vec<Layer> {
    let layers = resolved.layers.iter().zip(&base.config.diff_ids);
    layers
        .map(|(blob, diff_id)| Layer {
            media_type: blob.media_type.clone(),
            digest: blob.digest,
            size: blob.size,
            diff_id: *diff_id,
            annotations: blob.annotations.clone(),
        })
        .collect()
}

/// The image to take packages from; `None` if the config needs no packages, or names no image.
///
/// # Errors
/// The config's own is not a reference.
pub fn extensions_source(request: &BuildRequest<Unresolved>) -> Result<Option<ImageRef>, Error> {
    let config = &request.config;
    if config.extensions.is_empty() && config.kernel_type == KernelType::Default {
        return Ok(None);
    }
    match (&request.extensions_image, &config.extensions_image) {
        (Some(image), _) => Ok(Some(image.clone())),
        (None, Some(url)) => {
            config_image(config, "spec.baseOSExtensionsContainerImage", url).map(Some)
        }
        (None, None) => Ok(None),
    }
}

/// Resolves the image to take packages from. It is in a registry.
pub(super) async fn extensions_image(
    context: PlanContext<'_>,
    request: &BuildRequest<Unresolved>,
    base: &Base,
    warnings: &mut Vec<Finding>,
) -> Result<Option<Resolved>, Error> {
    let Some(image) = extensions_source(request)? else {
        warnings.extend(request.extensions_image.as_ref().map(|image| {
            let message = "the config wants neither extensions nor another kernel, so nothing of this image is used";
            Finding::new("extensions-image-unused", message).object(image.to_string())
        }));
        return Ok(None);
    };
    let source = Source::Registry(image);
    let platform = Some(&base.config.platform);
    resolve(context, "extensions image", &source, platform).await.map(Some)
}
