//! When a pass is due, and what the condition says.

use std::collections::BTreeSet;

use jiff::{SignedDuration, Timestamp};
use serde_json::json;

use crate::decide::{
    IMAGE_RETENTION_CONDITION, LastPass, PassOutcome, RetentionSnapshot, RetentionState, decide,
};
use crate::judge::{BuiltImage, RetentionFacts};
use mosb_api::cluster_settings::Retention;
use mosb_image::Digest;
use mosb_reconcile::Problem;
use mosb_reconcile::write::{Action, NewStatus};
use mosb_types::ErrorClass;

const NOW: Timestamp = Timestamp::constant(1_000_000_000, 0);
const HOUR: SignedDuration = SignedDuration::from_hours(1);

fn digest(name: &str) -> Digest {
    Digest::of(name.as_bytes())
}

/// A pool with a new image, and old ones.
fn snapshot(old: &[&str]) -> RetentionSnapshot {
    let build = |name: &str, age: i64| BuiltImage {
        build: format!("worker-{name}"),
        digest: digest(name),
        tags: BTreeSet::new(),
        time: NOW - HOUR * i32::try_from(age).unwrap(),
        is_made_here: true,
        prepared: None,
        names: BTreeSet::new(),
        deleting_since: None,
        is_deleted: false,
    };
    let mut builds = vec![build("new", 1)];
    builds.extend(old.iter().map(|name| build(name, 24 * 90)));
    let facts = RetentionFacts {
        builds,
        retention: Retention { keep: 1, days: 30 },
        ..RetentionFacts::default()
    };
    let config = json!({ "metadata": { "name": "worker", "uid": "u" },
        "spec": { "machineConfigPool": { "name": "worker" } } });
    RetentionSnapshot {
        config: serde_json::from_value(config).unwrap(),
        facts: Some(facts),
        last: None,
    }
}

fn last(old: &[&str], ago: SignedDuration, outcome: PassOutcome) -> Option<LastPass> {
    let candidates = old.iter().map(|name| digest(name)).collect();
    Some(LastPass { at: NOW - ago, candidates, outcome, failures: 1 })
}

fn is_pass(snapshot: &RetentionSnapshot) -> bool {
    decide(snapshot, NOW).actions.iter().any(|action| matches!(action, Action::Effect(_)))
}

/// Status and reason of the condition that is written.
fn written(snapshot: &RetentionSnapshot) -> Option<(String, String, String)> {
    decide(snapshot, NOW).actions.iter().find_map(|action| match action {
        Action::ReplaceStatus(_, NewStatus::Whole(status)) => {
            let mut all = status["conditions"].as_array()?.iter();
            let found = all.find(|one| one["type"] == IMAGE_RETENTION_CONDITION)?;
            let text = |field: &str| found[field].as_str().unwrap_or_default().to_owned();
            Some((text("status"), text("reason"), text("message")))
        }
        _ => None,
    })
}

#[test]
fn a_pass_is_due_for_new_candidates_and_daily() {
    let done = |deleted, has_more| PassOutcome::Done { deleted, has_more };
    let held = || PassOutcome::Held("why".to_owned());
    let refused = || PassOutcome::Refused { repository: "r".to_owned(), answer: "405".to_owned() };
    let failed = || {
        PassOutcome::Failed(Problem {
            class: ErrorClass::Transient,
            reason: "timed-out".to_owned(),
            message: "x".to_owned(),
        })
    };
    let minutes = SignedDuration::from_mins;
    for (what, old, last, want) in [
        ("nothing is old", vec![], None, false),
        ("the first", vec!["a"], None, true),
        ("nothing more is old", vec!["a"], last(&["a"], HOUR, done(0, false)), false),
        ("one of them is gone", vec!["a"], last(&["a", "b"], HOUR, done(1, false)), false),
        ("another is old", vec!["a", "b"], last(&["a"], HOUR, done(0, false)), true),
        ("a day later", vec!["a"], last(&["a"], HOUR * 25, done(0, false)), true),
        ("there is more", vec!["a"], last(&["a"], minutes(1), done(10, true)), true),
        ("held", vec!["a"], last(&["a"], minutes(59), held()), false),
        ("held for an hour", vec!["a"], last(&["a"], minutes(61), held()), true),
        ("refused", vec!["a"], last(&["a"], HOUR * 23, refused()), false),
        ("failed, whatever is old", vec!["a", "b"], last(&["a"], minutes(0), failed()), false),
        ("failed a while ago", vec!["a"], last(&["a"], minutes(2), failed()), true),
        ("the clock went back", vec!["a"], last(&["a"], -HOUR, done(0, false)), false),
    ] {
        let snapshot = RetentionSnapshot { last, ..snapshot(&old) };
        assert_eq!(is_pass(&snapshot), want, "{what}");
        assert!(decide(&snapshot, NOW).requeue_after.is_some(), "{what}");
    }
}

#[test]
fn condition_says_how_it_goes_without_digests() {
    assert_eq!(written(&snapshot(&[])).unwrap().0, "True");
    let message = format!("node n has {}", digest("a"));
    let held = RetentionSnapshot {
        last: last(&["a"], HOUR / 2, PassOutcome::Held(message)),
        ..snapshot(&["a"])
    };
    let (status, reason, message) = written(&held).unwrap();
    assert_eq!((&*status, &*reason), ("False", "Held"));
    // It would keep the image.
    assert!(!message.contains("sha256:"), "{message}");
    // A registry that does not answer for a moment changes nothing.
    let problem = |class| Problem {
        class,
        reason: "denied".to_owned(),
        message: "the registry refused it".to_owned(),
    };
    for (class, want) in [(ErrorClass::Transient, None), (ErrorClass::Rejected, Some("Denied"))] {
        let failed = PassOutcome::Failed(problem(class));
        let snapshot = RetentionSnapshot {
            last: last(&["a"], SignedDuration::ZERO, failed),
            ..snapshot(&["a"])
        };
        assert_eq!(written(&snapshot).map(|it| it.1).as_deref(), want, "{class:?}");
    }
}

#[test]
fn without_the_setting_nothing_is_done() {
    let mut off = RetentionSnapshot { facts: None, ..snapshot(&["a"]) };
    let decision = decide(&off, NOW);
    assert_eq!((decision.reason, decision.actions.len()), (RetentionState::Off, 0));
    assert_eq!(decision.requeue_after, None);
    let condition = json!([{ "type": IMAGE_RETENTION_CONDITION, "status": "True" }]);
    off.config.status.conditions = serde_json::from_value(condition).unwrap();
    let decision = decide(&off, NOW);
    assert_eq!(decision.actions.len(), 1, "the condition goes");
    assert_eq!(written(&off), None);
}
