//! `mosb builds`: the builds and former images of pools.

use clap::Args;
use jiff::Timestamp;
use schemars::JsonSchema;
use serde::Serialize;

use super::Cluster;
use super::rollout::{age, short, snapshot};
use mosb_api::promotion::Stage;
use mosb_commands::context::Session;
use mosb_commands::output::Object;
use mosb_commands::page::{Page, or_none};
use mosb_commands::{ExitCode, Result};
use mosb_controller::ClusterCache;
use mosb_controller::rollout::{self, BuildView};

/// Names of nodes in a row of a build.
const NAMED_NODES: usize = 3;

/// Lists the images of a pool, or of all pools, newest first, and where they run
///
/// Examples:
///
///   mosb builds
///   mosb builds worker
#[derive(Debug, Args)]
#[command(verbatim_doc_comment)]
pub struct Builds {
    /// The pool [default: all pools]
    pub pool: Option<String>,
    #[command(flatten)]
    pub cluster: Cluster,
}

impl Builds {
    pub async fn run(&self, session: &Session) -> Result<ExitCode> {
        let (client, namespaces) = self.cluster.connect().await?;
        let cache = ClusterCache::read_machines(&client, &namespaces).await?;
        let pools = match &self.pool {
            Some(pool) => vec![pool.clone()],
            None => cache.pools.list().iter().map(|pool| pool.metadata.name.clone()).collect(),
        };
        let mut builds = Vec::new();
        for pool in pools {
            builds.extend(rollout::build_views(&snapshot(&cache, &pool)?));
        }
        session.print(&BuildList { builds, now: Timestamp::now() })
    }
}

/// The builds and former images of pools.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct BuildList {
    /// Each image, by pool, newest first.
    pub builds: Vec<BuildView>,
    /// What ages are counted from.
    #[serde(skip)]
    pub now: Timestamp,
}

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
            "RUNNING", "OS",
        ];
        let rows = self.builds.iter().map(|build| {
            vec![
                build.build.clone(),
                build.pool.clone(),
                short(build.image.as_deref()),
                build.config.clone(),
                short(build.base.as_deref()),
                method_of_build(build),
                age(build.time, self.now),
                state_of_build(build),
                names(&build.staged_on),
                names(&build.running_on),
                or_none(build.os.as_ref().map(ToString::to_string).as_deref()),
            ]
        });
        page.headed_table(&head, rows);
        page.into_text()
    }
}

fn method_of_build(build: &BuildView) -> String {
    let found = build.found.then_some("found");
    let words: Vec<&str> = build.method.as_deref().into_iter().chain(found).collect();
    or_none((!words.is_empty()).then(|| words.join(", ")).as_deref())
}

fn state_of_build(build: &BuildView) -> String {
    let mut words = Vec::new();
    if build.in_service {
        words.push("in service");
    }
    if build.pinned {
        words.push("pinned");
    }
    match build.state.as_deref() {
        Some("Succeeded") | None => match build.stage {
            Some(Stage::Built | Stage::Checking | Stage::Checked | Stage::Rejected)
                if !build.in_service =>
            {
                words.extend(build.stage.map(Stage::as_str));
            }
            _ => {}
        },
        Some(state) => words.push(state),
    }
    if build.signed.is_some() {
        words.push("signed");
    }
    or_none((!words.is_empty()).then(|| words.join(", ")).as_deref())
}

fn names(nodes: &[String]) -> String {
    let mut text = nodes.iter().take(NAMED_NODES).cloned().collect::<Vec<_>>().join(",");
    if nodes.len() > NAMED_NODES {
        text.push_str(&format!(",+{}", nodes.len() - NAMED_NODES));
    }
    or_none((!text.is_empty()).then_some(&text))
}
