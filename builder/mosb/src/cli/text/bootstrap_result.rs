//! The result of `mosb bootstrap`.

use super::page::{Page, count};
use crate::cli::objects::{BootstrapResult, Object};

impl Object for BootstrapResult {
    const KIND: &'static str = "BootstrapResult";

    fn text(&self) -> String {
        let mut page = Page::default();
        let files = count(self.files.len(), "file");
        page.line(&format!("{}: {files} for {}", self.output, self.cluster));
        for pool in &self.pools {
            page.section(&format!("Pool {}", pool.pool));
            let credentials = if pool.holds_credentials {
                " (holds credentials: keep it from others)"
            } else {
                ""
            };
            let ignition = pool.ignition.as_ref();
            let ignition = ignition.map(|file| format!("{file}{credentials}"));
            page.pairs(&[
                ("image", Some(&pool.image)),
                ("rendered config", pool.rendered_config.as_deref()),
                ("new machines", ignition.as_deref()),
            ]);
        }
        if !self.notices.is_empty() {
            page.section("Notices");
            page.findings(&self.notices);
        }
        page.into_text()
    }
}
