//! What stops the emulation: something it doesn't decide, or an error that stops `systemctl` too.

use mosb_image::TreePath;

/// What only running the base's own `systemctl` can tell; each is a reason for a Containerfile build.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Undecided {
    /// A file that decides something isn't among those whose content the base tree keeps.
    #[error(
        "{0}: its content is not kept in the base tree, and it decides which units are enabled"
    )]
    Content(TreePath),
    /// A path that can't be told from what the tree keeps: a link whose target isn't UTF-8, a device.
    #[error("{0}: neither a file nor a readable link, and it decides which units are enabled")]
    Path(TreePath),
    /// A specifier whose value is the machine's or the image's, not the unit's.
    #[error("{unit}: the value of %{specifier} in [Install] is not known before the image runs")]
    Specifier {
        /// The unit.
        unit: String,
        /// The letter.
        specifier: char,
    },
    /// A line of a preset or unit file on which versions of systemd differ, or crash.
    #[error("{file}: {line:?} means different things to different versions of systemd")]
    Line {
        /// The file.
        file: TreePath,
        /// The line.
        line: String,
    },
    /// Versions of systemd differ on what stands there.
    #[error("{0}: versions of systemd differ on where this link leads afterwards")]
    Link(TreePath),
    /// There is a `systemctl`, but not one whose behaviour is known here.
    #[error("the base has a systemctl, but its version is {0}; known are 252 and later")]
    Version(String),
}

/// Why `systemctl` gives a unit up.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(super) enum Failure {
    #[error("no such unit file")]
    NotFound,
    #[error("masked by {0}")]
    Masked(TreePath),
    #[error("made at run time by a generator or through the API ({0})")]
    Transient(TreePath),
    #[error("its links lead back to it, or it is a link where none is followed")]
    Loop,
    #[error("an alias of a unit that is not there")]
    Dangling,
    #[error("{0}: a link to a unit of another kind")]
    OtherKind(TreePath),
    #[error("{0}: not a readable unit file")]
    Unreadable(TreePath),
    #[error("{0:?} can't be read in its [Install] section")]
    Install(String),
    #[error("{0}: a directory where a preset file should be")]
    Preset(TreePath),
}

impl Failure {
    pub(super) fn code(&self) -> &'static str {
        match self {
            Self::NotFound | Self::Dangling => "unit-not-found",
            Self::Masked(_) => "unit-masked",
            Self::Transient(_) => "unit-generated",
            Self::Loop | Self::OtherKind(_) => "unit-bad-link",
            Self::Unreadable(_) | Self::Install(_) => "unit-not-readable",
            Self::Preset(_) => "preset-not-readable",
        }
    }
}

/// Either of the two.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Stop {
    Undecided(Undecided),
    Failed(Failure),
}

impl From<Undecided> for Stop {
    fn from(undecided: Undecided) -> Self {
        Self::Undecided(undecided)
    }
}

impl From<Failure> for Stop {
    fn from(failure: Failure) -> Self {
        Self::Failed(failure)
    }
}

/// Takes the failure out of what stops: what is left stops everything.
pub(super) fn failed<T>(result: Result<T, Stop>) -> Result<Result<T, Failure>, Undecided> {
    match result {
        Ok(value) => Ok(Ok(value)),
        Err(Stop::Failed(failure)) => Ok(Err(failure)),
        Err(Stop::Undecided(undecided)) => Err(undecided),
    }
}
