//! What becomes of the files of a machine's first config: one a line, without a headline, for other
//! programs.

use super::node_drift::word;
use super::page::Page;
use crate::cli::objects::{NodeAdoption, Object};

impl Object for NodeAdoption {
    const KIND: &'static str = "NodeAdoption";

    fn text(&self) -> String {
        let mut page = Page::default();
        for path in &self.adopted {
            page.line(&format!("adopted {path}"));
        }
        for kept in &self.kept {
            let differences: Vec<_> = kept.differences.iter().map(|one| word(*one)).collect();
            page.line(&format!("kept {} {}", differences.join(","), kept.path));
        }
        for finding in &self.undecided {
            page.line(&format!("undecided {finding}"));
        }
        if let Some(omitted) = self.omitted {
            page.line(&format!("… and {omitted} more"));
        }
        page.into_text()
    }
}
