//! Checks before a push that a registry refuses: what a tag names, whether a blob exists.
//!
//! Many registries refuse them for a repository that the first push creates (`docs/registries.md`),
//! so a refusal counts as "does not exist". Only the response to the push itself shows whether
//! pushing is permitted; if the push is refused too, both responses are reported.

use std::sync::OnceLock;

use crate::error::Error;

/// The first refused check of a push, if any.
#[derive(Debug, Default)]
pub(super) struct RefusedCheck(OnceLock<Error>);

impl RefusedCheck {
    /// The result of a check before a push; `missing` if the registry refuses the check.
    pub fn or_missing<T>(&self, answer: Result<T, Error>, missing: T) -> Result<T, Error> {
        match answer {
            Err(error) if error.is_refusal() => {
                tracing::debug!(%error, "a refused check before a push counts as \"does not exist\"");
                // Only the first one is reported.
                drop(self.0.set(error));
                Ok(missing)
            }
            answer => answer,
        }
    }

    /// Whether a check was refused so far.
    pub fn is_any(&self) -> bool {
        self.0.get().is_some()
    }

    /// Adds the check that was refused before to a refusal of the push.
    pub fn add_to(&self, error: Error) -> Error {
        match self.0.get() {
            Some(check) => error.after_check(check),
            None => error,
        }
    }
}

impl Error {
    /// Whether the registry answered, and refused.
    pub(super) fn is_refusal(&self) -> bool {
        match self {
            Self::Denied { .. } => true,
            Self::Unexpected { status, .. } => (400..500).contains(status),
            _ => false,
        }
    }

    /// Adds the refused check before a push to its refusal.
    #[must_use]
    fn after_check(mut self, check: &Self) -> Self {
        if let Self::Denied { image, status, message: answer, .. }
        | Self::Unexpected { image, status, message: answer, .. } = check
            && let Self::Denied { message, .. }
            | Self::NotFound { message, .. }
            | Self::Unexpected { message, .. } = &mut self
        {
            message.add_check(image, *status, answer);
        }
        self
    }
}
