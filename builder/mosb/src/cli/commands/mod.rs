//! The implementations of the commands: they call the other crates and return an object to print.

mod boot_images;
mod bootstrap;
mod build;
mod cache;
#[cfg(feature = "cluster")]
mod cluster;
mod containerfile;
mod diff;
mod image;
mod installation;
#[cfg(feature = "cluster")]
mod job;
mod make_plan;
#[cfg(feature = "cluster")]
mod node;
mod plan;
mod preflight;
mod prepare;
mod prepared_base;
mod pushed_image;
mod render;
mod seed;
#[cfg(feature = "cluster")]
mod serve_ignition;

pub use boot_images::golden;
pub use bootstrap::bootstrap;
pub use build::build;
pub use cache::{list, prune};
#[cfg(feature = "cluster")]
pub use cluster::{control, in_cluster};
pub use diff::diff;
pub use image::{files, inspect};
#[cfg(feature = "cluster")]
pub use job::{in_pod, wait_for_done};
#[cfg(feature = "cluster")]
pub use node::{adopt, drift, node};
pub use plan::plan;
pub use preflight::preflight;
pub use prepare::prepare;
pub use render::render;
pub use seed::new as new_seed;
#[cfg(feature = "cluster")]
pub use serve_ignition::serve_ignition;
