//! Why an installation stops before it begins.

use mosb_types::{ErrorClass, Finding};

/// What did not pass.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// At least one check failed.
    #[error(
        "the images of the installation can't be used; mend what is named, nothing was written"
    )]
    Failed {
        /// What failed, and what could not be explain.
        findings: Vec<Finding>,
    },
    /// None failed, and at least one could not be made.
    #[error("the images of the installation can't be checked now; try again, nothing was written")]
    Unknown {
        /// What could not be explain.
        findings: Vec<Finding>,
    },
}

impl Error {
    /// What the caller should do.
    pub fn class(&self) -> ErrorClass {
        match self {
            Self::Failed { .. } => ErrorClass::Rejected,
            Self::Unknown { .. } => ErrorClass::Transient,
        }
    }

    /// The word for scripts.
    pub fn reason(&self) -> &'static str {
        match self {
            Self::Failed { .. } => "preflight-failed",
            Self::Unknown { .. } => "preflight-unknown",
        }
    }

    /// Each check by itself.
    pub fn findings(&self) -> Vec<Finding> {
        match self {
            Self::Failed { findings } | Self::Unknown { findings } => findings.clone(),
        }
    }
}
