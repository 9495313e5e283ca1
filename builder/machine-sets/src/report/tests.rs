use std::collections::BTreeMap;

use super::*;
use crate::obstacle::Failure;

fn set(kind: ManagedKind, name: &str, outcome: Outcome) -> SetPlan {
    SetPlan {
        set: name.to_owned(),
        namespace: "machines".to_owned(),
        name: name.to_owned(),
        kind,
        outcome,
        image: None,
        wanted: None,
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
         Waiting: CAPI MachineDeployment machines/d: an upgrade | \
         Skipped: MAPI MachineSet c: its machines run Windows"
    );
    assert_eq!(
        list[1].message,
        "1 Degraded MAPI MachineSets | 0 Degraded ControlPlaneMachineSets | 0 Degraded CAPI MachineSets | \
         0 Degraded CAPI MachineDeployments | Error(s): error syncing MAPI MachineSet b: no stub"
    );
    let states: Vec<_> = list.iter().map(|one| (&*one.kind, &*one.status, &*one.reason)).collect();
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
    let sets = (0..5000).map(|n| set(Mapi, &format!("set-{n:04}"), failed(&format!("cause {n}"))));
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

/// Cluster API has sets in many namespaces.
#[test]
fn sets_of_one_name_are_told_apart() {
    let of = |namespace: &str, outcome| SetPlan {
        namespace: namespace.to_owned(),
        ..set(Deployments, "workers", outcome)
    };
    let namespaces = ["blue", "green"];
    let failing = namespaces.map(|one| of(one, failed("no stub")));
    let paused = namespaces.map(|one| of(one, skipped("it is paused")));
    let sets = failing.into_iter().chain(paused).collect();
    let plan = BootImagePlan { is_on: true, sets, ..BootImagePlan::default() };
    let list = conditions(&plan, &NOTHING_KNOWN, &[], now(1)).unwrap();
    let ends = [
        "Skipped: [CAPI MachineDeployment blue/workers: it is paused, \
         CAPI MachineDeployment green/workers: it is paused]",
        "Error(s): [error syncing CAPI MachineDeployment blue/workers: no stub, \
         error syncing CAPI MachineDeployment green/workers: no stub]",
    ];
    for (condition, end) in list.iter().zip(ends) {
        assert!(condition.message.ends_with(end), "{}", condition.message);
    }
}

#[test]
fn equal_errors_are_listed_once() {
    let cause = |n: usize| failed(&format!("cause {}", n / 2));
    let sets = (0..4).map(|n| set(Mapi, &format!("set-{}", n / 2), cause(n))).collect();
    let plan = BootImagePlan { is_on: true, sets, ..BootImagePlan::default() };
    let message = error_message(&plan);
    for one in 0..2 {
        let error = format!("error syncing MAPI MachineSet set-{one}: cause {one}");
        assert_eq!(message.matches(&error).count(), 1, "{message}");
    }
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
                "images older than 9.2, from which machines may not reach the cluster's OS: a; sets with an image whose release is not known: 2",
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
