//! Why there is no plan.

use mosb_image::{ReferenceError, layer};
use mosb_plan::plan;
use mosb_registry as registry;
use mosb_types::Diagnostic;

/// Why there is no plan.
#[derive(Debug, thiserror::Error, Diagnostic)]
#[non_exhaustive]
pub enum Error {
    /// Neither a base nor `spec.osImageURL`.
    #[error("{config}: spec.osImageURL is empty; give the base OS image with --base")]
    #[diagnostic(code = "no-base", class = InvalidInput)]
    NoBase {
        /// Name of the rendered config.
        config: String,
    },
    /// An image that the config names.
    #[error("{config}: {field}: {source}")]
    #[diagnostic(code = "bad-reference", class = InvalidInput)]
    ConfigImage {
        /// Name of the rendered config.
        config: String,
        field: &'static str,
        source: ReferenceError,
    },
    /// The inputs can't be built.
    #[error(transparent)]
    #[diagnostic(transparent)]
    Plan(#[from] plan::Error),
    /// The Containerfile asks for what the base doesn't have.
    #[error(transparent)]
    #[diagnostic(transparent)]
    Containerfile(#[from] mosb_plan::containerfile::Error),
    /// The directory of the build context.
    #[error(transparent)]
    #[diagnostic(transparent)]
    Context(#[from] crate::context_dir::Error),
    /// An image that can't be found or read.
    #[error(transparent)]
    #[diagnostic(transparent)]
    Registry(#[from] registry::Error),
    /// A layer of the base. The error does not contain the image.
    #[error("{image}: {source}")]
    #[diagnostic(transparent)]
    Layer {
        image: String,
        /// What is wrong with it.
        source: layer::Error,
    },
}
