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
//! - [`Stub`]: the user data that the new image must be able to read
//! - [`TemplateClone`]: the template of Cluster API that has another image
//! - [`History`]: the images that a set had; [`SetRef`]: how a set is named

mod architecture;
mod boot_image;
mod change;
mod clone;
mod context;
mod error;
mod field;
mod history;
pub mod platform;
mod set_ref;
mod skip;
pub mod stream;
mod stub;

pub use architecture::{Architecture, ArchitectureError};
pub use boot_image::{BootImage, BootImageError};
pub use change::{Change, Edit, EditError};
pub use clone::{CLONE_LABEL, CloneError, TemplateClone};
pub use context::{Context, Proof};
pub use error::ImageError;
pub use history::{History, HistoryDetail, RestoreError, SetReference};
pub use platform::{PlatformType, TemplateKind, Verdict, cluster_api, machine_api};
pub use set_ref::{SetKind, SetQuery, SetRef, SetRefError};
pub use skip::Skip;
pub use stream::Stream;
pub use stub::{Authority, AuthorityError, Stub, StubError};
