//! The Containerfile of a build: text made of the plan, from the sections in `containerfiles/`.
//!
//! In comes a [`BuildPlan`](crate::plan::BuildPlan); out goes text that buildah 1.28 and newer
//! understand. The invariant: only texts that can't hold a quote, a `$`, a backslash or a line
//! break reach it; everything else that a config says is read from files of the context. The
//! administrator's own text is last, as it is.

mod administrator;
mod error;
mod images;
mod render;
mod template;

pub use administrator::{check, has_instruction, needs_heredoc};
pub use error::Error;
pub use images::images;
pub use render::render;
