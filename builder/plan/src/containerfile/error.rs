//! What can be wrong with a Containerfile.

use crate::plan::MountedError;
use mosb_types::ErrorClass;

/// Why there is no Containerfile.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The administrator's own text.
    #[error("Containerfile, line {line}: {problem}")]
    Administrator {
        /// From 1.
        line: usize,
        /// What is wrong and what would be right.
        problem: String,
    },
    /// A file that can't be written while a step runs.
    #[error(transparent)]
    Mounted(#[from] MountedError),
    /// A text that would be read as an instruction or a shell word.
    #[error(
        "{what} is {text:?}: a quote, $, backslash or control character can't stand in a Containerfile"
    )]
    Text {
        /// What it is.
        what: String,
        /// As it is.
        text: String,
    },
    /// A section and its values don't fit each other.
    #[error("containerfiles/{section}: {problem}; this is a bug of mosb")]
    Template {
        /// The section.
        section: &'static str,
        /// What does not fit.
        problem: String,
    },
}

impl Error {
    /// What to do about it.
    pub fn class(&self) -> ErrorClass {
        match self {
            Self::Administrator { .. } | Self::Mounted(_) | Self::Text { .. } => {
                ErrorClass::InvalidInput
            }
            Self::Template { .. } => ErrorClass::Internal,
        }
    }

    /// One of `bad-containerfile`, `mounted-file`, `unsafe-text`, `bad-template`.
    pub fn reason(&self) -> &'static str {
        match self {
            Self::Administrator { .. } => "bad-containerfile",
            Self::Mounted(_) => "mounted-file",
            Self::Text { .. } => "unsafe-text",
            Self::Template { .. } => "bad-template",
        }
    }
}
