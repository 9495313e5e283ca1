//! A finding: what warnings, reasons and problems have in common.

use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::Diagnostic;

/// A reason for a method, a warning, an omission or an error, for people and for scripts.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
pub struct Finding {
    /// One of a fixed, documented set of words, such as `append-to-base`.
    pub code: String,
    /// The path in the image that it concerns.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub path: Option<String>,
    /// The object that it concerns: a unit, a field of the config, an image, a file on this machine.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub object: Option<String>,
    /// One sentence for people.
    pub message: String,
}

/// `object (path): message`.
impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.object.as_deref().unwrap_or_default())?;
        if let Some(path) = &self.path {
            write!(f, " ({path})")?;
        }
        write!(f, ": {}", self.message)
    }
}

impl<E: Diagnostic> From<&E> for Finding {
    fn from(error: &E) -> Self {
        Self::new(error.code(), error.to_string())
    }
}

impl Finding {
    /// A finding that names no path and no object.
    pub fn new(code: &'static str, message: impl Into<String>) -> Self {
        Self { code: code.to_owned(), path: None, object: None, message: message.into() }
    }

    /// Names the path in the image that the finding concerns.
    #[must_use]
    pub fn path(mut self, path: impl Into<String>) -> Self {
        self.path = Some(path.into());
        self
    }

    /// Names the object that the finding concerns.
    #[must_use]
    pub fn object(mut self, object: impl Into<String>) -> Self {
        self.object = Some(object.into());
        self
    }
}
