//! What a pass reports: two conditions with counts, and every set that has not its image. Pure.

use std::collections::BTreeSet;

use jiff::Timestamp;
use serde_json::json;

use super::STATUS_NAME;
use super::effect::{Action, BootImageEffect, BootImageWrite, ObjectRef, Recorded};
use super::figures::{BootImageFigures, ExpiringStub, SkewFigures};
use super::plan::{BootImagePlan, Outcome, SetPlan};
use super::report_events::events;
use super::snapshot::BootImageSnapshot;
use super::worker_pool::worker_condition;
use mosb_api::boot_images::ManagedKind;
use mosb_api::{Condition, condition};
use mosb_cluster::cluster_cache::BootImageKind;
use mosb_cluster::status::set_condition;

/// Condition: whether sets still get their image.
pub(super) const PROGRESSING: &str = "BootImageUpdateProgressing";
/// Condition: whether something must be corrected.
pub(super) const DEGRADED: &str = "BootImageUpdateDegraded";
/// Condition: whether images in use are older than the limit. Only where there is a limit.
pub(super) const SKEWED: &str = "BootImageSkewed";
/// Condition: whether the CA of a stub in use expires soon. Only where one is known.
pub(super) const EXPIRING: &str = "BootImageUserDataExpiring";
/// The most characters of a message (metav1.Condition).
const MAX_MESSAGE: usize = 32_768;
/// Reason before anything happened.
const NOTHING: &str = "NA";

/// Where the conditions are.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum StatusTarget {
    /// There is no object yet.
    Create,
    Object(ObjectRef, Vec<Condition>),
}

/// On OpenShift `MachineConfiguration` `cluster`, unless its own controller writes there; else our
/// own object.
pub(super) fn target(snapshot: &BootImageSnapshot) -> StatusTarget {
    let theirs = snapshot.machine_configuration.as_ref();
    let theirs = theirs.filter(|_| snapshot.other_controller.is_none());
    let Some(object) = theirs.or(snapshot.status.as_ref()) else { return StatusTarget::Create };
    let conditions = object.status.get("conditions").cloned().unwrap_or_default();
    let conditions = serde_json::from_value(conditions).unwrap_or_default();
    StatusTarget::Object(ObjectRef::of(object), conditions)
}

/// The writes of the conditions, with the events of a change. The status of an object that is not
/// seen as we wrote it last waits.
pub(super) fn actions(
    plan: &BootImagePlan,
    figures: &BootImageFigures,
    snapshot: &BootImageSnapshot,
    now: Timestamp,
) -> Vec<Action> {
    let effect = |write| Action::Effect(BootImageEffect { set: None, write });
    let mut actions = Vec::new();
    match target(snapshot) {
        StatusTarget::Create => {
            let is_needed = conditions(plan, figures, &[], now).is_some();
            actions.extend(is_needed.then(|| effect(create_status())));
        }
        StatusTarget::Object(target, _) if snapshot.outdated.contains(&target.uid) => {}
        StatusTarget::Object(target, before) => {
            if let Some(list) = conditions(plan, figures, &before, now) {
                let events = events(&target, &before, &list);
                let (fields, recorded) = (json!({ "conditions": list }), Recorded::Seen);
                actions.push(effect(BootImageWrite::Status { target, fields, recorded }));
                actions.extend(events.into_iter().map(Action::Event));
            }
        }
    }
    actions.extend(worker_condition(plan, snapshot, now));
    actions
}

/// Creates the object with the conditions of the cluster, without a status.
fn create_status() -> BootImageWrite {
    let kind = BootImageKind::BootImageStatus;
    let resource = kind.resource("v1alpha1");
    let body = json!({ "apiVersion": resource.api_version, "kind": resource.kind,
        "metadata": { "name": STATUS_NAME }, "spec": {} });
    let (namespace, name) = (String::new(), STATUS_NAME.to_owned());
    BootImageWrite::Create { kind, namespace, name, body, also: None }
}

/// The conditions after this pass; none if they are unchanged.
pub(super) fn conditions(
    plan: &BootImagePlan,
    figures: &BootImageFigures,
    before: &[Condition],
    now: Timestamp,
) -> Option<Vec<Condition>> {
    let was_reported = condition(before, PROGRESSING).is_some();
    if !plan.is_on && plan.errors.is_empty() && !was_reported {
        return None;
    }
    let is = |value: bool| if value { "True" } else { "False" };
    let reason = reason(plan);
    let mut conditions = before.to_vec();
    let progressing = (is(is_progressing(plan)), reason, &*progress_message(plan));
    set_condition(&mut conditions, PROGRESSING, progressing, now);
    let degraded = (is(is_degraded(plan)), reason, &*error_message(plan));
    set_condition(&mut conditions, DEGRADED, degraded, now);
    let skew = figures.skew.as_ref().map(|skew| (!skew.too_old.is_empty(), skew_message(skew)));
    let expiring = figures.expiring.as_ref();
    let expiring = expiring.map(|stubs| (!stubs.is_empty(), expiry_message(stubs)));
    for (kind, found, reason) in
        [(SKEWED, skew, "BootImagesTooOld"), (EXPIRING, expiring, "AuthorityExpires")]
    {
        match found.filter(|_| plan.is_on) {
            Some((is_true, message)) => {
                let reason = if is_true { reason } else { "AsExpected" };
                set_condition(&mut conditions, kind, (is(is_true), reason, &message), now);
            }
            None => conditions.retain(|one| one.kind != kind),
        }
    }
    (conditions != before).then_some(conditions)
}

/// What to do about CAs that expire soon; empty without one.
pub(super) fn expiry_message(stubs: &[ExpiringStub]) -> String {
    if stubs.is_empty() {
        return String::new();
    }
    let of = |stub: &ExpiringStub| format!("{} ({})", stub.secret, stub.on);
    let list: Vec<String> = stubs.iter().map(of).collect();
    format!(
        "new machines can't fetch their config when the CA in their user data has expired; put the current CA into these Secrets: {}",
        bounded(&list, MAX_MESSAGE - 256)
    )
}

pub(super) fn skew_message(skew: &SkewFigures) -> String {
    let SkewFigures { limit, too_old, unknown } = skew;
    let mut parts = Vec::new();
    if !too_old.is_empty() {
        parts.push(format!(
            "images older than {limit}, from which machines may not reach the cluster's OS: {}",
            bounded(too_old, MAX_MESSAGE - 256)
        ));
    }
    if *unknown > 0 {
        parts.push(format!("sets with an image whose release is not known: {unknown}"));
    }
    parts.join("; ")
}

pub(super) fn is_degraded(plan: &BootImagePlan) -> bool {
    !plan.errors.is_empty() || plan.sets.iter().any(|set| matches!(set.outcome, Outcome::Failed(_)))
}

fn is_progressing(plan: &BootImagePlan) -> bool {
    let under_way = |set: &SetPlan| matches!(set.outcome, Outcome::Updating | Outcome::Waiting(_));
    plan.sets.iter().any(under_way)
}

/// The first kind with a set that does not have its image; else what all sets follow.
fn reason(plan: &BootImagePlan) -> &'static str {
    if !plan.is_on && plan.errors.is_empty() {
        return NOTHING;
    }
    let is_open = |set: &&SetPlan| {
        matches!(set.outcome, Outcome::Updating | Outcome::Waiting(_) | Outcome::Failed(_))
    };
    match plan.sets.iter().find(is_open).map(|set| set.kind) {
        Some(ManagedKind::MachineApiMachineSets) => "MAPIMachineSetUpdated",
        Some(ManagedKind::ControlPlaneMachineSets) => "ControlPlaneMachineSetUpdated",
        Some(ManagedKind::ClusterApiMachineSets) => "CAPIMachineSetUpdated",
        Some(ManagedKind::MachineDeployments) => "CAPIMachineDeploymentUpdated",
        None if plan.errors.is_empty() => "BootImageConfigMapUpdated",
        None => "BootImageUpdateConfigurationUpdated",
    }
}

/// A kind as the messages of the Machine Config Operator name it, in the singular.
pub(super) fn word(kind: ManagedKind) -> &'static str {
    match kind {
        ManagedKind::MachineApiMachineSets => "MAPI MachineSet",
        ManagedKind::ControlPlaneMachineSets => "ControlPlaneMachineSet",
        ManagedKind::ClusterApiMachineSets => "CAPI MachineSet",
        ManagedKind::MachineDeployments => "CAPI MachineDeployment",
    }
}

/// A set as the messages name it. Those of the machine API are in one namespace, and the Machine
/// Config Operator names them without it.
fn name(set: &SetPlan) -> String {
    let (word, SetPlan { namespace, name, .. }) = (word(set.kind), set);
    match set.kind {
        ManagedKind::MachineApiMachineSets | ManagedKind::ControlPlaneMachineSets => {
            format!("{word} {name}")
        }
        ManagedKind::ClusterApiMachineSets | ManagedKind::MachineDeployments => {
            format!("{word} {namespace}/{name}")
        }
    }
}

fn count(plan: &BootImagePlan, kind: ManagedKind, is: impl Fn(&Outcome) -> bool) -> usize {
    plan.sets.iter().filter(|set| set.kind == kind && is(&set.outcome)).count()
}

fn progress_message(plan: &BootImagePlan) -> String {
    let parts = ManagedKind::ALL.map(|kind| {
        let all = count(plan, kind, |_| true);
        let done = count(plan, kind, |outcome| matches!(outcome, Outcome::Current));
        let skipped = count(plan, kind, |outcome| matches!(outcome, Outcome::Skipped { .. }));
        let skipped = if skipped == 0 { String::new() } else { format!(" ({skipped} skipped)") };
        format!("Reconciled {done} of {all} {}s{skipped}", word(kind))
    });
    let mut message = parts.join(" | ");
    let listed = |is: fn(&Outcome) -> bool| -> Vec<String> {
        let sets = plan.sets.iter().filter(|set| is(&set.outcome));
        sets.map(|set| format!("{}: {}", name(set), set.outcome.reason())).collect()
    };
    let waiting = listed(|outcome| matches!(outcome, Outcome::Waiting(_)));
    let skipped = listed(|outcome| matches!(outcome, Outcome::Skipped { .. }));
    // Both lists fit, whatever the length of the other one.
    let left = MAX_MESSAGE.saturating_sub(message.chars().count() + 64) / 2;
    for (title, list) in [("Waiting", waiting), ("Skipped", skipped)] {
        if !list.is_empty() {
            message += &format!(" | {title}: {}", bounded(&list, left));
        }
    }
    message
}

pub(super) fn error_message(plan: &BootImagePlan) -> String {
    let parts = ManagedKind::ALL.map(|kind| {
        let failed = count(plan, kind, |outcome| matches!(outcome, Outcome::Failed(_)));
        format!("{failed} Degraded {}s", word(kind))
    });
    let message = parts.join(" | ");
    let mut errors: Vec<String> = plan.errors.iter().map(|one| one.message.clone()).collect();
    for set in &plan.sets {
        if let Outcome::Failed(failure) = &set.outcome {
            errors.push(format!("error syncing {}: {}", name(set), failure.message));
        }
    }
    let mut seen = BTreeSet::new();
    errors.retain(|error| seen.insert(error.clone()));
    match &errors[..] {
        [] => message,
        all => {
            let left = MAX_MESSAGE.saturating_sub(message.chars().count() + 64);
            format!("{message} | Error(s): {}", bounded(all, left))
        }
    }
}

/// The entries in brackets, a single one without; as many as fit, and how many more there are.
fn bounded(entries: &[String], most: usize) -> String {
    let mut text = String::new();
    let mut size = 0;
    for (at, entry) in entries.iter().enumerate() {
        let entry: String = entry.chars().take(most).collect();
        let separator = if at == 0 { "" } else { ", " };
        size += entry.chars().count() + separator.len();
        if size > most {
            text += &format!("{separator}and {} more", entries.len() - at);
            break;
        }
        text += separator;
        text += &entry;
    }
    if entries.len() == 1 { text } else { format!("[{text}]") }
}

#[cfg(test)]
mod tests;
