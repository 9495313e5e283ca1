//! What can go wrong with a payload.

use crate::plan::MountedError;
use mosb_types::ErrorClass;

/// Why something can't be packed, or what was packed can't be read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A part is missing, doubled, or of another build.
    #[error("ConfigMaps of the rendered config: {0}; apply all of them again")]
    Parts(String),
    /// A part does not hold what it should.
    #[error("ConfigMap {name}: {problem}; apply it again")]
    Content {
        /// Name of the object.
        name: String,
        /// What is wrong.
        problem: String,
    },
    /// What comes out is larger than any rendered config.
    #[error(
        "ConfigMap {name}: it unpacks to more than {limit} bytes, which no rendered config has"
    )]
    Bomb {
        /// Name of the object.
        name: String,
        /// The limit.
        limit: usize,
    },
    /// No ConfigMap can hold it.
    #[error("{what}: {size} bytes, and a ConfigMap holds {limit}; make it smaller")]
    TooLarge {
        /// What it is.
        what: String,
        /// Its bytes.
        size: usize,
        /// The limit.
        limit: usize,
    },
    /// A file that can't be written while a step runs.
    #[error(transparent)]
    Mounted(#[from] MountedError),
    /// A link where only files can be carried.
    #[error("/etc/{}: the config has a link there, and the context of an OpenShift Build can hold none; take another builder", .0.rsplit('/').next().unwrap_or(.0))]
    Link(String),
    /// A unit that a line-by-line file can't name.
    #[error("unit {0:?}: a unit's name has no line break; rename it")]
    UnitName(String),
}

impl Error {
    /// What to do about it.
    pub fn class(&self) -> ErrorClass {
        ErrorClass::InvalidInput
    }

    /// One of `payload-parts`, `payload-content`, `payload-bomb`, `payload-too-large`, `mounted-file`, `link-in-context`, `bad-unit-name`.
    pub fn reason(&self) -> &'static str {
        match self {
            Self::Parts(_) => "payload-parts",
            Self::Content { .. } => "payload-content",
            Self::Bomb { .. } => "payload-bomb",
            Self::TooLarge { .. } => "payload-too-large",
            Self::Mounted(_) => "mounted-file",
            Self::Link(_) => "link-in-context",
            Self::UnitName(_) => "bad-unit-name",
        }
    }
}
