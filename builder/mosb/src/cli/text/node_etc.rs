//! The `/etc` of the machines of a pool.

use super::page::Page;
use super::rollout::table;
use crate::cli::objects::{NodeEtc, NodeEtcOf, Object, PathList, PoolDrift};

impl Object for PoolDrift {
    const KIND: &'static str = "PoolDrift";

    fn text(&self) -> String {
        let mut page = Page::default();
        if self.nodes.is_empty() {
            page.line("no nodes");
            return page.into_text();
        }
        let head = ["NODE", "HIDES", "ADOPTABLE", "KEPT", "ADOPTED"];
        table(&mut page, &head, self.nodes.iter().map(row));
        for node in &self.nodes {
            let Some(etc) = &node.etc else { continue };
            let lists = [
                ("hides", Some(&etc.hidden)),
                ("can adopt", etc.adoptable.as_ref()),
                ("keeps", etc.kept.as_ref()),
            ];
            for (verb, list) in lists {
                for path in list.iter().flat_map(|list| &list.paths) {
                    page.line(&format!("{} {verb} {path}", node.node));
                }
                let rest = list.map_or(0, |list| list.count.saturating_sub(list.paths.len()));
                if rest > 0 {
                    page.line(&format!("{} {verb} {rest} more", node.node));
                }
            }
            if lacks_record(etc) {
                page.line(&format!(
                    "{} has no record of the config that it was made from, and adopts nothing by itself",
                    node.node
                ));
            }
        }
        if self.nodes.iter().filter_map(|node| node.etc.as_ref()).any(lacks_record) {
            page.line(
                "without a record, give that config to a machine: `mosb node adopt --config FILE`, in a pod on it",
            );
        }
        if self.adopts {
            page.line(&format!(
                "{}: machines adopt what their first config wrote (mosb.dev/adopt)",
                self.pool
            ));
        }
        page.into_text()
    }
}

/// Whether the machine hides files, and only a config that somebody names lets it adopt them.
fn lacks_record(etc: &NodeEtc) -> bool {
    etc.adoptable.is_none() && !etc.adopted && etc.hidden.count > 0
}

fn row(node: &NodeEtcOf) -> Vec<String> {
    let etc = node.etc.as_ref();
    let count = |list: Option<&PathList>| {
        list.map_or_else(|| "-".to_owned(), |list| list.count.to_string())
    };
    let adopted = match etc {
        None => "-",
        Some(etc) if etc.adopted => "yes",
        Some(_) => "no",
    };
    vec![
        node.node.clone(),
        count(etc.map(|etc| &etc.hidden)),
        count(etc.and_then(|etc| etc.adoptable.as_ref())),
        count(etc.and_then(|etc| etc.kept.as_ref())),
        adopted.to_owned(),
    ]
}
