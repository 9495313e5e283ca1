//! `restore`, `pin` and `unpin`: the change that a command makes to a set. Pure.

use serde_json::{Value, json};

use super::{BootImageRequestError, find};
use crate::effect::ObjectRef;
use crate::judge::platform;
use crate::machine_set::MachineSet;
use crate::pin::{ALWAYS, PIN};
use crate::snapshot::BootImageSnapshot;
use crate::{history, template};
use mosb_boot_image::{HistoryDetail, Release, Verdict, restore};
use mosb_cluster::cluster_cache::{BootImageKind, SeenObject, object_key};

/// What is asked for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum BootImageRequest {
    /// Put an earlier image back and pin it.
    Restore {
        /// The number of the entry, from 1; without it, the image before the present one.
        to: Option<usize>,
        until: Option<Release>,
    },
    /// Keep the image.
    Pin { until: Option<Release> },
    /// Let the image follow again, and forget how often another writer replaced it.
    Unpin,
}

/// The writes of a request.
#[derive(Debug, Clone, PartialEq)]
pub struct BootImageChange {
    pub set: ObjectRef,
    pub operations: Vec<Value>,
    /// The record with counts that begin anew.
    pub record: Option<(ObjectRef, Value)>,
    /// What the set has then.
    pub image: Option<String>,
    /// What to ask a person before, because machines are replaced.
    pub question: Option<String>,
}

pub fn change(
    snapshot: &BootImageSnapshot,
    set: &str,
    request: &BootImageRequest,
) -> Result<BootImageChange, BootImageRequestError> {
    let set = find(snapshot, set)?;
    let target = ObjectRef::of(set.object);
    let unchanged = |operations| BootImageChange {
        set: target.clone(),
        operations,
        record: None,
        image: None,
        question: None,
    };
    match request {
        BootImageRequest::Pin { until } => Ok(unchanged(pin(set.object, until.as_ref()))),
        BootImageRequest::Unpin => {
            // mosb tries again.
            let anew = json!({ "attempt": null, "pinned": null });
            let history = history::find(set, snapshot);
            let record = history.map(|history| (ObjectRef::of(history), anew));
            Ok(BootImageChange { record, ..unchanged(unpin(set.object)) })
        }
        BootImageRequest::Restore { to, until } => {
            let history = history::read(set, snapshot);
            let entry = history.entry_to_restore(*to).map_err(|source| {
                BootImageRequestError::NoEntry { set: set.to_string(), source }
            })?;
            let mut operations = restored(set, snapshot, entry)?;
            let question = (!operations.is_empty() && replaces_machines(set)).then(|| {
                format!("{set}: all of its machines are replaced by ones of {}", entry.template)
            });
            operations.extend(pin(set.object, until.as_ref()));
            let image = Some(entry.boot_image_ref.clone());
            Ok(BootImageChange { image, question, ..unchanged(operations) })
        }
    }
}

/// Whether another template replaces the machines of the set, and not only those that come later.
fn replaces_machines(set: MachineSet<'_>) -> bool {
    set.object.kind == BootImageKind::MachineDeployment && !set.replaces_on_delete()
}

/// The operations that bring an earlier image.
fn restored(
    set: MachineSet<'_>,
    snapshot: &BootImageSnapshot,
    entry: &HistoryDetail,
) -> Result<Vec<Value>, BootImageRequestError> {
    let failed =
        |cause: String| BootImageRequestError::NotRestorable { set: set.to_string(), cause };
    if !set.is_machine_api() {
        let reference = set
            .template()
            .map_err(|_| failed("its template is of a kind that mosb does not know".to_owned()))?;
        let key = object_key(&set.object.namespace, &entry.template);
        if snapshot.get(reference.kind, &key).is_none() {
            let kind = reference.kind.as_str();
            return Err(failed(format!("{kind} {key} does not exist any more; create it again")));
        }
        return Ok(template::operations(&reference.name, &entry.template));
    }
    let platform = platform(snapshot).map_err(|failure| failed(failure.message))?;
    let (pointer, value) = set.provider_spec().map_err(|failure| failed(failure.message))?;
    let image = entry.boot_image_ref.parse();
    let image =
        image.map_err(|error: mosb_boot_image::BootImageError| failed(error.to_string()))?;
    match restore(&platform, value, &image) {
        Ok(Verdict::Change(change)) => Ok(change.json_patch(pointer)),
        Ok(Verdict::Current(_)) => Ok(Vec::new()),
        Ok(Verdict::Skip(skip)) => Err(failed(skip.to_string())),
        Err(error) => Err(failed(error.to_string())),
    }
}

fn pin(set: &SeenObject, until: Option<&Release>) -> Vec<Value> {
    let value = until.map_or(ALWAYS, Release::as_str);
    let mut operations = Vec::new();
    if set.annotations.is_empty() {
        operations.push(json!({ "op": "add", "path": "/metadata/annotations", "value": {} }));
    }
    operations.push(json!({ "op": "add", "path": pin_path(), "value": value }));
    operations
}

fn unpin(set: &SeenObject) -> Vec<Value> {
    let is_pinned = set.annotation(PIN).is_some();
    let remove = || json!({ "op": "remove", "path": pin_path() });
    is_pinned.then(remove).into_iter().collect()
}

fn pin_path() -> String {
    format!("/metadata/annotations/{}", PIN.replace('/', "~1"))
}
