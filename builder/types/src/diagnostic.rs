//! What every error declares beside its message.

use crate::{ErrorClass, Finding};

/// An error with a class and a code. Derive it: `mosb_diagnostic_derive` describes the attributes.
///
/// ```
/// use mosb_types::{Diagnostic, ErrorClass};
///
/// #[derive(Debug, thiserror::Error, Diagnostic)]
/// enum Error {
///     #[error("{image}: the registry rejected it; check the credentials")]
///     #[diagnostic(code = "denied", class = Rejected)]
///     Denied { image: String },
///     #[error(transparent)]
///     #[diagnostic(transparent)]
///     Input(#[from] InputError),
/// }
///
/// #[derive(Debug, thiserror::Error, Diagnostic)]
/// #[error("line {line}: not readable; correct it")]
/// #[diagnostic(code = "bad-file", class = InvalidInput)]
/// struct InputError {
///     line: usize,
/// }
///
/// let error = Error::from(InputError { line: 3 });
/// assert_eq!((error.code(), error.class()), ("bad-file", ErrorClass::InvalidInput));
/// ```
pub trait Diagnostic: std::error::Error {
    /// What the caller should do.
    fn class(&self) -> ErrorClass;

    /// The word in events, conditions, metrics and `-o json`: one of a fixed, documented set.
    fn code(&self) -> &'static str;

    /// Each problem by itself, if there are several.
    fn findings(&self) -> Vec<Finding> {
        Vec::new()
    }
}
