//! The prepared base of a build: the OS base with everything that must be run, in an image of its own.
//! It is run once; a change of the config alone is then one layer on top of it.
//!
//! Input: a request whose only reasons to run something are packages, the kernel, the trust store, and
//! the administrator's instructions.
//! Output: [`Prepared`]: the names that follow from what is run, and the parts of the config that it
//! needs. Invariant: whatever is not run never changes the names, whatever is run does.
//!
//! What is run no longer sees the rest of the config. Where that would make another image,
//! [`obstacle`] says so, and the build runs its Containerfile on each change, as without a prepared
//! base.

mod base;
mod inputs;
mod obstacle;
#[cfg(test)]
mod tests;
mod trust_files;

use std::collections::BTreeMap;

pub use base::{PreparedBase, PreparedError};
pub use inputs::{BuilderNodes, PreparedInputs, PreparedTag};
pub use obstacle::Obstacle;
pub(crate) use trust_files::is_trust_file;
pub(super) use trust_files::without_trust_files;

use super::base::base_annotations;
use super::build_context::{BuildContext, ContextPath};
use super::build_plan::BuildRequest;
use super::method::Reason;
use mosb_api::labels;
use mosb_ignition::Config;

/// The administrator's instructions that run before the config is written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OwnInstructions {
    /// The stages, in their order. They refer to no other stages of mosb but `base` and `extensions`.
    pub text: String,
    /// The same without comments and line breaks, which the names depend on.
    pub canonical: String,
    /// The name of the last stage.
    pub name: String,
    /// The build arguments that can affect them.
    pub build_args: BTreeMap<String, String>,
    /// What they take of the build context.
    pub context: Vec<ContextPath>,
}

/// The administrator's Containerfile, by when its parts run.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct OwnParts {
    /// What runs before the config is written.
    pub prepared: Option<OwnInstructions>,
    pub last: OwnLast,
}

/// What runs after the config is written.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum OwnLast {
    #[default]
    Nothing,
    /// It can start from an image with the config.
    OnConfigs,
    /// It also needs the base without the config, by this line.
    NeedsBase { line: usize },
    /// It also needs all that runs before the config is written, by this line.
    NeedsPrepared { line: usize },
}

/// A prepared base before it is made.
#[derive(Debug, Clone)]
pub struct Prepared {
    pub request: BuildRequest,
    pub inputs: PreparedInputs,
    /// What runs after packages and kernel.
    pub own: Option<OwnInstructions>,
    /// Whether the trust store is compiled.
    pub compiles_trust: bool,
    /// Whether the config has entries that are written before it is compiled.
    pub has_trust_files: bool,
    /// Whether instructions run on it with the config.
    pub has_last: bool,
}

impl Prepared {
    /// The prepared base of a request; `reasons` say why something must be run.
    ///
    /// # Errors
    /// What is run depends on the rest of the config.
    pub(super) fn new(
        request: &BuildRequest,
        ignition: Option<&Config>,
        reasons: &[Reason],
        own: OwnParts,
        nodes: BuilderNodes,
    ) -> Result<Self, Obstacle> {
        let compiles_trust = reasons.iter().any(|reason| matches!(reason, Reason::CaTrust(_)));
        obstacle::check(request, ignition, reasons, &own, compiles_trust)?;
        let OwnParts { prepared: own, last } = own;
        let ignition = ignition.filter(|_| compiles_trust);
        let trust_files = ignition.map(trust_files::trust_files).transpose()?.unwrap_or_default();
        Ok(Self {
            inputs: PreparedInputs::new(request, &trust_files, own.as_ref(), nodes),
            request: request.clone(),
            own,
            compiles_trust,
            has_trust_files: !trust_files.is_empty(),
            has_last: last != OwnLast::Nothing,
        })
    }

    /// The extensions to install, in one order whatever that of the config is.
    pub fn extensions(&self) -> Vec<String> {
        inputs::sorted_extensions(&self.request)
    }

    /// What is copied of the build context.
    pub fn context(&self) -> Option<BuildContext> {
        inputs::context(&self.request, self.own.as_ref())
    }

    /// The tag of the image.
    pub fn tag(&self) -> PreparedTag {
        self.inputs.tag()
    }

    /// The labels of the image, beside the base's own.
    pub fn labels(&self) -> BTreeMap<String, String> {
        let base = &self.request.base;
        [
            (labels::IMAGE_PREPARED_INPUTS, self.inputs.hex()),
            (labels::OCI_BASE_NAME, base.name.as_str().to_owned()),
            (labels::OCI_BASE_DIGEST, base.manifest_digest.to_string()),
        ]
        .map(|(key, value)| (key.to_owned(), value))
        .into()
    }

    /// The annotations of its manifest, which say what its base is.
    pub fn annotations(&self) -> BTreeMap<String, String> {
        base_annotations(&self.request.base)
    }
}
