//! The extensions image of a build.

use mosb_image::{ImageRef, PinnedRef};
use mosb_plan::api::KernelType;
use mosb_plan::plan::{Base, BuildRequest};
use mosb_registry::Source;
use mosb_types::Finding;

use super::base::config_image;
use super::context::{PlanContext, resolve};
use super::error::Error;
use super::unresolved::Unresolved;

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

/// Resolves the image to take packages from.
pub(super) async fn extensions_image(
    context: PlanContext<'_>,
    request: &BuildRequest<Unresolved>,
    base: &Base,
    warnings: &mut Vec<Finding>,
) -> Result<Option<PinnedRef>, Error> {
    let Some(image) = extensions_source(request)? else {
        warnings.extend(request.extensions_image.as_ref().map(|image| {
            let message = "the config wants neither extensions nor another kernel, so nothing of this image is used";
            Finding::new("extensions-image-unused", message).object(image.to_string())
        }));
        return Ok(None);
    };
    let source = Source::Registry(image);
    let platform = Some(&base.config.platform);
    let resolved = resolve(context, "extensions image", &source, platform).await?;
    warnings.extend(context.client.unchecked_signature(&source));
    Ok(resolved.pinned())
}
