//! `mosb cache`: the cached base trees, and buildah's storage.

use std::time::SystemTime;

use clap::Subcommand;
use schemars::JsonSchema;
use serde::Serialize;

use super::context::{Session, cache, prepared_records};
use super::error::Error;
use super::output::Object;
use super::page::{Align, Page, count, size};
use super::{ExitCode, Result};
use mosb_build::buildah;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Subcommand)]
pub enum Cache {
    /// Lists the cached base trees, and buildah's storage
    ///
    /// Example:
    ///
    ///   mosb cache list -o json
    #[command(verbatim_doc_comment)]
    List,
    /// Removes all base trees, and buildah's storage unless a build uses it; the next build reads its base again
    ///
    /// Example:
    ///
    ///   mosb cache prune
    #[command(verbatim_doc_comment)]
    Prune,
}

impl Cache {
    pub async fn run(self, session: &Session) -> Result<ExitCode> {
        match self {
            Self::List => session.print(&list(session).await?),
            Self::Prune => session.print(&prune(session).await?),
        }
    }
}

async fn list(session: &Session) -> Result<CacheList> {
    let (cache, cache_dir) = (cache(&session.settings)?, session.settings.cache_dir()?);
    let entries = cache.list().map_err(|finding| Error::Cache(finding.message))?;
    let now = SystemTime::now();
    Ok(CacheList {
        directory: cache.directory().display().to_string(),
        size: entries.iter().map(|entry| entry.size).sum(),
        trees: entries
            .iter()
            .map(|entry| CachedTree {
                base: entry.manifest.to_string(),
                size: entry.size,
                // A time in the future counts as now.
                unused_seconds: now.duration_since(entry.used).unwrap_or_default().as_secs(),
            })
            .collect(),
        buildah: buildah::storage(&cache_dir).await.map(|storage| BuildahStore {
            directory: storage.directory.display().to_string(),
            size: storage.size,
        }),
    })
}

async fn prune(session: &Session) -> Result<CachePrune> {
    let settings = &session.settings;
    let (cache, cache_dir) = (cache(settings)?, settings.cache_dir()?);
    prepared_records(settings)?.clear().map_err(|finding| Error::Cache(finding.message))?;
    let pruned = cache.prune(0);
    if let Some(warning) = pruned.warnings.into_iter().next() {
        return Err(Error::Cache(warning.message).into());
    }
    let store = buildah::remove(&cache_dir).await.map_err(mosb_build::Error::from)?;
    Ok(CachePrune {
        directory: cache.directory().display().to_string(),
        removed: pruned.files,
        size: pruned.bytes,
        buildah: store.map(|store| PrunedStore {
            directory: store.storage.directory.display().to_string(),
            size: store.storage.size,
            removed: store.is_removed,
        }),
    })
}

/// The base trees that are cached on this machine.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct CacheList {
    /// The directory.
    pub directory: String,
    /// Bytes of all trees together.
    pub size: u64,
    /// Each base tree, the one used last first.
    pub trees: Vec<CachedTree>,
    /// buildah's storage, if there is one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub buildah: Option<BuildahStore>,
}

/// Storage of buildah: bases that were pulled and unpacked.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct BuildahStore {
    /// The directory.
    pub directory: String,
    /// Bytes of its files.
    pub size: u64,
}

/// One cached base tree.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct CachedTree {
    /// Digest of the base's manifest.
    pub base: String,
    /// Bytes on the disk.
    pub size: u64,
    /// Seconds since it was last used.
    pub unused_seconds: u64,
}

/// What was removed from the cache.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct CachePrune {
    /// The directory of the base trees.
    pub directory: String,
    /// The number of removed files: trees, and incomplete files of interrupted runs.
    pub removed: u64,
    /// Bytes of these files.
    pub size: u64,
    /// buildah's storage, if there was one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub buildah: Option<PrunedStore>,
}

/// buildah's storage, which was to be removed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PrunedStore {
    /// The directory.
    pub directory: String,
    /// Bytes of its files.
    pub size: u64,
    /// Whether it was removed; false if a build is using it.
    pub removed: bool,
}

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
