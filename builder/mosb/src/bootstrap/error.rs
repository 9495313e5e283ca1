//! Why nothing is written.

use mosb_ignition as ignition;
use mosb_types::{ErrorClass, Finding};

/// Object, cause, remedy.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// What is wrong with the manifests, all of it.
    #[error("the manifests of the installation: {}; mend what is named, nothing was written", listed(.problems.len()))]
    Invalid {
        /// At least one.
        problems: Vec<Finding>,
    },
    /// An Ignition config of ours that Ignition would refuse.
    #[error("pool {pool}: the Ignition config of its new machines is not valid")]
    Machine {
        /// The pool.
        pool: String,
        /// What is wrong with it.
        source: ignition::Error,
    },
}

fn listed(problems: usize) -> String {
    match problems {
        1 => "1 problem in them".to_owned(),
        more => format!("{more} problems in them"),
    }
}

impl Error {
    /// What the caller should do.
    pub fn class(&self) -> ErrorClass {
        match self {
            Self::Invalid { .. } => ErrorClass::InvalidInput,
            Self::Machine { .. } => ErrorClass::Internal,
        }
    }

    /// The word for scripts.
    pub fn reason(&self) -> &'static str {
        match self {
            Self::Invalid { .. } => "invalid-manifests",
            Self::Machine { .. } => "bad-first-boot-config",
        }
    }

    /// Each problem by itself.
    pub fn findings(&self) -> Vec<Finding> {
        match self {
            Self::Invalid { problems } => problems.clone(),
            Self::Machine { .. } => Vec::new(),
        }
    }
}
