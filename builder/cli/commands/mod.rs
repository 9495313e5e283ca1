//! What each command does: calls of the rooms below, and an object to print.

mod build;
mod cache;
mod containerfile;
mod diff;
mod image;
mod plan;
mod prepare;
mod render;

pub use build::build;
pub use cache::{list, prune};
pub use diff::diff;
pub use image::{files, inspect};
pub use plan::plan;
pub use render::render;
