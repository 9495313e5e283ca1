//! A prepared base that was made, checked before anything is put on it.

use super::{Prepared, PreparedInputs};
use crate::plan::Base;
use mosb_api::labels;
use mosb_types::Diagnostic;

/// A prepared base that was made of the inputs of a build.
#[derive(Debug, Clone)]
pub struct PreparedBase {
    pub inputs: PreparedInputs,
    pub image: Base,
    /// Whether it has the entries of the config that the trust store is compiled from.
    pub has_trust_files: bool,
    /// Whether instructions run on it with the config.
    pub has_last: bool,
}

/// An image that is not the prepared base of a build.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error, Diagnostic)]
#[diagnostic(class = InvalidInput)]
#[non_exhaustive]
pub enum PreparedError {
    /// It has not the label of one.
    #[error(
        "{image} is not a prepared base: it has no label {}; make one with mosb build --prepare-only",
        labels::IMAGE_PREPARED_INPUTS
    )]
    #[diagnostic(code = "no-prepared-base")]
    NoLabel { image: String },
    /// It has the config of a build on it.
    #[error(
        "{image} was built from {config}, so it is not a prepared base; give the image of its label mosb.dev/prepared"
    )]
    #[diagnostic(code = "no-prepared-base")]
    HasConfig { image: String, config: String },
    /// Something else was run.
    #[error(
        "{image} was prepared from other inputs ({found}) than this build has ({want}): extensions, kernel, instructions FROM base with their build arguments, trust bundle or files below /etc/pki/ca-trust/source differ; leave out --prepared, or make one with mosb build --prepare-only"
    )]
    #[diagnostic(code = "other-prepared-inputs")]
    Inputs { image: String, found: String, want: String },
    /// It is on another base.
    #[error(
        "{image} was prepared on {found}, and this build is on {want}; leave out --prepared, or give that --base"
    )]
    #[diagnostic(code = "other-prepared-base")]
    Base { image: String, found: String, want: String },
    /// Its layers are not on top of the base's.
    #[error(
        "{image}: its layers are not on top of those of {base}, which its labels name; make it again with mosb build --prepare-only"
    )]
    #[diagnostic(code = "no-prepared-base")]
    Layers { image: String, base: String },
}

impl PreparedBase {
    /// The label of an image on it.
    pub(in crate::plan) fn label(&self) -> (String, String) {
        (labels::IMAGE_PREPARED.to_owned(), self.image.manifest_digest.to_string())
    }
}

impl Prepared {
    /// Checks that an image is this prepared base. That its content is what was run can't be checked:
    /// whoever names it by its digest trusts whoever made it.
    ///
    /// # Errors
    /// It is something else.
    pub fn check(&self, image: Base) -> Result<PreparedBase, PreparedError> {
        let shown = image.image.clone();
        let base = &self.request.base;
        let label = |key: &str| image.config.labels.get(key);
        let Some(found) = label(labels::IMAGE_PREPARED_INPUTS) else {
            return Err(PreparedError::NoLabel { image: shown });
        };
        let config = label(labels::IMAGE_MACHINE_CONFIG);
        if let Some(config) = config
            && base.config.labels.get(labels::IMAGE_MACHINE_CONFIG) != Some(config)
        {
            return Err(PreparedError::HasConfig { image: shown, config: config.clone() });
        }
        let found_base = label(labels::OCI_BASE_DIGEST).cloned().unwrap_or_default();
        let want = base.manifest_digest.to_string();
        if found_base != want {
            return Err(PreparedError::Base { image: shown, found: found_base, want });
        }
        let want = self.inputs.hex();
        if *found != want {
            return Err(PreparedError::Inputs { image: shown, found: found.clone(), want });
        }
        if !image.config.diff_ids.starts_with(&base.config.diff_ids) {
            return Err(PreparedError::Layers { image: shown, base: base.image.clone() });
        }
        Ok(PreparedBase {
            inputs: self.inputs,
            image,
            has_trust_files: self.has_trust_files,
            has_last: self.has_last,
        })
    }
}
