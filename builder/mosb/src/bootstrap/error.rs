//! Errors of an installation.

use mosb_ignition as ignition;
use mosb_types::{Diagnostic, Finding};

/// Object, cause, remedy.
#[derive(Debug, thiserror::Error, Diagnostic)]
#[non_exhaustive]
pub enum Error {
    /// At least one manifest is invalid.
    #[error("the manifests of the installation: {}; mend what is named, nothing was written", listed(.problems.len()))]
    #[diagnostic(code = "invalid-manifests", class = InvalidInput, findings = problems.clone())]
    Invalid { problems: Vec<Finding> },
    /// mosb made an Ignition config that Ignition would reject.
    #[error("pool {pool}: the Ignition config of its new machines is not valid")]
    #[diagnostic(code = "bad-first-boot-config", class = Internal)]
    Machine { pool: String, source: ignition::Error },
}

fn listed(problems: usize) -> String {
    match problems {
        1 => "1 problem in them".to_owned(),
        more => format!("{more} problems in them"),
    }
}
