//! `mosb label`: one label of an image.

use clap::Args;
use schemars::JsonSchema;
use serde::Serialize;

use super::context::Session;
use super::inspect::info;
use super::output::Object;
use super::{ExitCode, Result, arguments};
use mosb_registry::Source;

/// Prints a label of an image
///
/// Example:
///
///   mosb label oci:out:rendered-worker-… mosb.dev/inputs
#[derive(Debug, Args)]
#[command(verbatim_doc_comment)]
pub struct Label {
    /// host/repo[:tag][@digest], or oci:DIR[:TAG][@digest]
    #[arg(value_parser = arguments::source)]
    pub image: Source,
    /// The key
    pub key: String,
}

impl Label {
    pub async fn run(self, session: &Session) -> Result<ExitCode> {
        let resolved = session.clients()?.resolve("image", &self.image, None).await?;
        let mut info = info(&resolved)?;
        session.print(&ImageLabel { value: info.labels.remove(&self.key), image: info.image })
    }
}

/// A label of an image.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ImageLabel {
    /// `repo@digest`, or `oci:DIR@digest`.
    pub image: String,
    /// Absent if the image does not have it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub value: Option<String>,
}

impl Object for ImageLabel {
    const KIND: &'static str = "ImageLabel";

    fn text(&self) -> String {
        self.value.iter().map(|value| format!("{value}\n")).collect()
    }
}
