//! Errors of an installation.

use mosb_build::new_machine::InvalidConfig;
use mosb_types::{Diagnostic, Finding};

/// Object, cause, remedy.
#[derive(Debug, thiserror::Error, Diagnostic)]
#[non_exhaustive]
pub enum Error {
    /// At least one manifest is invalid.
    #[error("the manifests of the installation: {}; correct what is listed, nothing was written", listed(.problems.len()))]
    #[diagnostic(code = "invalid-manifests", class = InvalidInput, findings = problems.clone())]
    Invalid { problems: Vec<Finding> },
    #[error(transparent)]
    #[diagnostic(transparent)]
    Machine(#[from] InvalidConfig),
}

fn listed(problems: usize) -> String {
    match problems {
        1 => "1 problem in them".to_owned(),
        more => format!("{more} problems in them"),
    }
}
