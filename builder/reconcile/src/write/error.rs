//! Why an action was not applied.

use crate::{Error, Problem, error};
use mosb_types::{Diagnostic as _, ErrorClass};

#[derive(Debug, thiserror::Error)]
pub enum ApplyError {
    /// Another client changed the object, or our view was outdated.
    #[error("{0}: conflict: the object changed; retrying")]
    Conflict(String),
    /// The API.
    #[error(transparent)]
    Api(#[from] Error),
    /// The object can't be created from this configuration, or beside what exists.
    #[error("{}", .0.message)]
    Problem(Problem),
}

impl ApplyError {
    /// `None` for a conflict: read and decide again.
    pub fn class(&self) -> Option<ErrorClass> {
        match self {
            Self::Conflict(_) => None,
            Self::Api(error) => Some(error.class()),
            Self::Problem(problem) => Some(problem.class),
        }
    }

    /// Code for logs and metrics.
    pub fn code(&self) -> &str {
        match self {
            Self::Conflict(_) => "stale",
            Self::Api(error) => error.code(),
            Self::Problem(problem) => &problem.reason,
        }
    }
}

impl From<ApplyError> for Problem {
    fn from(error: ApplyError) -> Self {
        match error {
            ApplyError::Problem(problem) => problem,
            ApplyError::Api(error) => error.into(),
            ApplyError::Conflict(_) => Self {
                class: ErrorClass::Transient,
                reason: error.code().to_owned(),
                message: error.to_string(),
            },
        }
    }
}

/// Converts the error of a write. A conflict or a missing object means that our view was outdated.
pub fn apply_error(object: String, verb: &'static str) -> impl FnOnce(kube::Error) -> ApplyError {
    move |error| match error::code(&error) {
        Some(404 | 409) => {
            tracing::debug!("{object}: {verb}: {}", error::describe(&error));
            ApplyError::Conflict(object)
        }
        _ => ApplyError::Api(Error::api(object, verb)(error)),
    }
}
