//! `mosb nodes`: which images nodes run, and which files of them they hide.

use clap::{Args, Subcommand};
use jiff::Timestamp;
use kube::Client;
use schemars::JsonSchema;
use serde::Serialize;

use super::rollout::{PoolRequest, age, short, snapshot};
use super::{Cluster, OnePool, no_pool};
use crate::cli::node::report::{NodeEtc, PathList};
use mosb_commands::context::Session;
use mosb_commands::output::Object;
use mosb_commands::page::{Page, or_none};
use mosb_commands::{ExitCode, Result};
use mosb_controller::rollout::{self, NodeView, RolloutRequest};
use mosb_controller::{ClusterCache, Namespaces};

/// Lists nodes, and which images they run, should run and have staged
///
/// Examples:
///
///   mosb nodes worker -o json
///   mosb nodes drift worker
#[derive(Debug, Args)]
#[command(verbatim_doc_comment, args_conflicts_with_subcommands = true)]
pub struct Nodes {
    /// The pool [default: all nodes]
    pub pool: Option<String>,
    #[command(flatten)]
    pub cluster: Cluster,
    #[command(subcommand)]
    pub what: Option<NodesOf>,
}

#[derive(Debug, Subcommand)]
pub enum NodesOf {
    /// Lists which files of their images the machines of a pool hide
    ///
    /// An update keeps each entry of /etc that a machine has otherwise than its image. The first 16 paths of each machine
    /// are listed, as it reported them in this boot; `mosb node drift` on the machine lists all.
    ///
    /// Example:
    ///
    ///   mosb nodes drift worker
    #[command(verbatim_doc_comment)]
    Drift(OnePool),
    /// Lets images bring the files that the first config of each machine wrote
    ///
    /// Sets the annotation mosb.dev/adopt on the MachineOSConfig. From then on, each machine adopts before it reboots for a
    /// roll-out what is still as its record of its config says, as `mosb node adopt` does. What was edited stays. Prints what
    /// the machines reported in this boot: what they would adopt, what stays, and which ones have no record. Those need
    /// `mosb node adopt --config FILE` in a pod on the machine.
    ///
    /// Examples:
    ///
    ///   mosb nodes adopt worker --dry-run
    ///   mosb nodes adopt worker
    #[command(verbatim_doc_comment)]
    Adopt(AdoptNodes),
}

#[derive(Debug, Args)]
pub struct AdoptNodes {
    /// The pool
    pub pool: String,
    /// Only print what the machines reported
    #[arg(long)]
    pub dry_run: bool,
    #[command(flatten)]
    pub cluster: Cluster,
}

impl Nodes {
    pub async fn run(self, session: &Session) -> Result<ExitCode> {
        match self.what {
            None => {
                let (client, namespaces) = self.cluster.connect().await?;
                session.print(&list(&client, &namespaces, self.pool.as_deref()).await?)
            }
            Some(NodesOf::Drift(OnePool { pool, cluster })) => {
                let (client, namespaces) = cluster.connect().await?;
                session.print(&drift(&client, &namespaces, &pool).await?)
            }
            Some(NodesOf::Adopt(AdoptNodes { pool, dry_run, cluster })) => {
                let (client, namespaces) = cluster.connect().await?;
                if !dry_run {
                    let adopt =
                        PoolRequest { pool: &pool, request: RolloutRequest::Adopt, yes: true };
                    let request = adopt.carry_out(&client, &namespaces).await?;
                    request.notes.iter().for_each(|note| session.progress.step(note));
                }
                session.print(&drift(&client, &namespaces, &pool).await?)
            }
        }
    }
}

async fn list(client: &Client, namespaces: &Namespaces, pool: Option<&str>) -> Result<NodeList> {
    let cache = ClusterCache::read_machines(client, namespaces).await?;
    if let Some(pool) = pool.filter(|pool| cache.pools.get(pool).is_none()) {
        return Err(no_pool(pool).into());
    }
    Ok(NodeList { nodes: rollout::node_views(&cache, pool), now: Timestamp::now() })
}

/// What the machines of a pool hide, and could adopt.
async fn drift(client: &Client, namespaces: &Namespaces, pool: &str) -> Result<PoolDrift> {
    let cache = ClusterCache::read_machines(client, namespaces).await?;
    let adopts = rollout::adopts(&snapshot(&cache, pool)?);
    let nodes = rollout::node_views(&cache, Some(pool)).into_iter();
    let nodes =
        nodes.map(|view| NodeEtcOf { node: view.name, etc: view.etc.as_ref().map(NodeEtc::from) });
    Ok(PoolDrift { pool: pool.to_owned(), adopts, nodes: nodes.collect() })
}

/// Nodes, and which images they run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct NodeList {
    /// Each node, by name.
    pub nodes: Vec<NodeView>,
    /// What ages are counted from.
    #[serde(skip)]
    pub now: Timestamp,
}

/// The `/etc` of the machines of a pool.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PoolDrift {
    pub pool: String,
    /// Whether machines adopt what their first config wrote.
    pub adopts: bool,
    /// Each node, by name.
    pub nodes: Vec<NodeEtcOf>,
}

/// The `/etc` of one machine.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct NodeEtcOf {
    pub node: String,
    /// As of the last report of this boot; absent if there is none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub etc: Option<NodeEtc>,
}

impl Object for NodeList {
    const KIND: &'static str = "NodeList";

    fn text(&self) -> String {
        let mut page = Page::default();
        if self.nodes.is_empty() {
            page.line("no nodes");
        } else {
            nodes_table(&mut page, &self.nodes, self.now);
        }
        page.into_text()
    }
}

pub fn nodes_table(page: &mut Page, list: &[NodeView], now: Timestamp) {
    let head = ["NODE", "POOL", "CURRENT", "DESIRED", "STAGED", "STATE", "SINCE", "REASON"];
    let rows = list.iter().map(|node| {
        vec![
            node.name.clone(),
            or_none(node.pool.as_deref()),
            short(node.current.as_deref()),
            short(node.desired.as_deref()),
            short(node.staged.as_deref()),
            state_of_node(node),
            age(node.since, now),
            or_none(
                node.reason
                    .clone()
                    .or_else(|| Some(node.soft_reboot.as_ref()?.to_string()))
                    .as_deref(),
            ),
        ]
    });
    page.headed_table(&head, rows);
}

/// The state, live files, readiness and cordon of a node, joined as in `kubectl get nodes`.
fn state_of_node(node: &NodeView) -> String {
    let state = node.state.as_deref();
    let not_ready = (!node.ready).then_some("NotReady");
    let live = node.live.as_ref().map(|_| "Live");
    let cordoned = node.unschedulable.then_some("SchedulingDisabled");
    let words: Vec<&str> = [state, live, not_ready, cordoned].into_iter().flatten().collect();
    or_none((!words.is_empty()).then(|| words.join(",")).as_deref())
}

impl Object for PoolDrift {
    const KIND: &'static str = "PoolDrift";

    fn text(&self) -> String {
        let mut page = Page::default();
        if self.nodes.is_empty() {
            page.line("no nodes");
            return page.into_text();
        }
        let head = ["NODE", "HIDES", "ADOPTABLE", "KEPT", "ADOPTED"];
        page.headed_table(&head, self.nodes.iter().map(row));
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
