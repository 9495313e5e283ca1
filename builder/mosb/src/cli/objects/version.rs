//! Which program this is.

use schemars::JsonSchema;
use serde::Serialize;

use super::Object;
use mosb_plan::plan::FORMAT;

/// Which program this is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Version {
    /// Of the program.
    pub version: String,
    /// Of the images: it is raised only when the bytes of an image change.
    pub format: u32,
}

impl Version {
    /// Of this program.
    pub fn this() -> Self {
        Self { version: env!("CARGO_PKG_VERSION").to_owned(), format: FORMAT }
    }
}

impl Object for Version {
    const KIND: &'static str = "Version";

    fn text(&self) -> String {
        format!("mosb {} (image format {})\n", self.version, self.format)
    }
}
