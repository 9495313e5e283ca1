//! The result of a build.

use super::page::{Page, count, size};
use crate::cli::objects::{BuildResult, Object, TreeSource};

impl Object for BuildResult {
    const KIND: &'static str = "BuildResult";

    fn text(&self) -> String {
        let mut page = Page::default();
        page.line(&format!("Built {} (pool {})", self.rendered_config, self.pool));
        let layer = self.layer.as_ref().map(|layer| {
            let paths = layer.paths.map(|paths| format!(", {}", count(paths, "path")));
            format!("{} ({}{})", layer.digest, size(layer.size), paths.unwrap_or_default())
        });
        let tree = self.base_tree.as_ref().map(|tree| match tree.source {
            TreeSource::Cache => "from the cache",
            TreeSource::Computed => "read from the base's layers, and kept for the next build",
        });
        let prepared = self.prepared.as_ref().and_then(|prepared| {
            let image = prepared.image.as_ref()?;
            Some(format!("{image} ({})", if prepared.reused { "reused" } else { "made" }))
        });
        let moved =
            format!("{} pulled, {} pushed", size(self.bytes_pulled), size(self.bytes_pushed));
        let took = format!("{}.{:03} s", self.duration_millis / 1000, self.duration_millis % 1000);
        page.section("Image");
        page.pairs(&[
            ("image", Some(&self.image)),
            ("tag", self.tags.first().map(String::as_str)),
            ("tag that stays", self.tags.get(1).map(String::as_str)),
            ("inputs", Some(&self.inputs)),
        ]);
        page.section("How");
        page.pairs(&[
            ("method", Some(&self.method)),
            ("base", Some(&self.base.image)),
            ("prepared base", prepared.as_deref()),
            ("base tree", tree),
            ("layer", layer.as_deref()),
            ("moved", Some(&moved)),
            ("took", Some(&took)),
        ]);
        for (headline, findings) in
            [("Why not directly", &self.reasons), ("Warnings", &self.warnings)]
        {
            if !findings.is_empty() {
                page.section(headline);
                page.findings(findings);
            }
        }
        page.into_text()
    }
}
