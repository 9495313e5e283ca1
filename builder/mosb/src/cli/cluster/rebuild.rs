//! `mosb rebuild`.

use clap::Args;
use schemars::JsonSchema;
use serde::Serialize;

use super::{Cluster, no_pool};
use mosb_commands::context::Session;
use mosb_commands::error::Error;
use mosb_commands::output::Object;
use mosb_commands::page::Page;
use mosb_commands::{ExitCode, Result};
use mosb_controller::{self as controller, ClusterCache, PoolView};

/// Requests a new build of a pool's image
///
/// What must be run is run again, so that updates come in.
///
/// Example:
///
///   mosb rebuild worker && mosb wait worker
#[derive(Debug, Args)]
#[command(verbatim_doc_comment)]
pub struct Rebuild {
    /// The pool
    pub pool: String,
    /// Run nothing again: build on the prepared base that the pool has
    #[arg(long)]
    pub config_only: bool,
    #[command(flatten)]
    pub cluster: Cluster,
}

impl Rebuild {
    pub async fn run(self, session: &Session) -> Result<ExitCode> {
        let (client, namespaces) = self.cluster.connect().await?;
        let cache = ClusterCache::read(&client, &namespaces).await?;
        let (_, config) = opted_in(&cache, &self.pool)?;
        controller::request_rebuild(&client, &config, self.config_only).await?;
        session.print(&RebuildRequest { pool: self.pool, machine_os_config: config })
    }
}

/// The selected pool, which must have a MachineOSConfig.
pub fn opted_in(cache: &ClusterCache, pool: &str) -> Result<(PoolView, String), Error> {
    let mut pool_views = controller::pool_views(cache, Some(pool));
    let view = pool_views.pop().ok_or_else(|| no_pool(pool))?;
    let config = view.config.clone().ok_or_else(|| Error::NotOptedIn { pool: pool.to_owned() })?;
    Ok((view, config))
}

/// A requested rebuild.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct RebuildRequest {
    /// The pool.
    pub pool: String,
    /// The MachineOSConfig that was annotated.
    #[serde(rename = "machineOSConfig")]
    pub machine_os_config: String,
}

impl Object for RebuildRequest {
    const KIND: &'static str = "RebuildRequest";

    fn text(&self) -> String {
        let pool = &self.pool;
        let mut page = Page::default();
        page.line(&format!(
            "{pool}: a rebuild was asked for; follow it with mosb wait {pool}, or mosb logs -f {pool}"
        ));
        page.into_text()
    }
}
