//! `mosb base`: whether a pool's base has a newer image, and whether it is built on.

use clap::{Args, Subcommand};
use jiff::Timestamp;
use schemars::JsonSchema;
use serde::Serialize;

use super::rollout::{age, short};
use super::{Cluster, OnePool, no_pool};
use mosb_commands::context::Session;
use mosb_commands::output::Object;
use mosb_commands::page::{Page, or_none};
use mosb_commands::{ExitCode, Result};
use mosb_controller::ClusterCache;
use mosb_controller::followed_bases::{self, BaseRequest as Request, BaseRequestError, BaseView};
use mosb_image::Digest;

#[derive(Debug, Subcommand)]
pub enum Base {
    /// Shows the base of each pool's image in service, and whether its tag, or stream metadata, names a newer one
    ///
    /// A controller asks for it, for pools whose MachineOSConfig has the annotation mosb.dev/follow-base.
    ///
    /// Examples:
    ///
    ///   mosb base status
    ///   mosb base status worker -o json
    #[command(verbatim_doc_comment)]
    Status(Status),
    /// Builds a pool's image on the newest base, or on another image of that repository
    ///
    /// The controller looks at the tag, or at stream metadata, records the image in annotation mosb.dev/base of the
    /// MachineOSConfig, and builds. How far the new image is brought to machines, mosb.dev/rollout decides. With --to,
    /// the base is then held.
    ///
    /// Examples:
    ///
    ///   mosb base update worker && mosb wait worker
    ///   mosb base update worker --to sha256:8ee55e140e8751492ab2cfa4513c82093cd2716df9311ea6f442f1f1259cbb3e
    #[command(verbatim_doc_comment)]
    Update(Update),
    /// Keeps a pool on the base that it has, until `mosb base update`
    ///
    /// Example:
    ///
    ///   mosb base hold worker
    #[command(verbatim_doc_comment)]
    Hold(OnePool),
}

#[derive(Debug, Args)]
pub struct Status {
    /// The pool [default: all pools with a MachineOSConfig]
    pub pool: Option<String>,
    #[command(flatten)]
    pub cluster: Cluster,
}

#[derive(Debug, Args)]
pub struct Update {
    /// The pool
    pub pool: String,
    /// The digest of the base: of a manifest, or of an index of several
    #[arg(long, value_name = "DIGEST")]
    pub to: Option<Digest>,
    #[command(flatten)]
    pub cluster: Cluster,
}

impl Base {
    pub async fn run(self, session: &Session) -> Result<ExitCode> {
        let (pool, request, cluster) = match self {
            Self::Status(Status { pool, cluster }) => {
                let (client, namespaces) = cluster.connect().await?;
                let cache = ClusterCache::read(&client, &namespaces).await?;
                return session.print(&status(&cache, pool.as_deref())?);
            }
            Self::Update(Update { pool, to, cluster }) => (pool, Request::Update(to), cluster),
            Self::Hold(OnePool { pool, cluster }) => (pool, Request::Hold, cluster),
        };
        let (client, namespaces) = cluster.connect().await?;
        let cache = ClusterCache::read(&client, &namespaces).await?;
        if cache.pools.get(&pool).is_none() {
            return Err(no_pool(&pool).into());
        }
        let change = followed_bases::decide_request(&cache, &pool, request)?;
        followed_bases::write_request(&client, &change).await?;
        let action = match request {
            Request::Update(_) => "update",
            Request::Hold => "hold",
        };
        session.print(&BaseRequest {
            pool,
            machine_os_config: change.config,
            action: action.to_owned(),
            changed: !change.annotations.is_empty(),
        })
    }
}

fn status(cache: &ClusterCache, pool: Option<&str>) -> Result<BaseList> {
    let mut list = BaseList { bases: Vec::new(), rivals: Vec::new(), now: Timestamp::now() };
    match pool {
        Some(pool) if cache.pools.get(pool).is_none() => return Err(no_pool(pool).into()),
        Some(pool) => list.bases.push(followed_bases::base_view(cache, pool)?),
        None => {
            for pool in cache.pools.list() {
                let pool = &pool.metadata.name;
                match followed_bases::base_view(cache, pool) {
                    Ok(base) => list.bases.push(base),
                    Err(BaseRequestError::Rivals { pool, names }) => {
                        list.rivals.push(Rivals { pool, machine_os_configs: names });
                    }
                    // A pool without a MachineOSConfig.
                    Err(_) => {}
                }
            }
        }
    }
    Ok(list)
}

/// The bases of pools.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct BaseList {
    /// Each pool that has one MachineOSConfig, by name.
    pub bases: Vec<BaseView>,
    /// Pools that have several MachineOSConfigs, by name. No image is built for them.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(default)]
    pub rivals: Vec<Rivals>,
    /// What ages are counted from.
    #[serde(skip)]
    pub now: Timestamp,
}

/// A pool that has several MachineOSConfigs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Rivals {
    /// The pool.
    pub pool: String,
    /// Their names.
    #[serde(rename = "machineOSConfigs")]
    pub machine_os_configs: Vec<String>,
}

/// A request about the base of a pool.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct BaseRequest {
    /// The pool.
    pub pool: String,
    /// Its MachineOSConfig.
    #[serde(rename = "machineOSConfig")]
    pub machine_os_config: String,
    /// `update` or `hold`.
    pub action: String,
    /// Whether the MachineOSConfig was annotated; `false` if it was so already.
    pub changed: bool,
}

impl Object for BaseList {
    const KIND: &'static str = "BaseList";

    fn text(&self) -> String {
        let mut page = Page::default();
        if self.bases.is_empty() && self.rivals.is_empty() {
            page.line("no pool has a MachineOSConfig");
            return page.into_text();
        }
        let rows = self.bases.iter().map(|base| {
            let created = base.created.as_ref().and_then(|text| text.parse().ok());
            let newer = base.newer.as_ref();
            let since = newer.and_then(|newer| newer.since.as_ref()?.parse().ok());
            vec![
                base.pool.clone(),
                format!("{}{}", base.follow, if base.held { ", held" } else { "" }),
                or_none(base.stream_metadata.as_deref().or(base.tag.as_deref())),
                short(base.base.as_deref()),
                or_none(base.version.as_deref()),
                age(created, self.now),
                or_none(newer.map(|newer| &*newer.reason)),
                age(since, self.now),
            ]
        });
        let head = ["POOL", "FOLLOW", "STREAM", "BASE", "VERSION", "AGE", "NEWER", "SINCE"];
        if !self.bases.is_empty() {
            page.headed_table(&head, rows);
        }
        for base in &self.bases {
            if let Some(newer) = base.newer.as_ref().filter(|newer| newer.reason != "UpToDate") {
                page.line(&format!("{}: {}", base.pool, newer.message));
            }
        }
        for Rivals { pool, machine_os_configs } in &self.rivals {
            let names = machine_os_configs.join(", ");
            page.line(&format!(
                "{pool}: it has several MachineOSConfigs, {names}; delete all but one"
            ));
        }
        page.into_text()
    }
}

impl Object for BaseRequest {
    const KIND: &'static str = "BaseRequest";

    fn text(&self) -> String {
        let pool = &self.pool;
        let mut page = Page::default();
        page.line(&match (&*self.action, self.changed) {
            ("hold", true) => format!("{pool}: the base is held; mosb base update {pool} ends that"),
            ("hold", false) => format!("{pool}: the base is held already"),
            (_, true) => format!(
                "{pool}: an update of the base was asked for; follow it with mosb base status {pool}, and mosb wait {pool}"
            ),
            (_, false) => format!("{pool}: that was asked for already"),
        });
        page.into_text()
    }
}
