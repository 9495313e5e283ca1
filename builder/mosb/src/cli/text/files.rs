//! The paths of layers.

use super::page::{Page, count};
use super::plan::{COLUMNS, path_row};
use crate::cli::objects::{FileList, Object};

impl Object for FileList {
    const KIND: &'static str = "FileList";

    fn text(&self) -> String {
        let mut page = Page::default();
        page.line(&self.image);
        for layer in &self.layers {
            let config = if layer.config { ", holds the rendered config" } else { "" };
            page.section(&format!(
                "Layer {} ({}{config})",
                layer.digest,
                count(layer.paths.len(), "path")
            ));
            page.table(&COLUMNS, &layer.paths.iter().map(path_row).collect::<Vec<_>>());
        }
        page.into_text()
    }
}
