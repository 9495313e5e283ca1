//! What every room says the same way: the class of an error, and a finding with its code.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// What the caller should do about an error.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Class {
    /// Nothing was decided: the other side did not answer, or not now. Exit code 3.
    Retry,
    /// What was given is wrong or missing. Exit code 2.
    UserInput,
    /// The build itself failed, or the registry refused it. Exit code 1.
    Refused,
    /// We are wrong. Exit code 3.
    Bug,
}

/// One thing to tell: a reason for a method, a warning, something left out, an error.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
pub struct Finding {
    /// One of a fixed, documented set of words, such as `append-to-base`.
    pub code: String,
    /// The path in the image it is about.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub path: Option<String>,
    /// The object it is about: a unit, a field of the config, an image, a file on this machine.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub object: Option<String>,
    /// One sentence for a reader.
    pub message: String,
}

impl Finding {
    /// A finding about no path and no object yet.
    pub fn new(code: &'static str, message: impl Into<String>) -> Self {
        Self { code: code.to_owned(), path: None, object: None, message: message.into() }
    }

    /// The same finding, about this path in the image.
    #[must_use]
    pub fn at(mut self, path: impl Into<String>) -> Self {
        self.path = Some(path.into());
        self
    }

    /// The same finding, about this object.
    #[must_use]
    pub fn on(mut self, object: impl Into<String>) -> Self {
        self.object = Some(object.into());
        self
    }
}

/// What an error says, without the number that the system's errors carry.
pub fn said(error: &(dyn std::error::Error + 'static)) -> String {
    let mut text = error.to_string();
    if let Some(number) = text.rfind(" (os error ").filter(|_| text.ends_with(')')) {
        text.truncate(number);
    }
    text
}
