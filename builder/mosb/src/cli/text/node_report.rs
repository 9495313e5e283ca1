//! What a machine runs.

use super::page::Page;
use crate::cli::objects::{NodeDeployment, NodeReport, Object};

impl Object for NodeReport {
    const KIND: &'static str = "NodeReport";

    fn text(&self) -> String {
        let mut page = Page::default();
        if self.boot_id.is_empty() {
            // Nothing could be observed; stderr has the reason.
            return page.into_text();
        }
        let tool = self.tool.as_deref().unwrap_or("neither bootc nor rpm-ostree");
        page.line(&format!("boot {}, {tool}", self.boot_id));
        let [booted, staged, rollback] =
            [&self.booted, &self.staged, &self.rollback].map(|one| one.as_ref().map(described));
        let attempted = self.attempted.as_ref();
        let attempted =
            attempted.map(|last| format!("{}, attempt {}", last.target.image, last.attempt));
        page.pairs(&[
            ("booted", booted.as_deref()),
            ("staged", staged.as_deref()),
            ("rollback", rollback.as_deref()),
            ("next boot", self.rollback_queued.then_some("the rollback")),
            ("applied", self.applied.as_ref().map(|target| &*target.image)),
            ("live", self.live_incomplete.then_some("incomplete: some files of another image")),
            ("/boot", self.boot_full.then_some("no space for the staged kernel beside the others")),
            ("attempted", attempted.as_deref()),
        ]);
        page.into_text()
    }
}

/// The image with its digest once.
fn described(deployment: &NodeDeployment) -> String {
    let name = match &*deployment.image {
        "" => "no image",
        name => name,
    };
    match &deployment.digest {
        Some(digest) if !name.contains(&**digest) => format!("{name} ({digest})"),
        _ => name.to_owned(),
    }
}
