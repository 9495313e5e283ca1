//! Why an installation stops before it begins.

use mosb_types::{Diagnostic, Finding};

/// What did not pass.
#[derive(Debug, thiserror::Error, Diagnostic)]
#[non_exhaustive]
pub enum Error {
    /// At least one check failed.
    #[error(
        "the images of the installation can't be used; mend what is named, nothing was written"
    )]
    #[diagnostic(code = "preflight-failed", class = Rejected, findings = findings.clone())]
    Failed {
        /// What failed, and what could not be explain.
        findings: Vec<Finding>,
    },
    /// None failed, and at least one could not be made.
    #[error("the images of the installation can't be checked now; try again, nothing was written")]
    #[diagnostic(code = "preflight-unknown", class = Transient, findings = findings.clone())]
    Unknown {
        /// What could not be explain.
        findings: Vec<Finding>,
    },
}
