//! How a command failed.

use schemars::JsonSchema;
use serde::Serialize;

use super::Object;
use mosb_types::Finding;

/// How a command failed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Error {
    /// One of a fixed, documented set of words, such as `denied`.
    pub code: String,
    /// What failed, why, and what to do.
    pub message: String,
    /// Each problem, if there are several.
    pub findings: Vec<Finding>,
    /// The exit code of the program.
    pub exit_code: u8,
}

impl Object for Error {
    const KIND: &'static str = "Error";

    fn text(&self) -> String {
        format!("{}\n", self.message)
    }
}
