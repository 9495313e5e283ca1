//! Which image of packages a build installs from.

use crate::api::KernelType;
use crate::plan::BuildRequest;
use mosb_image::PinnedRef;

/// The image with the packages, if some are installed.
pub(super) fn extensions_image(request: &BuildRequest) -> Option<&PinnedRef> {
    let config = &request.config;
    let installs = !config.extensions.is_empty() || config.kernel_type != KernelType::Default;
    request.extensions_image.as_ref().filter(|_| installs)
}
