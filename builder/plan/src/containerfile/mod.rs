//! The Containerfile of a build: text made of the plan, from the sections in `containerfiles/`.
//!
//! Input: a [`BuildPlan`](crate::plan::BuildPlan). Output: text for buildah 1.28 and newer.
//! Invariant: the text contains only values without quotes, `$`, backslashes and line breaks; all
//! other values of a config are read from files of the context. The administrator's own text comes
//! last, unchanged.

mod administrator;
mod error;
mod images;
mod render;
mod template;

pub use administrator::{check, has_instruction, needs_heredoc};
pub use error::Error;
pub use images::images;
pub use render::render;
