//! Questions before a push that a registry refuses: what a tag names, whether a blob is there.
//!
//! Many registries refuse them for a repository that the first push creates (`docs/registries.md`), so a refusal counts as
//! "not there". Only the answer to the push itself shows whether one may push; if that is a refusal too, both are reported.

use std::sync::OnceLock;

use super::error::Error;

/// The first refused question of a push; none so far at the beginning.
#[derive(Debug, Default)]
pub(super) struct RefusedCheck(OnceLock<Error>);

impl RefusedCheck {
    /// The answer to a question before a push; a refusal is the answer `missing`.
    pub fn or_missing<T>(&self, answer: Result<T, Error>, missing: T) -> Result<T, Error> {
        match answer {
            Err(error) if error.is_refusal() => {
                tracing::debug!(%error, "a refused question before a push counts as not there");
                // The first one is reported.
                drop(self.0.set(error));
                Ok(missing)
            }
            answer => answer,
        }
    }

    /// Whether a question was refused so far.
    pub fn is_any(&self) -> bool {
        self.0.get().is_some()
    }

    /// A refusal of the push, with the question that was refused before.
    pub fn add_to(&self, error: Error) -> Error {
        match self.0.get() {
            Some(question) => error.after_check(question),
            None => error,
        }
    }
}
