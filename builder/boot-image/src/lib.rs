//! Boot images: which image the new machines of a machine set should start from, whether the image
//! in use may be replaced, and the edit that replaces it.
//!
//! Input: the JSON values of a machine set or of a machine template, and a stream as Fedora CoreOS
//! and OpenShift publish it. Output: a [`Verdict`]. Invariants: an image that is not proven to be
//! of a stream is never replaced; a [`Change`] touches only its own paths, and only while they have
//! the value that was decided about.
//!
//! - [`stream`]: what is published, every field optional; [`Architecture`]
//! - [`platform`]: reads, judges and edits the image of one platform
//! - [`BootImage`], [`Change`], [`Skip`], [`ImageError`]: its results

mod architecture;
mod boot_image;
mod change;
mod context;
mod error;
mod field;
pub mod platform;
mod skip;
pub mod stream;

pub use architecture::{Architecture, ArchitectureError};
pub use boot_image::{BootImage, BootImageError};
pub use change::{Change, Edit, EditError};
pub use context::{Context, Proof};
pub use error::ImageError;
pub use platform::{PlatformType, TemplateKind, Verdict, cluster_api, machine_api};
pub use skip::Skip;
pub use stream::Stream;
