//! Plans a build: makes all decisions before anything is changed.
//!
//! Input: the rendered config, the base's manifest, config and tree, and the user's options. Output:
//! a [`BuildPlan`]: the method and its reasons, the inputs pinned by digest, every path of the layer,
//! the names, tags and labels, and the parts that are not in the image. Invariant: the same inputs
//! give the same plan, and carrying it out resolves nothing again.

mod apply;
mod base;
mod boot_check;
mod build_context;
mod build_plan;
mod checks;
pub mod diff;
mod draft;
mod explain;
mod inputs;
mod kernel_arguments;
mod kernel_state;
pub mod live;
mod machine_part;
mod machine_policy;
mod method;
mod mounted;
mod origin;
pub mod packages;
mod pre_built;
mod prepared;
mod push_spec;
mod update_units;
mod var_files;

pub(crate) use apply::number_in;
pub use apply::{
    ApplyError, CURRENT_CONFIG, WrittenEntry, WrittenEtc, instance_of, written_to_etc,
};
pub(crate) use base::is_root;
pub use base::{Base, BaseConfig, BaseError, BaseName, BaseRelease, SEALED, TagState};
pub(crate) use boot_check::boot_check_files;
pub use build_context::{
    BuildContext, ContextEntry, ContextPath, IgnoreFile, Listing, MissingPath, used_paths,
};
pub use build_plan::{BuildPlan, BuildRequest, Pinned, Stage};
pub use checks::CheckError;
pub(crate) use checks::unified_kernel;
pub use draft::{Draft, parse_ignition};
pub use explain::secret_files;
pub use inputs::{FORMAT, Inputs};
pub(crate) use kernel_arguments::kargs_file;
pub use kernel_arguments::{FILE as KERNEL_ARGUMENTS_FILE, parse_kargs_file};
pub use kernel_state::is_kept_by_kernel;
pub use machine_part::{is_same_but_login, machine_part, split_arguments};
pub use machine_policy::{FILE as MACHINE_POLICY, SignatureFiles, contents as machine_policy};
pub use method::{Method, MethodChoice, Reason, build_on_reason, default_build_on};
pub use mounted::{Mounted, MountedAs, MountedError, mounted};
pub use origin::Origin;
pub use pre_built::{PreBuiltError, pre_built_image, pre_built_inputs};
pub(crate) use prepared::is_trust_file;
pub use prepared::{
    BuilderNodes, Obstacle, OwnInstructions, OwnLast, OwnParts, Prepared, PreparedBase,
    PreparedError, PreparedInputs, PreparedTag,
};
pub use push_spec::{PushSpecError, push_repository};
pub use update_units::UPDATE_UNITS;
pub use var_files::FOLDER as VAR_FILES;
pub(crate) use var_files::collect_files;

use mosb_types::Diagnostic;

/// Why there is no plan.
#[derive(Debug, thiserror::Error, Diagnostic)]
#[non_exhaustive]
pub enum Error {
    #[error("{config}: spec.config: {source}")]
    #[diagnostic(transparent)]
    Ignition {
        config: String,
        /// What is wrong with it.
        source: mosb_ignition::Error,
    },
    #[error(transparent)]
    #[diagnostic(transparent)]
    Base(#[from] BaseError),
    #[error(transparent)]
    #[diagnostic(transparent)]
    Check(#[from] CheckError),
    /// The config and the base don't go together.
    #[error("{config}: {source}")]
    #[diagnostic(transparent)]
    Apply {
        config: String,
        /// Errors that the real Ignition would return too.
        source: ApplyError,
    },
    /// An image that is not the prepared base of this build.
    #[error(transparent)]
    #[diagnostic(transparent)]
    Prepared(#[from] PreparedError),
    /// There is no prepared base for this build.
    #[error(
        "{config} has no prepared base: {obstacle}; build it without --prepared and --prepare-only"
    )]
    #[diagnostic(code = "no-prepared-base", class = InvalidInput, findings = vec![obstacle.finding()])]
    Obstacle { config: String, obstacle: Obstacle },
    #[error(transparent)]
    #[diagnostic(code = "bad-extensions", class = InvalidInput)]
    Packages(#[from] packages::Error),
}
