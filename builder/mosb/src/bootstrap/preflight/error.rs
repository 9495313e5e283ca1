//! Errors of preflight checks.

use mosb_types::{Diagnostic, Finding};

/// The checks did not pass.
#[derive(Debug, thiserror::Error, Diagnostic)]
#[non_exhaustive]
pub enum Error {
    /// At least one check failed.
    #[error(
        "the images of the installation can't be used; correct what is listed, nothing was written"
    )]
    #[diagnostic(code = "preflight-failed", class = Rejected, findings = findings.clone())]
    Failed {
        /// Checks that failed or could not be made.
        findings: Vec<Finding>,
    },
    /// No check failed, but at least one could not be made.
    #[error("the images of the installation can't be checked now; try again, nothing was written")]
    #[diagnostic(code = "preflight-unknown", class = Transient, findings = findings.clone())]
    Unknown {
        /// Checks that could not be made.
        findings: Vec<Finding>,
    },
}
