//! The extensions image of a build.

use mosb_image::PinnedRef;
use mosb_plan::api::KernelType;
use mosb_plan::plan::Base;
use mosb_registry::Source;
use mosb_types::Finding;

use super::base::config_image;
use super::context::{PlanContext, resolve};
use super::error::Error;
use super::request::BuildRequest;

/// The image with packages, where packages are request.
pub(super) async fn extensions_image(
    context: PlanContext<'_>,
    request: &BuildRequest,
    base: &Base,
    warnings: &mut Vec<Finding>,
) -> Result<Option<PinnedRef>, Error> {
    let config = &request.config;
    let needed = !config.extensions.is_empty() || config.kernel_type != KernelType::Default;
    if !needed {
        if let Some(image) = &request.extensions_image {
            let message = "the config wants neither extensions nor another kernel, so nothing of this image is used";
            warnings
                .push(Finding::new("extensions-image-unused", message).object(image.to_string()));
        }
        return Ok(None);
    }
    let image = match (&request.extensions_image, &config.extensions_image) {
        (Some(image), _) => image.clone(),
        (None, Some(url)) => config_image(config, "spec.baseOSExtensionsContainerImage", url)?,
        (None, None) => return Ok(None),
    };
    let platform = Some(&base.config.platform);
    let source = Source::Registry(image);
    let resolved = resolve(context, "extensions image", &source, platform).await?;
    warnings.extend(context.client.unchecked_signature(&source));
    Ok(resolved.pinned())
}
