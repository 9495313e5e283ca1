//! Boot images: which image the new machines of a machine set should start from, whether the image
//! in use may be replaced, and the edit that replaces it.
//!
//! Input: the JSON values of a machine set or of a machine template, and a stream as Fedora CoreOS
//! and OpenShift publish it. Output: a [`Verdict`]. Invariants: an image that is not proven to be
//! of a stream is never replaced; a [`Change`] touches only its own paths, and only while they have
//! the value that was decided about.
//!
//! - [`stream`]: what is published, every field optional; [`Architecture`]
//! - [`golden`]: the ConfigMap with the streams to follow; [`Release`]: names and order of releases
//! - [`platform`]: reads, judges and edits the image of one platform
//! - [`mod@skew`]: the oldest boot image in use against a limit; [`release_of`] an image
//! - [`BootImage`], [`Change`], [`Skip`], [`ImageError`]: its results
//! - [`PublishedStream`], [`ReleaseImages`]: the OS image that a stream names
//! - [`Stub`]: the user data that the new image must be able to read
//! - [`TemplateClone`]: the template of Cluster API that has another image
//! - [`History`]: the images that a set had; [`WriteAttempt`]: how often one is written; [`SetRef`]: how
//!   a set is named

mod architecture;
mod attempt;
mod boot_image;
mod change;
mod clone;
mod field;
pub mod golden;
mod history;
mod image_release;
mod os_image;
pub mod platform;
mod release;
mod set_ref;
pub mod skew;
mod skip;
pub mod stream;
mod stub;

pub use architecture::{Architecture, ArchitectureError};
pub use attempt::{MAX_COUNT, NextWrite, SetGeneration, WriteAttempt};
pub use boot_image::{BootImage, BootImageError, ImageError};
pub use change::{Change, Edit, EditError};
pub use clone::{CLONE_LABEL, CloneError, TemplateClone};
pub use golden::{Golden, GoldenError, golden_config_map};
pub use history::{History, HistoryDetail, RestoreError, SetReference};
pub use image_release::release_of;
pub use os_image::{OsImageError, PublishedStream, ReleaseImages, StreamRelease};
pub use platform::{
    Context, PlatformType, Proof, TemplateKind, Verdict, cluster_api, cluster_api_image,
    machine_api, machine_api_image, restore,
};
pub use release::{Release, ReleaseError};
pub use set_ref::{SetKind, SetQuery, SetRef, SetRefError};
pub use skew::{Limit, SetImage, Skew, skew};
pub use skip::Skip;
pub use stream::Stream;
pub use stub::{Authority, AuthorityError, Stub, StubError};
