//! What a pass reports: two conditions with counts, and every set that has not its image. Pure.

use jiff::Timestamp;

use super::figures::{BootImageFigures, ExpiringStub, SkewFigures};
use super::plan::{BootImagePlan, Outcome, SetPlan};
use super::snapshot::BootImageSnapshot;
use super::write::ObjectRef;
use crate::status::set_condition;
use mosb_plan::api::boot_images::ManagedKind;
use mosb_plan::api::{Condition, condition};

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
        parts.push(format!("{unknown} sets have an image whose release is not known"));
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
        sets.map(|set| format!("{} {}: {}", word(set.kind), set.name, set.outcome.reason()))
            .collect()
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
            let (word, name) = (word(set.kind), &set.name);
            errors.push(format!("error syncing {word} {name}: {}", failure.message));
        }
    }
    let mut unique = Vec::new();
    for error in errors {
        if !unique.contains(&error) {
            unique.push(error);
        }
    }
    match &unique[..] {
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
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::boot_images::obstacle::Failure;

    fn set(kind: ManagedKind, name: &str, outcome: Outcome) -> SetPlan {
        SetPlan {
            set: name.to_owned(),
            name: name.to_owned(),
            kind,
            outcome,
            image: None,
            wanted: None,
            template: None,
            write: None,
        }
    }

    fn skipped(reason: &str) -> Outcome {
        Outcome::Skipped { code: "x".to_owned(), reason: reason.to_owned(), blocks_skew: false }
    }

    fn failed(message: &str) -> Outcome {
        Outcome::Failed(Failure::new("x", message))
    }

    const NOTHING_KNOWN: BootImageFigures =
        BootImageFigures { sets: BTreeMap::new(), days_behind: None, skew: None, expiring: None };

    fn now(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }

    use ManagedKind::{MachineApiMachineSets as Mapi, MachineDeployments as Deployments};

    #[test]
    fn the_words_of_the_machine_config_operator() {
        let sets = vec![
            set(Mapi, "a", Outcome::Current),
            set(Mapi, "b", failed("no stub")),
            set(Mapi, "c", skipped("its machines run Windows")),
            set(Deployments, "d", Outcome::Waiting("an upgrade".to_owned())),
        ];
        let plan = BootImagePlan { is_on: true, sets, ..BootImagePlan::default() };
        let list = conditions(&plan, &NOTHING_KNOWN, &[], now(1)).unwrap();
        assert_eq!(
            list[0].message,
            "Reconciled 1 of 3 MAPI MachineSets (1 skipped) | Reconciled 0 of 0 ControlPlaneMachineSets | \
             Reconciled 0 of 0 CAPI MachineSets | Reconciled 0 of 1 CAPI MachineDeployments | \
             Waiting: CAPI MachineDeployment d: an upgrade | \
             Skipped: MAPI MachineSet c: its machines run Windows"
        );
        assert_eq!(
            list[1].message,
            "1 Degraded MAPI MachineSets | 0 Degraded ControlPlaneMachineSets | 0 Degraded CAPI MachineSets | \
             0 Degraded CAPI MachineDeployments | Error(s): error syncing MAPI MachineSet b: no stub"
        );
        let states: Vec<_> =
            list.iter().map(|one| (&*one.kind, &*one.status, &*one.reason)).collect();
        let reason = "MAPIMachineSetUpdated";
        assert_eq!(states, [(PROGRESSING, "True", reason), (DEGRADED, "True", reason)]);

        // Unchanged: no write. Another message: the transition time stays.
        assert_eq!(conditions(&plan, &NOTHING_KNOWN, &list, now(2)), None);
        let mut other = plan.clone();
        other.sets[1].outcome = failed("no right");
        let later = conditions(&other, &NOTHING_KNOWN, &list, now(3)).unwrap();
        assert_eq!(later[1].last_transition_time, list[1].last_transition_time);
        other.sets[1].outcome = Outcome::Current;
        let later = conditions(&other, &NOTHING_KNOWN, &list, now(4)).unwrap();
        assert_ne!(later[1].last_transition_time, list[1].last_transition_time);
    }

    #[test]
    fn all_are_listed_as_far_as_the_message_goes() {
        let sets =
            (0..5000).map(|n| set(Mapi, &format!("set-{n:04}"), failed(&format!("cause {n}"))));
        let skips = (0..5000).map(|n| set(Deployments, &format!("d-{n:04}"), skipped("paused")));
        let sets = sets.chain(skips).collect();
        let plan = BootImagePlan { is_on: true, sets, ..BootImagePlan::default() };
        for condition in conditions(&plan, &NOTHING_KNOWN, &[], now(1)).unwrap() {
            let length = condition.message.chars().count();
            assert!(length <= MAX_MESSAGE, "{length}");
            assert!(condition.message.contains(" more"), "{}", condition.kind);
        }
        let message = error_message(&plan);
        assert!(message.contains("set-0000: cause 0, error syncing MAPI MachineSet set-0001"));
    }

    #[test]
    fn old_images_are_named_where_there_is_a_limit() {
        let plan = BootImagePlan { is_on: true, ..BootImagePlan::default() };
        let skew = |too_old: &[&str], unknown| SkewFigures {
            limit: "9.2".to_owned(),
            too_old: too_old.iter().map(|one| (*one).to_owned()).collect(),
            unknown,
        };
        for (what, skew, want) in [
            ("no limit", None, None),
            ("all are new", Some(skew(&[], 0)), Some(("False", ""))),
            (
                "one is old",
                Some(skew(&["a"], 2)),
                Some((
                    "True",
                    "images older than 9.2, from which machines may not reach the cluster's OS: a; 2 sets have an image whose release is not known",
                )),
            ),
        ] {
            let figures = BootImageFigures { skew, ..NOTHING_KNOWN };
            let list = conditions(&plan, &figures, &[], now(1)).unwrap();
            let found = condition(&list, SKEWED).map(|one| (&*one.status, &*one.message));
            assert_eq!(found, want, "{what}");
        }
    }

    #[test]
    fn secrets_whose_ca_expires_are_named_where_one_is_known() {
        let plan = BootImagePlan { is_on: true, ..BootImagePlan::default() };
        let stub = ExpiringStub { secret: "a/b".to_owned(), on: "2027-01-01".to_owned() };
        for (what, expiring, want) in [
            ("none is known", None, None),
            ("all are good", Some(vec![]), Some(("False", "AsExpected", false))),
            ("one expires", Some(vec![stub]), Some(("True", "AuthorityExpires", true))),
        ] {
            let figures = BootImageFigures { expiring, ..NOTHING_KNOWN };
            let list = conditions(&plan, &figures, &[], now(1)).unwrap();
            let found = condition(&list, EXPIRING);
            let named = |one: &Condition| one.message.ends_with("these Secrets: a/b (2027-01-01)");
            let found = found.map(|one| (&*one.status, &*one.reason, named(one)));
            assert_eq!(found, want, "{what}");
            // Opting out removes it.
            let off = conditions(&BootImagePlan::default(), &figures, &list, now(2)).unwrap();
            assert_eq!(condition(&off, EXPIRING), None, "{what}");
        }
    }

    #[test]
    fn nothing_is_reported_where_nothing_was_ever_selected() {
        let off = BootImagePlan::default();
        assert_eq!(conditions(&off, &NOTHING_KNOWN, &[], now(1)), None);
        let on = BootImagePlan { is_on: true, ..BootImagePlan::default() };
        let before = conditions(&on, &NOTHING_KNOWN, &[], now(1)).unwrap();
        let after = conditions(&off, &NOTHING_KNOWN, &before, now(2)).unwrap();
        assert_eq!((&*after[0].reason, &*after[0].status), (NOTHING, "False"));
    }
}
