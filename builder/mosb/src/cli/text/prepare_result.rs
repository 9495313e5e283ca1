//! The result of `build --prepare-only`.

use super::page::{Page, size};
use crate::cli::objects::{Object, PrepareResult};

impl Object for PrepareResult {
    const KIND: &'static str = "PrepareResult";

    fn text(&self) -> String {
        let mut page = Page::default();
        page.line("Prepared base");
        let moved =
            format!("{} pulled, {} pushed", size(self.bytes_pulled), size(self.bytes_pushed));
        let took = format!("{}.{:03} s", self.duration_millis / 1000, self.duration_millis % 1000);
        page.section("Image, for --prepared");
        page.pairs(&[
            ("image", Some(&self.image)),
            ("tag", Some(&self.tag)),
            ("inputs", Some(&self.inputs)),
        ]);
        page.section("How");
        page.pairs(&[
            ("base", Some(&self.base.image)),
            ("moved", Some(&moved)),
            ("took", Some(&took)),
        ]);
        page.section("What was run");
        page.findings(&self.reasons);
        if !self.warnings.is_empty() {
            page.section("Warnings");
            page.findings(&self.warnings);
        }
        page.into_text()
    }
}
