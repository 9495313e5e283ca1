//! What every error declares beside its message.

use std::fmt;

use crate::{ErrorClass, Finding};

/// An error with a class, a code and a remedy. Derive it: `mosb_diagnostic_derive` describes the attributes.
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
/// let explained = error.explained();
/// assert_eq!(explained.cause, "line 3: not readable");
/// assert_eq!(explained.remedy.as_deref(), Some("correct it"));
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

    /// What to do about it; `None` if the message has no remedy. A message with one ends with `; ` and
    /// the remedy.
    fn remedy(&self) -> Option<String> {
        None
    }

    /// The message in its two parts.
    fn explained(&self) -> Explained {
        let message = self.to_string();
        let remedy = self.remedy();
        let cause =
            remedy.as_ref().and_then(|remedy| message.strip_suffix(remedy)?.strip_suffix("; "));
        Explained { cause: cause.map(str::to_owned).unwrap_or(message), remedy }
    }
}

/// Why something can't be used, and what to do about it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Explained {
    /// It may begin with the object.
    pub cause: String,
    pub remedy: Option<String>,
}

impl Explained {
    /// A cause with a remedy.
    pub fn new(cause: impl Into<String>, remedy: impl Into<String>) -> Self {
        Self { cause: cause.into(), remedy: Some(remedy.into()) }
    }
}

/// A cause without a remedy.
impl From<String> for Explained {
    fn from(cause: String) -> Self {
        Self { cause, remedy: None }
    }
}

impl fmt::Display for Explained {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.remedy {
            Some(remedy) => write!(f, "{}; {remedy}", self.cause),
            None => f.write_str(&self.cause),
        }
    }
}
