//! The files of an image that a machine hides: one a line, without a headline, for other programs.

use super::page::Page;
use crate::cli::objects::{NodeDrift, Object, PathDifference};

impl Object for NodeDrift {
    const KIND: &'static str = "NodeDrift";

    fn text(&self) -> String {
        let mut page = Page::default();
        for hidden in &self.paths {
            let differences: Vec<_> = hidden.differences.iter().map(|one| word(*one)).collect();
            page.line(&format!("{} {}", differences.join(","), hidden.path));
        }
        if let Some(omitted) = self.omitted {
            page.line(&format!("… and {omitted} more"));
        }
        page.into_text()
    }
}

pub(super) fn word(difference: PathDifference) -> &'static str {
    match difference {
        PathDifference::Removed => "removed",
        PathDifference::Type => "type",
        PathDifference::Content => "content",
        PathDifference::Target => "target",
        PathDifference::Mode => "mode",
        PathDifference::Owner => "owner",
    }
}
