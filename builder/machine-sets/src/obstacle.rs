//! Why a machine set gets no other image now.

use mosb_boot_image::{ArchitectureError, ImageError, Skip};
use mosb_types::Diagnostic as _;

/// What keeps a set from its image.
#[derive(Debug, Clone, PartialEq)]
pub enum Obstacle {
    /// It is left alone on purpose.
    Skip(Skip),
    /// It is left alone because a right is missing.
    NoRight(String),
    /// It follows as soon as this is over.
    Wait(String),
    /// Somebody must correct something.
    Fail(Failure),
}

/// An error of one set.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Failure {
    /// One word for programs.
    pub code: String,
    /// Cause and remedy.
    pub message: String,
}

impl Failure {
    pub fn new(code: &str, message: impl Into<String>) -> Self {
        Self { code: code.to_owned(), message: message.into() }
    }

    pub fn missing(pointer: &str) -> Self {
        Self::new("boot-image-field-missing", format!("field {pointer} is missing; set it"))
    }
}

impl From<Failure> for Obstacle {
    fn from(failure: Failure) -> Self {
        Self::Fail(failure)
    }
}

impl From<Skip> for Obstacle {
    fn from(skip: Skip) -> Self {
        Self::Skip(skip)
    }
}

impl From<ImageError> for Obstacle {
    fn from(error: ImageError) -> Self {
        Failure::new(error.code(), error.to_string()).into()
    }
}

impl From<ArchitectureError> for Obstacle {
    fn from(error: ArchitectureError) -> Self {
        Failure::new(error.code(), error.to_string()).into()
    }
}
