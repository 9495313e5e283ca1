//! Why there is no plan.

use mosb_image::{ReferenceError, layer};
use mosb_plan::plan;
use mosb_registry as registry;
use mosb_types::ErrorClass;

/// Why there is no plan.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// Neither a base nor `spec.osImageURL`.
    #[error("{config}: spec.osImageURL is empty; give the base OS image with --base")]
    NoBase {
        /// Name of the rendered config.
        config: String,
    },
    /// An image that the config names.
    #[error("{config}: {field}: {source}")]
    ConfigImage {
        /// Name of the rendered config.
        config: String,
        /// The field.
        field: &'static str,
        /// What is wrong.
        source: ReferenceError,
    },
    /// The inputs can't be built.
    #[error(transparent)]
    Plan(#[from] plan::Error),
    /// An image that can't be found or read.
    #[error(transparent)]
    Registry(#[from] registry::Error),
    /// A layer of the base, which doesn't say of which image it is.
    #[error("{image}: {source}")]
    Layer {
        /// The base.
        image: String,
        /// What is wrong with it.
        source: layer::Error,
    },
}

impl Error {
    pub fn class(&self) -> ErrorClass {
        match self {
            Self::NoBase { .. } | Self::ConfigImage { .. } => ErrorClass::InvalidInput,
            Self::Plan(error) => error.class(),
            Self::Registry(error) => error.class(),
            Self::Layer { source, .. } => source.class(),
        }
    }

    /// One of the reasons of [`plan::Error`], [`registry::Error`] and [`layer::Error`], `no-base`, `bad-reference`.
    pub fn reason(&self) -> &'static str {
        match self {
            Self::NoBase { .. } => "no-base",
            Self::ConfigImage { .. } => "bad-reference",
            Self::Plan(error) => error.reason(),
            Self::Registry(error) => error.reason(),
            Self::Layer { source, .. } => source.reason(),
        }
    }
}
