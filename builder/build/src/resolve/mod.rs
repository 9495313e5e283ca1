//! Makes a plan from inputs: resolves the images that they name, once, and reads the base's tree
//! if the plan depends on it.
//!
//! The command line, a build pod and the controller all plan with this module, so that the same
//! inputs are the same build everywhere.

mod base;
mod base_tree;
mod context;
mod draft;
mod error;
mod extensions_image;
mod plan;
mod prepared;
mod render;
mod unchecked_images;
mod unresolved;

pub use base::{given_base_name, layers};
pub use context::{PlanContext, Trees};
pub use draft::{ResolvedDraft, draft, draft_while};
pub use error::Error;
pub use extensions_image::extensions_source;
pub use plan::{ResolvedPlan, finish, finish_on, finish_with_tree};
pub use prepared::{ResolvedPrepared, prepared_base};
pub use render::{RenderFailure, admit_all, render};
pub use unresolved::{Unresolved, UnresolvedBase};
