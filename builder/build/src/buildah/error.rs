//! Errors of builds with buildah.

use std::io;
use std::path::PathBuf;

use super::version::Version;
use crate::exec;
use mosb_plan::containerfile::Need;
use mosb_plan::payload;
use mosb_types::Diagnostic;

/// The reason of [`Error::Own`].
pub const BUILDAH_FAILED: &str = "buildah-failed";

/// Why there is no image.
#[derive(Debug, thiserror::Error, Diagnostic)]
#[non_exhaustive]
pub enum Error {
    /// A program that we ran.
    #[error(transparent)]
    #[diagnostic(transparent)]
    Exec(#[from] exec::Error),
    /// A command of buildah that failed by itself, each time that it was tried.
    #[error(
        "buildah failed {} times, and not by what the Containerfile runs ({what}…); build again, and if it stays so, look at the load, the memory and the disk of the machine",
        super::own_failure::TRIES
    )]
    #[diagnostic(code = BUILDAH_FAILED, class = Transient)]
    Own {
        /// The text that it is known by.
        what: &'static str,
        source: exec::Error,
    },
    /// The inputs of the build.
    #[error(transparent)]
    #[diagnostic(transparent)]
    Payload(#[from] payload::Error),
    /// The administrator's build context.
    #[error(transparent)]
    #[diagnostic(transparent)]
    Context(#[from] crate::context_dir::Error),
    /// A file of ours.
    #[error("{}: can't be read or written; check that the cache directory is yours and has space", path.display())]
    #[diagnostic(code = "unusable-file", class = InvalidInput)]
    Io { path: PathBuf, source: io::Error },
    /// The path that can't be removed.
    #[error("{}: is still mounted, as an interrupted build left it; unmount it and try again", path.display())]
    #[diagnostic(code = "unusable-file", class = InvalidInput)]
    Mounted { path: PathBuf },
    /// The answer of `buildah --version`.
    #[error("buildah --version says {0:?}, which names no version; install buildah 1.28 or newer")]
    #[diagnostic(code = "buildah-version", class = InvalidInput)]
    Version(String),
    /// buildah is too old for the Containerfile.
    #[error(
        "Containerfile, line {}: {}, which buildah {found} doesn't know; install buildah {since} or newer, or write it otherwise",
        need.line, need.what
    )]
    #[diagnostic(code = "buildah-too-old", class = InvalidInput)]
    TooOld { found: Version, since: Version, need: Need },
    /// The store can't grow as far as it must.
    #[error("{}: {available} MiB are free and the build needs about {needed} MiB with storage driver {driver}; free some, or give --storage-driver overlay or another --cache-dir", path.display())]
    #[diagnostic(code = "no-space", class = InvalidInput)]
    NoSpace {
        path: PathBuf,
        /// In MiB.
        available: u64,
        /// In MiB.
        needed: u64,
        driver: String,
    },
    /// The output of buildah is invalid.
    #[error("buildah's result can't be used: {0}")]
    #[diagnostic(code = "bad-build-output", class = Rejected)]
    Output(String),
    /// The last stage is not our image.
    #[error(
        "the Containerfile's last stage does not continue ours: the image lacks label {label}; let its last stage begin with FROM configs"
    )]
    #[diagnostic(code = "not-from-configs", class = Rejected)]
    NotConfigs { label: String },
}

impl Error {
    /// The exit status of buildah, if that is the cause.
    pub fn program(&self) -> Option<&exec::Error> {
        match self {
            Self::Exec(error) | Self::Own { source: error, .. } => Some(error),
            _ => None,
        }
    }
}
