//! Everything that is decided before anything is done.
//!
//! In come the rendered config, the base's manifest, config and tree, and what the user asked for; out comes a [`BuildPlan`]:
//! the method and why, the inputs pinned by digest, every path of the layer, the names, tags and labels, and what is left out.
//! The invariant: the same inputs give the same plan, and nothing in a plan was looked up after it was made.

mod base;
mod build_plan;
mod inputs;
mod method;
mod request;

pub use base::{Base, BaseConfig, BaseError, BaseName};
pub use build_plan::BuildPlan;
pub use inputs::{FORMAT, Inputs};
pub use method::{Method, MethodChoice, Reason};
pub use request::Request;

/// Why there is no plan.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The Ignition config.
    #[error("{config}: spec.config: {source}")]
    Ignition {
        /// Name of the rendered config.
        config: String,
        /// What is wrong with it.
        source: crate::ignition::Error,
    },
}
