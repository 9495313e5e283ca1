//! Errors of the emulation: cases that it doesn't support, and errors of `systemctl` itself.

use mosb_image::TreePath;
use mosb_types::Diagnostic;

/// A case that only the base's own `systemctl` can decide; each is a reason for a Containerfile
/// build.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Unsupported {
    /// The content of a relevant file is not part of the base tree.
    #[error(
        "{0}: its content is not kept in the base tree, and it decides which units are enabled"
    )]
    Content(TreePath),
    /// A path that can't be evaluated: a link whose target isn't UTF-8, a device.
    #[error("{0}: neither a file nor a readable link, and it decides which units are enabled")]
    Path(TreePath),
    /// A specifier whose value is the machine's or the image's, not the unit's.
    #[error("{unit}: the value of %{specifier} in [Install] is not known before the image runs")]
    Specifier { unit: String, specifier: char },
    /// A line of a preset or unit file on which versions of systemd differ, or crash.
    #[error("{file}: {line:?} means different things to different versions of systemd")]
    Line { file: TreePath, line: String },
    /// Versions of systemd handle this link differently.
    #[error("{0}: versions of systemd differ on where this link leads afterwards")]
    Link(TreePath),
    /// The behaviour of this version of `systemctl` is not known.
    #[error("the base has a systemctl, but its version is {0}; known are 252 and later")]
    Version(String),
}

/// Why `systemctl` fails for a unit.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error, Diagnostic)]
#[diagnostic(class = InvalidInput)]
pub(super) enum Failure {
    #[error("no such unit file")]
    #[diagnostic(code = "unit-not-found")]
    NotFound,
    #[error("masked by {0}")]
    #[diagnostic(code = "unit-masked")]
    Masked(TreePath),
    #[error("made at run time by a generator or through the API ({0})")]
    #[diagnostic(code = "unit-generated")]
    Transient(TreePath),
    #[error("its links lead back to it, or it is a link where none is followed")]
    #[diagnostic(code = "unit-bad-link")]
    Loop,
    #[error("an alias of a unit that is not there")]
    #[diagnostic(code = "unit-not-found")]
    Dangling,
    #[error("{0}: a link to a unit of another kind")]
    #[diagnostic(code = "unit-bad-link")]
    OtherKind(TreePath),
    #[error("{0}: not a readable unit file")]
    #[diagnostic(code = "unit-not-readable")]
    Unreadable(TreePath),
    #[error("{0:?} can't be read in its [Install] section")]
    #[diagnostic(code = "unit-not-readable")]
    Install(String),
    #[error("{0}: a directory where a preset file should be")]
    #[diagnostic(code = "preset-not-readable")]
    Preset(TreePath),
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum EmulationError {
    Unsupported(Unsupported),
    Failed(Failure),
}

impl From<Unsupported> for EmulationError {
    fn from(unsupported: Unsupported) -> Self {
        Self::Unsupported(unsupported)
    }
}

impl From<Failure> for EmulationError {
    fn from(failure: Failure) -> Self {
        Self::Failed(failure)
    }
}

/// Separates a failure, which concerns one unit, from an unsupported case, which ends the
/// emulation.
pub(super) fn split_failure<T>(
    result: Result<T, EmulationError>,
) -> Result<Result<T, Failure>, Unsupported> {
    match result {
        Ok(value) => Ok(Ok(value)),
        Err(EmulationError::Failed(failure)) => Ok(Err(failure)),
        Err(EmulationError::Unsupported(unsupported)) => Err(unsupported),
    }
}
