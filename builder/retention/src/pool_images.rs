//! The images of a pool, as `mosb images` prints them.

use std::fmt;

use jiff::Timestamp;
use schemars::JsonSchema;
use serde::Serialize;

use crate::judge::{ImageKind, JudgedImage};

/// The images that builds of a pool pushed, and which of them are deleted.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PoolImages {
    /// The pool.
    pub pool: String,
    /// Its MachineOSConfig.
    #[serde(rename = "machineOSConfig")]
    pub machine_os_config: String,
    /// `host/repository` that its builds push to.
    pub repository: String,
    /// How many of the newest images are kept.
    pub keep: u16,
    /// All images are kept that were built in the last so many days.
    pub days: u16,
    /// Whether images were deleted, if nothing kept it from that; `false` for a list and a dry run.
    pub prune: bool,
    /// Why nothing is deleted now.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub held: Option<String>,
    /// What the registry answered, if it deletes no images.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub refused: Option<String>,
    /// Newest first. Images that were deleted earlier are not in it.
    pub images: Vec<PoolImage>,
}

/// An image of a pool.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PoolImage {
    /// `host/repository@sha256:…`.
    pub image: String,
    /// `machines`, or `prepared-base` for a base with what was run.
    pub kind: String,
    /// Names of the builds that have it, or were made on it.
    pub builds: Vec<String>,
    /// The tags that name it.
    pub tags: Vec<String>,
    /// When it was built; for a prepared base, when an image was last built on it.
    #[schemars(with = "String")]
    pub time: Timestamp,
    /// What becomes, or became, of it.
    pub state: ImageState,
    /// Why it is kept.
    pub reasons: Vec<String>,
}

/// What becomes, or became, of an image.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum ImageState {
    Kept,
    /// The next `mosb images prune` deletes it.
    Deletable,
    Deleted,
}

impl ImageState {
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Kept => "kept",
            Self::Deletable => "deletable",
            Self::Deleted => "deleted",
        }
    }
}

impl fmt::Display for ImageKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Machines => "machines",
            Self::PreparedBase => "prepared-base",
        })
    }
}

impl PoolImage {
    /// `repository`: where it is.
    pub fn new(repository: &str, judged: &JudgedImage) -> Self {
        Self {
            image: format!("{repository}@{}", judged.digest),
            kind: judged.kind.to_string(),
            builds: judged.builds.iter().cloned().collect(),
            tags: judged.tags.iter().cloned().collect(),
            time: judged.time,
            state: if judged.is_kept() { ImageState::Kept } else { ImageState::Deletable },
            reasons: judged.reasons.iter().map(ToString::to_string).collect(),
        }
    }
}

impl PoolImages {
    pub fn count(&self, state: ImageState) -> usize {
        self.images.iter().filter(|image| image.state == state).count()
    }
}
