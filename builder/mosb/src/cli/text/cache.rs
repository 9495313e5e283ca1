//! The cached base trees.

use super::page::{Align, Page, count, size};
use crate::cli::objects::{CacheList, CachePrune, Object};

impl Object for CacheList {
    const KIND: &'static str = "CacheList";

    fn text(&self) -> String {
        let mut page = Page::default();
        let trees = count(self.trees.len(), "base tree");
        page.line(&format!("{}: {trees}, {}", self.directory, size(self.size)));
        let rows: Vec<_> = self
            .trees
            .iter()
            .map(|tree| vec![tree.base.clone(), size(tree.size), ago(tree.unused_seconds)])
            .collect();
        page.table(&[Align::Left, Align::Right], &rows);
        if let Some(store) = &self.buildah {
            page.line(&format!("{}: buildah's storage, {}", store.directory, size(store.size)));
        }
        page.into_text()
    }
}

impl Object for CachePrune {
    const KIND: &'static str = "CachePrune";

    fn text(&self) -> String {
        let mut page = Page::default();
        let trees = count(usize::try_from(self.removed).unwrap_or(usize::MAX), "file");
        page.line(&format!("{}: {trees} removed, {} free again", self.directory, size(self.size)));
        if let Some(store) = &self.buildah {
            let what = if store.removed {
                format!("buildah's storage removed, {} free again", size(store.size))
            } else {
                format!("buildah's storage ({}) stays: a build is using it", size(store.size))
            };
            page.line(&format!("{}: {what}", store.directory));
        }
        page.into_text()
    }
}

fn ago(seconds: u64) -> String {
    let (number, unit) = match seconds {
        0..60 => return "used just now".to_owned(),
        60..3600 => (seconds / 60, "minute"),
        3600..86400 => (seconds / 3600, "hour"),
        _ => (seconds / 86400, "day"),
    };
    format!("used {} ago", count(usize::try_from(number).unwrap_or(usize::MAX), unit))
}
