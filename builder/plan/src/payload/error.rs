//! What can go wrong with a payload.

use crate::plan::MountedError;
use mosb_types::Diagnostic;

/// Why something can't be packed, or what was packed can't be read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error, Diagnostic)]
#[diagnostic(class = InvalidInput)]
#[non_exhaustive]
pub enum Error {
    /// A part is missing, doubled, or of another build.
    #[error("ConfigMaps of the rendered config: {0}; apply all of them again")]
    #[diagnostic(code = "payload-parts")]
    Parts(String),
    /// A part does not hold what it should.
    #[error("ConfigMap {name}: {problem}; apply it again")]
    #[diagnostic(code = "payload-content")]
    Content { name: String, problem: String },
    /// What comes out is larger than any rendered config.
    #[error(
        "ConfigMap {name}: it unpacks to more than {limit} bytes, which no rendered config has"
    )]
    #[diagnostic(code = "payload-bomb")]
    Bomb { name: String, limit: usize },
    /// No ConfigMap can hold it.
    #[error("{what}: {size} bytes, and a ConfigMap holds {limit}; make it smaller")]
    #[diagnostic(code = "payload-too-large")]
    TooLarge {
        what: String,
        /// Its bytes.
        size: usize,
        limit: usize,
    },
    /// A file that can't be written while a step runs.
    #[error(transparent)]
    #[diagnostic(code = "mounted-file")]
    Mounted(#[from] MountedError),
    /// A link where only files can be carried.
    #[error("/etc/{}: the config has a link there, and the context of an OpenShift Build can hold none; take another builder", .0.rsplit('/').next().unwrap_or(.0))]
    #[diagnostic(code = "link-in-context")]
    Link(String),
    /// A unit that a line-by-line file can't name.
    #[error("unit {0:?}: a unit's name has no line break; rename it")]
    #[diagnostic(code = "bad-unit-name")]
    UnitName(String),
}
