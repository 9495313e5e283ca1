//! The status of pools.

use super::page::Page;
use crate::cli::objects::{ClusterStatus, Object, PoolStatus, RebuildRequest};

impl Object for ClusterStatus {
    const KIND: &'static str = "ClusterStatus";

    fn text(&self) -> String {
        let mut page = Page::default();
        if self.pools.is_empty() {
            page.line("no MachineConfigPool in this cluster");
        }
        for pool in &self.pools {
            describe_pool(&mut page, pool);
        }
        page.into_text()
    }
}

fn describe_pool(page: &mut Page, pool: &PoolStatus) {
    page.line(&format!("{}: {}", pool.pool, pool.reason.message));
    let build = pool.build.as_ref().map(|build| {
        let prepared = build.prepared_at.as_deref().map(|at| {
            let (day, _) = at.split_once('T').unwrap_or((at, ""));
            format!("on the prepared base of {day}")
        });
        let brackets: Vec<String> = build.state.iter().cloned().chain(prepared).collect();
        match &brackets[..] {
            [] => build.name.clone(),
            _ => format!("{} ({})", build.name, brackets.join(", ")),
        }
    });
    for (what, value) in
        [("config", &pool.rendered_config), ("build", &build), ("image", &pool.image)]
    {
        if let Some(value) = value {
            page.line(&format!("  {what:<6}  {value}"));
        }
    }
}

impl Object for PoolStatus {
    const KIND: &'static str = "PoolStatus";

    fn text(&self) -> String {
        let mut page = Page::default();
        describe_pool(&mut page, self);
        page.into_text()
    }
}

impl Object for RebuildRequest {
    const KIND: &'static str = "RebuildRequest";

    fn text(&self) -> String {
        let mut page = Page::default();
        let pool = &self.pool;
        page.line(&format!(
            "{pool}: a rebuild was asked for; follow it with mosb wait {pool}, or mosb logs -f {pool}"
        ));
        page.into_text()
    }
}
