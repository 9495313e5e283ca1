//! Which image of packages a build installs from.

use crate::plan::BuildRequest;
use mosb_image::PinnedRef;

/// The image with the packages, if some are installed.
pub(super) fn extensions_image(request: &BuildRequest) -> Option<&PinnedRef> {
    request.extensions_image.as_ref().filter(|_| request.config.installs_packages())
}
