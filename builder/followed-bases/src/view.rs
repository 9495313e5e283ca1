//! `mosb base`: what the commands show, and the changes that they make.

use std::collections::BTreeMap;
use std::sync::Arc;

use kube::api::{Patch, PatchParams};
use kube::core::DynamicObject;
use kube::{Api, Client};
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::json;
use url::Url;

use super::snapshot::{BaseSnapshot, FollowedBase, NotFollowed, observe};
use super::state::{BaseState, NEWER_BASE};
use mosb_api::{FollowBase, MachineOsConfig, RecordedBase, condition, labels};
use mosb_cluster::cluster_cache::{ClusterCache, IndexKey};
use mosb_cluster::kinds;
use mosb_image::Digest;
use mosb_types::Diagnostic;

/// The base of a pool.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct BaseView {
    /// The pool.
    pub pool: String,
    /// `none`, `notify` or `build`, or the invalid value of annotation `mosb.dev/follow-base`.
    pub follow: String,
    /// Whether no newer base is recorded by itself.
    pub held: bool,
    /// The tag that the base is followed by, and recorded by.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tag: Option<String>,
    /// The URL of the stream metadata that names the newest base, instead of the tag.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stream_metadata: Option<String>,
    /// The base of the image in service, `host/repository@sha256:…`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub base: Option<String>,
    /// Its version, as its labels say.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
    /// When it was made (RFC 3339).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub created: Option<String>,
    /// The base that was recorded for the pool, `host/repository:tag@sha256:…`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub recorded: Option<String>,
    /// What the controller found, as condition `NewerBase` has it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub newer: Option<NewerView>,
}

/// The condition `NewerBase`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct NewerView {
    /// `True`, `False` or `Unknown`.
    pub status: String,
    /// One word for programs.
    pub reason: String,
    /// A sentence, with digest and version of both.
    pub message: String,
    /// Since when the status is this (RFC 3339).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub since: Option<String>,
}

/// What a person asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BaseRequest {
    /// Builds on the newest base, or on this digest, and then holds it.
    Update(Option<Digest>),
    /// Records no newer base by itself.
    Hold,
}

/// What a request changes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BaseChange {
    pub config: String,
    /// Annotations of the MachineOSConfig; without a value they are removed.
    pub annotations: BTreeMap<&'static str, Option<String>>,
}

/// Why a request is refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error, Diagnostic)]
#[non_exhaustive]
pub enum BaseRequestError {
    #[error("pool {pool}: it has no MachineOSConfig; create one first")]
    #[diagnostic(code = "not-opted-in", class = InvalidInput)]
    NotOptedIn { pool: String },
    #[error("pool {pool}: it has several MachineOSConfigs, {}; delete all but one", names.join(", "))]
    #[diagnostic(code = "rivals", class = InvalidInput)]
    Rivals { pool: String, names: Vec<String> },
    #[error("pool {pool}: {cause}")]
    #[diagnostic(code = "no-tag", class = InvalidInput)]
    NotFollowed { pool: String, cause: String },
    #[error("pool {pool}: the release of the cluster decides its base; update the cluster")]
    #[diagnostic(code = "release-decides", class = InvalidInput)]
    Release { pool: String },
}

fn config_of(cache: &ClusterCache, pool: &str) -> Result<Arc<MachineOsConfig>, BaseRequestError> {
    let pool = pool.to_owned();
    match &cache.configs.by_index([IndexKey::Pool(pool.clone())])[..] {
        [] => Err(BaseRequestError::NotOptedIn { pool }),
        [config] => Ok(Arc::clone(config)),
        several => {
            let names = several.iter().map(|one| one.metadata.name.clone()).collect();
            Err(BaseRequestError::Rivals { pool, names })
        }
    }
}

fn snapshot_of(cache: &ClusterCache, pool: &str) -> Result<BaseSnapshot, BaseRequestError> {
    let config = config_of(cache, pool)?;
    let gone = || BaseRequestError::NotOptedIn { pool: pool.to_owned() };
    observe(cache, &config.metadata.name).ok_or_else(gone)
}

/// The base of a pool.
///
/// # Errors
/// It has not exactly one MachineOSConfig.
pub fn base_view(cache: &ClusterCache, pool: &str) -> Result<BaseView, BaseRequestError> {
    let snapshot = snapshot_of(cache, pool)?;
    let metadata = &snapshot.config.metadata;
    let base = snapshot.base();
    let newer = condition(&snapshot.config.status.conditions, NEWER_BASE);
    let stream = snapshot.followed.as_ref().ok().map(|followed| &followed.stream);
    let follow = metadata.annotation(labels::FOLLOW_BASE).unwrap_or(FollowBase::None.as_str());
    Ok(BaseView {
        pool: pool.to_owned(),
        follow: follow.to_owned(),
        held: metadata.annotations.contains_key(labels::HOLD_BASE),
        tag: stream.map(|stream| stream.tag.to_string()),
        stream_metadata: stream.and_then(|stream| stream.metadata.as_ref()).map(Url::to_string),
        base: base.map(|base| base.image.to_string()),
        version: base.and_then(|base| base.release.version.clone()),
        created: base.and_then(|base| base.release.created).map(|at| format!("{at:.0}")),
        recorded: metadata.annotation(labels::BASE).map(str::to_owned),
        newer: newer.map(|newer| NewerView {
            status: newer.status.clone(),
            reason: newer.reason.clone(),
            message: newer.message.clone(),
            since: newer.last_transition_time.as_ref().map(|time| time.0.to_string()),
        }),
    })
}

/// The change of a request.
///
/// # Errors
/// The request is refused.
pub fn decide_request(
    cache: &ClusterCache,
    pool: &str,
    request: BaseRequest,
) -> Result<BaseChange, BaseRequestError> {
    let snapshot = snapshot_of(cache, pool)?;
    change(&snapshot, pool, request, cache.rendering)
}

/// `is_rendering`: mosb renders pools, so the base of a config does not change with each build.
pub fn change(
    snapshot: &BaseSnapshot,
    pool: &str,
    request: BaseRequest,
    is_rendering: bool,
) -> Result<BaseChange, BaseRequestError> {
    let metadata = &snapshot.config.metadata;
    let not_followed = |cause: &NotFollowed| BaseRequestError::NotFollowed {
        pool: pool.to_owned(),
        cause: BaseState::NotFollowed(cause.clone()).to_string(),
    };
    if snapshot.is_release {
        return Err(BaseRequestError::Release { pool: pool.to_owned() });
    }
    let FollowedBase { base, stream } = snapshot.followed.as_ref().map_err(not_followed)?;
    let recorded = |digest| Some(RecordedBase::new(stream.tag.clone(), digest)?.to_string());
    let mut annotations = BTreeMap::new();
    match request {
        BaseRequest::Update(None) => {
            annotations.insert(labels::UPDATE_BASE, Some("true".to_owned()));
        }
        BaseRequest::Update(Some(digest)) => {
            annotations.insert(labels::BASE, recorded(digest));
            annotations.insert(labels::HOLD_BASE, Some("true".to_owned()));
            annotations.insert(labels::UPDATE_BASE, None);
        }
        BaseRequest::Hold => {
            annotations.insert(labels::HOLD_BASE, Some("true".to_owned()));
            annotations.insert(labels::UPDATE_BASE, None);
            let is_recorded = metadata.annotations.contains_key(labels::BASE);
            // Each build would take what the tag names then.
            if !is_recorded && !is_rendering {
                annotations.insert(labels::BASE, recorded(base.image.digest()));
            }
        }
    }
    annotations.retain(|key, value| metadata.annotation(key) != value.as_deref());
    Ok(BaseChange { config: metadata.name.clone(), annotations })
}

/// Writes a change.
///
/// # Errors
/// The API server refuses it.
pub async fn write_request(
    client: &Client,
    change: &BaseChange,
) -> Result<(), mosb_reconcile::Error> {
    if change.annotations.is_empty() {
        return Ok(());
    }
    let api: Api<DynamicObject> =
        Api::all_with(client.clone(), &kinds::MACHINE_OS_CONFIG.resource());
    let patch = json!({ "metadata": { "annotations": change.annotations } });
    let patched = api.patch(&change.config, &PatchParams::default(), &Patch::Merge(&patch)).await;
    let object = format!("machineosconfig {}", change.config);
    patched.map(drop).map_err(mosb_reconcile::Error::api(object, "patch"))
}
