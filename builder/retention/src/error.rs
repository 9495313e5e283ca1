//! Why the images of a pool can't be listed or deleted.

use mosb_reconcile::{Error, Problem};
use mosb_types::{Diagnostic, ErrorClass};

#[derive(Debug, thiserror::Error, Diagnostic)]
#[non_exhaustive]
pub enum RetentionError {
    #[error("{pool}: it has no MachineOSConfig; create one to have images built")]
    #[diagnostic(code = "not-opted-in", class = InvalidInput)]
    NotOptedIn { pool: String },
    #[error("{pool}: more than one MachineOSConfig: {names}; delete all but one")]
    #[diagnostic(code = "rivals", class = InvalidInput)]
    Rivals { pool: String, names: String },
    #[error(
        "machineosconfig {config}: spec.renderedImagePushSpec {push:?} names no repository; correct it"
    )]
    #[diagnostic(code = "bad-reference", class = InvalidInput)]
    BadPushSpec { config: String, push: String },
    #[error(transparent)]
    #[diagnostic(transparent)]
    Api(#[from] Error),
    #[error(transparent)]
    #[diagnostic(transparent)]
    Registry(#[from] mosb_registry::Error),
    /// A Secret, the settings, or the registry with the login of a Secret.
    #[error("{message}")]
    #[diagnostic(code = "images-unreadable", class = *class)]
    Unreadable { reason: String, message: String, class: ErrorClass },
}

impl From<Problem> for RetentionError {
    fn from(Problem { class, reason, message }: Problem) -> Self {
        Self::Unreadable { reason, message, class }
    }
}
