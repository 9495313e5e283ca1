//! What can go wrong with a build by buildah.

use std::io;
use std::path::PathBuf;

use super::version::Version;
use crate::exec;
use mosb_plan::payload;
use mosb_types::ErrorClass;

/// The reason of [`Error::Own`].
pub const BUILDAH_FAILED: &str = "buildah-failed";

/// Why there is no image.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A program that we ran.
    #[error(transparent)]
    Exec(#[from] exec::Error),
    /// A command of buildah that failed by itself, each time that it was tried.
    #[error(
        "buildah failed {} times, and not by what the Containerfile runs ({what}…); build again, and if it stays so, look at the load, the memory and the disk of the machine",
        super::own_failure::TRIES
    )]
    Own {
        /// The text that it is known by.
        what: &'static str,
        /// The last time.
        source: exec::Error,
    },
    /// What the build is made of.
    #[error(transparent)]
    Payload(#[from] payload::Error),
    /// A file of ours.
    #[error("{}: can't be read or written; check that the cache directory is yours and has space", path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// What can't be removed.
    #[error("{}: is still mounted, as an interrupted build left it; unmount it and try again", path.display())]
    Mounted {
        /// Where.
        path: PathBuf,
    },
    /// The answer of `buildah --version`.
    #[error("buildah --version says {0:?}, which names no version; install buildah 1.28 or newer")]
    Version(String),
    /// Too old for what the Containerfile holds.
    #[error(
        "the Containerfile has a here-document, which buildah {found} doesn't know; install buildah {} or newer, or write RUN lines",
        super::version::HEREDOC
    )]
    Heredoc {
        /// The version here.
        found: Version,
    },
    /// The store can't grow as far as it must.
    #[error("{}: {available} MiB are free and the build needs about {needed} MiB with storage driver {driver}; free some, or give --storage-driver overlay or another --cache-dir", path.display())]
    NoSpace {
        /// Where the store is.
        path: PathBuf,
        /// MiB.
        available: u64,
        /// MiB.
        needed: u64,
        /// As it was given.
        driver: String,
    },
    /// What buildah left is not what it should be.
    #[error("buildah's result can't be used: {0}")]
    Output(String),
    /// The last stage is not our image.
    #[error(
        "the Containerfile's last stage does not continue ours: the image lacks label {label}; let its last stage begin with FROM configs"
    )]
    NotConfigs {
        /// The label.
        label: String,
    },
}

impl Error {
    /// How buildah ended, if that is what went wrong.
    pub fn program(&self) -> Option<&exec::Error> {
        match self {
            Self::Exec(error) | Self::Own { source: error, .. } => Some(error),
            _ => None,
        }
    }

    /// What to do about it.
    pub fn class(&self) -> ErrorClass {
        match self {
            Self::Exec(error) => error.class(),
            Self::Own { .. } => ErrorClass::Transient,
            Self::Payload(error) => error.class(),
            Self::Io { .. }
            | Self::Mounted { .. }
            | Self::Version(_)
            | Self::Heredoc { .. }
            | Self::NoSpace { .. } => ErrorClass::InvalidInput,
            Self::Output(_) | Self::NotConfigs { .. } => ErrorClass::Rejected,
        }
    }

    /// One of the reasons of [`exec::Error`] and [`payload::Error`], `buildah-failed`, `unusable-file`, `buildah-version`, `heredoc`, `no-space`,
    /// `bad-build-output`, `not-from-configs`.
    pub fn reason(&self) -> &'static str {
        match self {
            Self::Exec(error) => error.reason(),
            Self::Own { .. } => BUILDAH_FAILED,
            Self::Payload(error) => error.reason(),
            Self::Io { .. } | Self::Mounted { .. } => "unusable-file",
            Self::Version(_) => "buildah-version",
            Self::Heredoc { .. } => "heredoc",
            Self::NoSpace { .. } => "no-space",
            Self::Output(_) => "bad-build-output",
            Self::NotConfigs { .. } => "not-from-configs",
        }
    }
}
