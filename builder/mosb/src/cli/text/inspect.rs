//! A description of an image.

use super::page::{Align, Page, size};
use crate::cli::objects::{ImageInfo, Object};

impl Object for ImageInfo {
    const KIND: &'static str = "ImageInfo";

    fn text(&self) -> String {
        let mut page = Page::default();
        page.line(&self.image);
        if !self.built_by_mosb {
            page.line("mosb did not build this image: it has no labels of a build.");
        }
        page.section("Build");
        let base = self.base.as_ref();
        page.pairs(&[
            ("rendered config", self.rendered_config.as_deref()),
            ("pool", self.pool.as_deref()),
            ("base", base.map(|base| base.name.as_str())),
            ("base digest", base.and_then(|base| base.digest.as_deref())),
            ("inputs", self.inputs.as_deref()),
            ("format", self.format.as_deref()),
            ("platform", self.platform.as_deref()),
            ("created", self.created.as_deref()),
            ("digest", Some(&self.digest)),
            ("found in index", self.index.as_deref()),
        ]);
        page.section(&format!("Layers: {}, {}", self.layers.len(), size(self.size)));
        let rows: Vec<_> = self
            .layers
            .iter()
            .map(|layer| {
                let created_by = layer.created_by.clone().unwrap_or_default();
                vec![layer.digest.clone(), size(layer.size), created_by]
            })
            .collect();
        page.table(&[Align::Left, Align::Right], &rows);
        if !self.labels.is_empty() {
            page.labels(&self.labels);
        }
        page.into_text()
    }
}
