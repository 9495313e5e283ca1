//! `mosb boot-images`: what the commands show, and the changes that they make.

pub(super) mod rbac;
mod request;

use jiff::Timestamp;
use kube::Client;
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::{Value, json};

use super::decide::decide;
use super::execute::{patch_set, patch_status};
use super::figures::{BootImageFigures, figures};
use super::history;
use super::machine_set::{MachineSet, SET_KINDS};
use super::observe::observe;
use super::pin::PIN;
use super::report::{EXPIRING, StatusTarget, skew_message, target};
use super::snapshot::{BootImageSnapshot, GoldenState};
use super::stability::{old_stream, open_gate};
use mosb_api::condition;
use mosb_boot_image::{RestoreError, SetQuery, SetRef, SetRefError};
use mosb_cluster::cluster_cache::ClusterCache;
use mosb_cluster::namespaces::Namespaces;
use mosb_reconcile::error::Error;
use mosb_reconcile::write::ApplyError;
use mosb_types::{Diagnostic, ErrorClass};

#[cfg(test)]
pub(super) use request::change;
pub use request::{BootImageChange, BootImageRequest};

/// The selected machine sets and their boot images.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct BootImagesView {
    /// The ConfigMap with the images to follow, as `namespace/name`.
    pub golden: String,
    /// Problems that are not of one set.
    pub errors: Vec<String>,
    /// Images that are too old, and CAs in user data that expire soon.
    pub warnings: Vec<String>,
    /// What an administrator may want to change: that no image waits for the OS of the pools, or that
    /// the images to follow are older.
    pub notes: Vec<String>,
    /// Days between the oldest image in use whose release is known and the OS of the pools; if that is
    /// not known, and on OpenShift, the image to follow.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub days_behind: Option<i64>,
    /// Each selected set, by name.
    pub sets: Vec<SetView>,
}

/// A machine set and its boot image.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "BootImageSet")]
pub struct SetView {
    /// `namespace/Kind.group/name`.
    pub set: String,
    /// The image that it names; none if it can't be read.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub image: Option<String>,
    /// The image of the release; none if it is not known or not for this set.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub wanted: Option<String>,
    /// `current`, `updating`, `waiting`, `skipped` or `failed`.
    pub state: &'static str,
    /// One word for the reason; empty if it is current.
    pub code: String,
    /// Why it does not have the image of the release; empty if it has.
    pub reason: String,
    /// The value of its pin: `always` or a release.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pin: Option<String>,
}

/// An image in the history of a set.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "RecordedBootImage")]
pub struct HistoryView {
    /// From 1, as `restore --to` takes it.
    pub number: usize,
    /// The image.
    pub image: String,
    /// The template of a set of Cluster API.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub template: Option<String>,
    /// When it was seen first (RFC 3339).
    pub since: String,
    /// How often the controller wrote it; 0 for one that was found or put back.
    pub count: u32,
}

/// Why a request is not possible.
#[derive(Debug, thiserror::Error, Diagnostic)]
#[non_exhaustive]
pub enum BootImageRequestError {
    #[error(transparent)]
    #[diagnostic(transparent)]
    Set(#[from] SetRefError),
    #[error("{set}: {source}")]
    #[diagnostic(transparent)]
    NoEntry { set: String, source: RestoreError },
    #[error("{set}: {cause}")]
    #[diagnostic(code = "not-restorable", class = InvalidInput)]
    NotRestorable { set: String, cause: String },
    #[error("{object}: it was changed meanwhile; run the command again")]
    #[diagnostic(code = "boot-image-changed", class = Transient)]
    Changed { object: String },
    #[error("{message}")]
    #[diagnostic(code = "boot-image-refused", class = *class)]
    Refused { message: String, class: ErrorClass },
    #[error(transparent)]
    #[diagnostic(transparent)]
    Api(#[from] Error),
}

async fn read(client: &Client, namespaces: &Namespaces) -> Result<BootImageSnapshot, Error> {
    let cache = ClusterCache::read_boot_images(client, namespaces).await?;
    Ok(observe(&cache))
}

/// All selected sets. Stubs are not read, so a set whose stub is broken counts as one that gets its
/// image.
///
/// # Errors
/// A kind can't be listed.
pub async fn boot_images(
    client: &Client,
    namespaces: &Namespaces,
) -> Result<BootImagesView, Error> {
    let snapshot = read(client, namespaces).await?;
    Ok(view(&snapshot, Timestamp::now()))
}

pub(super) fn view(snapshot: &BootImageSnapshot, now: Timestamp) -> BootImagesView {
    let plan = decide(snapshot, now);
    let sets = SET_KINDS.into_iter().flat_map(|kind| snapshot.list(kind));
    let pins: std::collections::BTreeMap<String, String> = sets
        .filter_map(MachineSet::new)
        .filter_map(|set| Some((set.to_string(), set.object.annotation(PIN)?.to_owned())))
        .collect();
    let sets = plan.sets.iter().map(|set| SetView {
        set: set.set.clone(),
        state: set.outcome.result(),
        code: set.outcome.code().to_owned(),
        reason: set.outcome.reason().to_owned(),
        image: set.image.clone(),
        wanted: set.wanted.clone(),
        pin: pins.get(&set.set).cloned(),
    });
    let BootImageFigures { skew, days_behind, .. } = figures(&plan, snapshot, now);
    let skewed = skew.filter(|skew| !skew.too_old.is_empty());
    let skewed = skewed.map(|skew| skew_message(&skew));
    let expiring = match target(snapshot) {
        // Stubs are not read here.
        StatusTarget::Object(_, conditions) if plan.is_on => condition(&conditions, EXPIRING)
            .filter(|one| one.is_true())
            .map(|one| &one.message)
            .cloned(),
        _ => None,
    };
    BootImagesView {
        golden: snapshot.golden_name.clone(),
        warnings: skewed.into_iter().chain(expiring).collect(),
        notes: match &snapshot.golden {
            GoldenState::Found(golden) if plan.is_on => {
                let notes = [open_gate(snapshot, golden), old_stream(snapshot, golden)];
                notes.into_iter().flatten().collect()
            }
            _ => Vec::new(),
        },
        days_behind,
        errors: plan.errors.iter().map(|one| one.message.clone()).collect(),
        sets: sets.collect(),
    }
}

/// The images that a set had, oldest first.
///
/// # Errors
/// [`BootImageRequestError`].
pub async fn boot_image_history(
    client: &Client,
    namespaces: &Namespaces,
    set: &str,
) -> Result<Vec<HistoryView>, BootImageRequestError> {
    let snapshot = read(client, namespaces).await?;
    let history = history::read(find(&snapshot, set)?, &snapshot);
    let entries = history.details.into_iter().zip(1..).map(|(entry, number)| HistoryView {
        number,
        image: entry.boot_image_ref,
        template: (!entry.template.is_empty()).then_some(entry.template),
        since: entry.updated_time,
        count: entry.count,
    });
    Ok(entries.collect())
}

/// What a request would write.
///
/// # Errors
/// [`BootImageRequestError`].
pub async fn boot_image_change(
    client: &Client,
    namespaces: &Namespaces,
    set: &str,
    request: &BootImageRequest,
) -> Result<BootImageChange, BootImageRequestError> {
    request::change(&read(client, namespaces).await?, set, request)
}

/// Writes it.
///
/// # Errors
/// [`BootImageRequestError`]; also if an object was changed since it was decided.
pub async fn change_boot_image(
    client: &Client,
    change: &BootImageChange,
) -> Result<(), BootImageRequestError> {
    if !change.operations.is_empty() {
        patch_set(client, &change.set, &change.operations).await.map_err(refused)?;
    }
    if let Some((target, status)) = &change.record {
        patch_status(client, target, status, target).await.map_err(refused)?;
    }
    Ok(())
}

/// The one set that `[[NAMESPACE/]KIND[.GROUP]/]NAME` means.
fn find<'s>(snapshot: &'s BootImageSnapshot, text: &str) -> Result<MachineSet<'s>, SetRefError> {
    let objects = SET_KINDS.into_iter().flat_map(|kind| snapshot.list(kind));
    let sets: Vec<MachineSet<'s>> = objects.filter_map(MachineSet::new).collect();
    let references: Vec<SetRef> = sets.iter().map(|set| set.reference()).collect();
    let query: SetQuery = text.parse()?;
    let found = query.find(&references)?;
    let set = sets.into_iter().find(|set| set.reference() == *found);
    set.ok_or_else(|| SetRefError::Missing(text.to_owned()))
}

fn refused(error: ApplyError) -> BootImageRequestError {
    match error {
        ApplyError::Api(error) => error.into(),
        ApplyError::Conflict(object) => BootImageRequestError::Changed { object },
        ApplyError::Problem(problem) => {
            BootImageRequestError::Refused { message: problem.message, class: problem.class }
        }
    }
}

/// The Roles and RoleBindings for the stubs in use, as one List.
///
/// # Errors
/// A kind can't be listed.
pub async fn boot_image_rbac(
    client: &Client,
    namespaces: &Namespaces,
    account: &str,
) -> Result<Value, Error> {
    let snapshot = read(client, namespaces).await?;
    let objects = rbac::objects(&snapshot, (&namespaces.own, account));
    Ok(json!({ "apiVersion": "v1", "kind": "List", "items": objects }))
}
