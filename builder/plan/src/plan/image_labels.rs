//! The labels of an image, and the annotations of its manifest.

use std::collections::BTreeMap;

use super::Base;
use super::base::base_annotations;
use super::build_request::BuildRequest;
use super::inputs::{FORMAT, Inputs};
use super::method::Method;
use crate::api::labels;
use mosb_image::edit;

pub(super) fn image_labels(request: &BuildRequest, inputs: &Inputs) -> BTreeMap<String, String> {
    let extensions = request.extensions_image.as_ref();
    let extensions =
        extensions.map(|image| (labels::IMAGE_EXTENSIONS.to_owned(), image.to_string()));
    let base = request.base.name.as_str().to_owned();
    [
        (labels::IMAGE_MACHINE_CONFIG, request.config.name().to_string()),
        (labels::IMAGE_MACHINE_CONFIG_POOL, request.config.pool().to_string()),
        (labels::IMAGE_BASE, base.clone()),
        (labels::OCI_BASE_NAME, base),
        (labels::OCI_BASE_DIGEST, request.base.manifest_digest.to_string()),
        (labels::IMAGE_INPUTS, inputs.hex()),
        (labels::IMAGE_FORMAT, FORMAT.to_string()),
    ]
    .map(|(key, value)| (key.to_owned(), value))
    .into_iter()
    .chain(extensions)
    .collect()
}

/// What names the base in the image's manifest. `lower` is the image that the layer of a direct build
/// is put on.
pub(super) fn annotations(base: &Base, lower: &Base, method: &Method) -> BTreeMap<String, String> {
    // buildah always makes an OCI image; a direct build has the media types of what it is put on.
    let has_none = match method {
        Method::Direct | Method::Prepared(_) => edit::is_docker(&lower.manifest),
        Method::LastPart(_) | Method::Containerfile(_) => false,
    };
    if has_none { BTreeMap::new() } else { base_annotations(base) }
}
