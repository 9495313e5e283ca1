//! The write that records what is seen of a set. Pure.

use jiff::Timestamp;
use serde_json::{Value, json};

use super::effect::{BootImageWrite, ObjectRef, Recorded};
use super::history::find;
use super::judge::Judgement;
use super::machine_set::MachineSet;
use super::snapshot::BootImageSnapshot;
use mosb_boot_image::{
    BootImage, Golden, History, HistoryDetail, SetReference, Verdict, WriteAttempt,
};
use mosb_cluster::cluster_cache::BootImageKind;

/// The record that is seen is older than our last write.
#[derive(Debug)]
pub(super) struct Outdated;

/// The write that records what is seen of a set; none if it is recorded. The pin is that of its
/// annotation.
pub(super) fn next_write(
    set: MachineSet<'_>,
    judgement: &Judgement<'_>,
    pin: Option<&str>,
    (snapshot, golden): (&BootImageSnapshot, &Golden),
    now: Timestamp,
) -> Result<Option<BootImageWrite>, Outdated> {
    let Some(object) = find(set, snapshot) else {
        return Ok(Some(create(set)));
    };
    if snapshot.is_outdated(object) {
        return Err(Outdated);
    }
    let before = History::read(&object.status);
    let mut history = before.clone();
    history.machine_resource_reference = SetReference::of(&set.reference());
    history.pinned = pin.map(str::to_owned);
    let detail = |image: &BootImage| HistoryDetail {
        template: judgement.template_name().unwrap_or_default().to_owned(),
        ..HistoryDetail::new(image, &whole(now).to_string())
    };
    let is_newest = |image: &BootImage| {
        history.newest().is_none_or(|newest| newest.boot_image_ref == image.as_str())
    };
    let is_restore = matches!(&judgement.verdict, Verdict::Change(change)
        if pin.is_some() && !is_newest(&change.from));
    let recorded = match &judgement.verdict {
        Verdict::Current(image) => history.with_stock(detail(image)),
        // It may be replaced, so it is proven.
        Verdict::Change(change) if is_restore => history.with_stock(detail(&change.from)),
        Verdict::Change(change) => history.with_found(detail(&change.from)),
        Verdict::Skip(_) => None,
    };
    if let Some(recorded) = recorded {
        history = with_release(recorded, golden);
    }
    if is_restore {
        // An administrator put this image back, so no later change undoes a write of mosb.
        history.attempt = None;
    }
    if history == before {
        return Ok(None);
    }
    let mut status = json!(history);
    // A merge patch removes what is null.
    for field in ["attempt", "pinned"] {
        if status.get(field).is_none() {
            status[field] = Value::Null;
        }
    }
    let recorded = if is_restore { Recorded::Restored } else { Recorded::Seen };
    Ok(Some(BootImageWrite::Status { target: ObjectRef::of(object), fields: status, recorded }))
}

/// The write that records an attempt before it is made; none without a record.
pub(super) fn attempt(
    set: MachineSet<'_>,
    snapshot: &BootImageSnapshot,
    attempt: &WriteAttempt,
) -> Option<BootImageWrite> {
    let target = ObjectRef::of(find(set, snapshot)?);
    let fields = json!({ "attempt": attempt });
    let recorded = Recorded::Attempt(set.object.uid.clone());
    Some(BootImageWrite::Status { target, fields, recorded })
}

/// The history whose newest entry has the release of its image, if the golden ConfigMap names it.
fn with_release(mut history: History, golden: &Golden) -> History {
    if let Some(newest) = history.details.last_mut()
        && newest.release.is_empty()
        && let Some(release) = golden.releases().get(&newest.boot_image_ref)
    {
        newest.release = release.to_string();
    }
    history
}

fn create(set: MachineSet<'_>) -> BootImageWrite {
    let (namespace, name) = (set.object.namespace.clone(), set.reference().history_name());
    let kind = BootImageKind::BootImageHistory;
    let resource = kind.resource("v1alpha1");
    let body = json!({
        "apiVersion": resource.api_version,
        "kind": resource.kind,
        "metadata": { "namespace": namespace, "name": name },
        "spec": {},
    });
    BootImageWrite::Create { kind, namespace, name, body, also: None }
}

/// To whole seconds, as other API clients do.
fn whole(time: Timestamp) -> Timestamp {
    Timestamp::from_second(time.as_second()).expect("earlier than a good time")
}
