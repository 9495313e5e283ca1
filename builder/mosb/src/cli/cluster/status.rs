//! `mosb status`: the pools of a cluster, and why each is or isn't building.

use clap::Args;
use schemars::JsonSchema;
use serde::Serialize;

use super::{Cluster, no_pool};
use mosb_api::labels;
use mosb_commands::context::Session;
use mosb_commands::output::Object;
use mosb_commands::page::Page;
use mosb_commands::{ExitCode, Result};
use mosb_controller::{self as controller, ClusterCache, PoolView};

/// Shows for each pool of a cluster why it is or isn't building
///
/// Examples:
///
///   mosb status
///   mosb status worker -o json
#[derive(Debug, Args)]
#[command(verbatim_doc_comment)]
pub struct Status {
    /// The pool [default: all]
    pub pool: Option<String>,
    #[command(flatten)]
    pub cluster: Cluster,
}

impl Status {
    pub async fn run(&self, session: &Session) -> Result<ExitCode> {
        let (client, namespaces) = self.cluster.connect().await?;
        let cache = ClusterCache::read(&client, &namespaces).await?;
        let status = ClusterStatus::of(&cache, self.pool.as_deref());
        if let (Some(pool), true) = (&self.pool, status.pools.is_empty()) {
            return Err(no_pool(pool).into());
        }
        session.print(&status)
    }
}

/// The pools of a cluster, and why each is or isn't building.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ClusterStatus {
    /// mosb's namespace.
    pub namespace: String,
    /// Each pool, by name.
    pub pools: Vec<PoolStatus>,
}

/// A pool, and why it is or isn't building.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PoolStatus {
    /// The pool.
    pub pool: String,
    /// The rendered config that its machines should have.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rendered_config: Option<String>,
    /// The MachineOSConfig of the pool.
    #[serde(rename = "machineOSConfig", skip_serializing_if = "Option::is_none")]
    pub machine_os_config: Option<String>,
    /// The image in service.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub image: Option<String>,
    /// Why it is or isn't building.
    pub reason: ReasonInfo,
    /// Which MachineConfig sets the OS image instead of the release, and which image, as condition `OSOverridden` has it.
    #[serde(rename = "osOverridden", skip_serializing_if = "Option::is_none")]
    pub os_overridden: Option<String>,
    /// The current build.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub build: Option<BuildInfo>,
}

/// Why a pool is or isn't building.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct ReasonInfo {
    /// One of a fixed, documented set of words.
    pub code: String,
    /// One sentence.
    pub message: String,
}

/// A build.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct BuildInfo {
    /// Its name.
    pub name: String,
    /// `Prepared`, `Building`, `Failed`, `Interrupted` or `Succeeded`; none if nothing was done yet.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub state: Option<String>,
    /// When it began.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub start: Option<String>,
    /// When it ended.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub end: Option<String>,
    /// When the prepared base was made that it is built on.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub prepared_at: Option<String>,
    /// Fingerprint of the key that the controller signed its image with; none if it did not.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub signed: Option<String>,
}

impl ClusterStatus {
    /// One pool, or all.
    pub fn of(cache: &ClusterCache, pool: Option<&str>) -> Self {
        let pools = controller::pool_views(cache, pool);
        Self {
            namespace: cache.namespace.clone(),
            pools: pools.iter().map(PoolStatus::from).collect(),
        }
    }
}

impl From<&PoolView> for PoolStatus {
    fn from(view: &PoolView) -> Self {
        let given = |text: &str| (!text.is_empty()).then(|| text.to_owned());
        Self {
            pool: view.pool.clone(),
            rendered_config: given(&view.rendered),
            machine_os_config: view.config.clone(),
            image: given(&view.image),
            os_overridden: view.os_overridden.clone(),
            reason: ReasonInfo {
                code: view.reason.code().to_owned(),
                message: view.reason.to_string(),
            },
            build: view.build.as_ref().map(|build| BuildInfo {
                name: build.metadata.name.clone(),
                state: build.status.state().map(|state| state.as_str().to_owned()),
                start: build.status.build_start.as_ref().map(|at| at.0.to_string()),
                end: build.status.build_end.as_ref().map(|at| at.0.to_string()),
                prepared_at: build.metadata.annotation(labels::PREPARED_AT).map(str::to_owned),
                signed: build.metadata.annotation(labels::SIGNED).map(str::to_owned),
            }),
        }
    }
}

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
        let signed = build.signed.as_ref().map(|_| "signed".to_owned());
        let brackets: Vec<String> =
            build.state.iter().cloned().chain(prepared).chain(signed).collect();
        match &brackets[..] {
            [] => build.name.clone(),
            _ => format!("{} ({})", build.name, brackets.join(", ")),
        }
    });
    for (what, value) in [
        ("config", &pool.rendered_config),
        ("build", &build),
        ("image", &pool.image),
        ("OS", &pool.os_overridden),
    ] {
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
