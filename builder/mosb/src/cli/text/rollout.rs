//! The images of a pool, the nodes, and the roll-out.

use super::page::Page;
use crate::cli::objects::{
    BuildList, NodeInfo, NodeList, Object, PoolBuild, RolloutRequest, RolloutStatus,
};

/// Hex digits of a digest: enough to tell the images of a pool apart.
const DIGITS: usize = 12;
/// Names of nodes in a row of a build.
const NAMED: usize = 3;

impl Object for BuildList {
    const KIND: &'static str = "BuildList";

    fn text(&self) -> String {
        let mut page = Page::default();
        if self.builds.is_empty() {
            page.line("no builds");
            return page.into_text();
        }
        let head = [
            "BUILD", "POOL", "IMAGE", "CONFIG", "BASE", "METHOD", "AGE", "STATE", "STAGED",
            "RUNNING",
        ];
        let rows = self.builds.iter().map(|build| {
            vec![
                build.build.clone(),
                build.pool.clone(),
                short(build.image.as_deref()),
                build.config.clone(),
                short(build.base.as_deref()),
                or_none(build.method.as_deref()),
                build.age.clone(),
                state_of_build(build),
                names(&build.staged_on),
                names(&build.running_on),
            ]
        });
        table(&mut page, &head, rows);
        page.into_text()
    }
}

fn state_of_build(build: &PoolBuild) -> String {
    let mut words = Vec::new();
    if build.in_service {
        words.push("in service");
    }
    if build.pinned {
        words.push("pinned");
    }
    match build.state.as_deref() {
        Some("Succeeded") | None => {}
        Some(state) => words.push(state),
    }
    or_none((!words.is_empty()).then(|| words.join(", ")).as_deref())
}

impl Object for NodeList {
    const KIND: &'static str = "NodeList";

    fn text(&self) -> String {
        let mut page = Page::default();
        if self.nodes.is_empty() {
            page.line("no nodes");
        } else {
            nodes(&mut page, &self.nodes);
        }
        page.into_text()
    }
}

fn nodes(page: &mut Page, list: &[NodeInfo]) {
    let head = ["NODE", "POOL", "CURRENT", "DESIRED", "STAGED", "STATE", "SINCE", "REASON"];
    let rows = list.iter().map(|node| {
        vec![
            node.node.clone(),
            or_none(node.pool.as_deref()),
            short(node.current.as_deref()),
            short(node.desired.as_deref()),
            short(node.staged.as_deref()),
            state_of_node(node),
            or_none((!node.age.is_empty()).then_some(&node.age)),
            or_none(node.reason.as_deref()),
        ]
    });
    table(page, &head, rows);
}

/// The state, live files, readiness and cordon of a node, joined as in `kubectl get nodes`.
fn state_of_node(node: &NodeInfo) -> String {
    let state = node.state.as_deref();
    let not_ready = (!node.ready).then_some("NotReady");
    let live = node.live.as_ref().map(|_| "Live");
    let cordoned = node.unschedulable.then_some("SchedulingDisabled");
    let words: Vec<&str> = [state, live, not_ready, cordoned].into_iter().flatten().collect();
    or_none((!words.is_empty()).then(|| words.join(",")).as_deref())
}

impl Object for RolloutStatus {
    const KIND: &'static str = "RolloutStatus";

    fn text(&self) -> String {
        let mut page = Page::default();
        page.line(&format!("{}: {}", self.pool, self.message));
        let target = self.target.as_ref().map(|target| {
            let newer = target.newer.as_ref().map(|newer| format!("; {newer} is newer"));
            let pinned = if target.pinned { " (pinned)" } else { "" };
            let once = if target.once { " (once)" } else { "" };
            format!("{}{pinned}{once}{}", target.build, newer.unwrap_or_default())
        });
        let paused = if self.paused { " (paused)" } else { "" };
        let mode = format!("{}{paused}", self.mode);
        let counts = &self.machines;
        let live = if counts.live > 0 { format!(" ({} live)", counts.live) } else { String::new() };
        let machines = format!(
            "{} machines: {} updated{live}, {} ready, {} staged, {} unavailable, {} degraded",
            counts.all,
            counts.updated,
            counts.ready,
            counts.staged,
            counts.unavailable,
            counts.degraded
        );
        page.pairs(&[
            ("mode", Some(&mode)),
            ("target", target.as_deref()),
            ("machines", Some(&machines)),
        ]);
        if !self.conditions.is_empty() {
            page.section("Conditions");
            let rows = self.conditions.iter().map(|one| {
                let texts = [one.reason.as_deref(), one.message.as_deref()];
                let texts: Vec<&str> = texts.into_iter().flatten().collect();
                vec![one.kind.clone(), one.status.clone(), texts.join(": ")]
            });
            page.table(&[], &rows.collect::<Vec<_>>());
        }
        if !self.behind.is_empty() {
            page.section("Not updated");
            nodes(&mut page, &self.behind);
        }
        page.into_text()
    }
}

impl Object for RolloutRequest {
    const KIND: &'static str = "RolloutRequest";

    fn text(&self) -> String {
        let mut page = Page::default();
        let pool = &self.pool;
        let build = self.build.as_deref().unwrap_or("the image in service");
        let follow = format!("follow it with mosb rollout status {pool} --watch");
        page.line(&match &*self.action {
            _ if !self.changed => format!("{pool}: nothing was changed"),
            "start" => format!("{pool}: {build} is rolled out; {follow}"),
            "undo" => format!("{pool}: the machines go back to {build}; {follow}"),
            "pause" => format!("{pool}: paused"),
            _ => format!("{pool}: resumed; {follow}"),
        });
        for note in &self.notes {
            page.line(&format!("  {note}"));
        }
        page.into_text()
    }
}

pub(super) fn table(page: &mut Page, head: &[&str], rows: impl Iterator<Item = Vec<String>>) {
    let head = head.iter().map(|cell| (*cell).to_owned()).collect();
    let rows: Vec<Vec<String>> = std::iter::once(head).chain(rows).collect();
    page.table(&[], &rows);
}

/// The digest of an image, shortened; the whole text if it has none.
fn short(image: Option<&str>) -> String {
    let Some(image) = image else {
        return or_none(None);
    };
    match image.rsplit_once("@sha256:") {
        Some((_, hex)) => hex.chars().take(DIGITS).collect(),
        None => image.to_owned(),
    }
}

fn or_none(text: Option<&str>) -> String {
    text.unwrap_or("-").to_owned()
}

fn names(nodes: &[String]) -> String {
    let mut text = nodes.iter().take(NAMED).cloned().collect::<Vec<_>>().join(",");
    if nodes.len() > NAMED {
        text.push_str(&format!(",+{}", nodes.len() - NAMED));
    }
    or_none((!text.is_empty()).then_some(&text))
}
