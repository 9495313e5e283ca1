//! When the Secret stays as it is, and what the condition then shows.

use serde_json::json;

use super::fixture::{Fixture, TOKEN, pin};
use crate::snapshot::Lookup;
use mosb_api::{condition, labels};
use mosb_cluster::user_data_secret::MAX_SECRET_SIZE;
use mosb_reconcile::waits::SECRET_REFUSED;

#[test]
fn every_refusal_has_a_reason_and_leaves_the_secret_as_it_is() {
    type Change = fn(&mut Fixture);
    // What, the change, the reason, a part of the message, and how many lookups it takes.
    let cases: [(&str, Change, &str, &str, usize); 25] = [
        (
            "a Machine Config Operator",
            |it| it.other_controller = Some("Deployment x/machine-config-controller".to_owned()),
            "OtherController",
            "Deployment x/machine-config-controller makes the user data",
            0,
        ),
        ("no value", |it| it.annotate(labels::USER_DATA, ""), "BadAnnotation", "there is no /", 0),
        (
            "no namespace",
            |it| it.annotate(labels::USER_DATA, "worker"),
            "BadAnnotation",
            "set NAMESPACE/NAME",
            0,
        ),
        (
            "two for the pool",
            |it| it.rivals = vec!["other".to_owned()],
            "Rivals",
            "for pool worker: worker, other; delete all but one",
            0,
        ),
        (
            "named by two, and of none",
            |it| it.sharing = vec!["infra".to_owned()],
            "SecretShared",
            "MachineOSConfig infra names it too",
            1,
        ),
        (
            "another pool's",
            |it| {
                let owner = (labels::USER_DATA_OWNER.to_owned(), "infra/uid".to_owned());
                it.secret_mut().metadata.annotations = Some([owner].into());
            },
            "SecretShared",
            "it has the user data of MachineOSConfig infra; name another one",
            1,
        ),
        (
            "nothing in service",
            |it| {
                it.config.status.current_image_pull_spec.clear();
                it.config.status.machine_os_build = None;
            },
            "NoImage",
            "no image of pool worker",
            0,
        ),
        (
            "an image of somebody else",
            |it| it.config.metadata.uid = Some("other".to_owned()),
            "ImageNotOurs",
            "not controlled",
            0,
        ),
        (
            "pinned to nothing",
            |it| it.annotate(labels::ROLLOUT_BUILD, &pin(9)),
            "PinNotFound",
            "choose one",
            0,
        ),
        (
            "pinned to the stock image",
            |it| it.annotate(labels::ROLLOUT_BUILD, &pin(1).replace("build-1", "stock")),
            "PinnedToStock",
            "mosb rollout start",
            0,
        ),
        (
            "a pin that can't be read",
            |it| it.annotate(labels::ROLLOUT_BUILD, "x"),
            "BadAnnotation",
            "there is no digest",
            0,
        ),
        (
            "the Secret that the server mounts",
            |it| it.annotate(labels::USER_DATA, "mosb-ignition/mosb-ignition-server"),
            "BadAnnotation",
            "is one of mosb serve-ignition",
            0,
        ),
        (
            "the Secret of its CA",
            |it| it.annotate(labels::USER_DATA, "mosb-system/mosb-ignition-authority"),
            "BadAnnotation",
            "is one of mosb serve-ignition",
            0,
        ),
        (
            "settings that can't be read, which may name an endpoint",
            |it| it.unreadable_settings = Some("configmap mosb-config: not YAML".to_owned()),
            "InputsUnreadable",
            "configmap mosb-config: not YAML",
            1,
        ),
        ("no Secret", |it| it.secret = None, "NoSecret", "create it without data", 1),
        (
            "no label",
            |it| it.secret_mut().metadata.labels = None,
            "NotLabelled",
            "label it if it is for user data",
            1,
        ),
        (
            "another label",
            |it| {
                let other = ("mosb.dev/pull-secret".to_owned(), "true".to_owned());
                it.secret_mut().metadata.labels = Some([other].into());
            },
            "NotLabelled",
            labels::USER_DATA,
            1,
        ),
        (
            "being deleted",
            |it| {
                let now = json!("2026-01-01T00:00:00Z");
                it.secret_mut().metadata.deletion_timestamp = serde_json::from_value(now).unwrap();
            },
            "NoSecret",
            "being deleted",
            1,
        ),
        (
            "immutable",
            |it| it.secret_mut().immutable = Some(true),
            "Immutable",
            "create it anew",
            2,
        ),
        (
            "too large with what is there",
            |it| {
                let large = k8s_openapi::ByteString(vec![b'x'; MAX_SECRET_SIZE - 100]);
                it.secret_mut().data = Some([("more".to_owned(), large)].into());
            },
            "TooLarge",
            "a Secret takes 1048576",
            2,
        ),
        (
            "a config of its own that is no JSON",
            |it| it.join = Some(format!("{TOKEN}: {{")),
            "BadJoinConfig",
            "secret mosb-system/join: ignition: line 1, column 1: not JSON",
            2,
        ),
        (
            "one that is not valid",
            |it| it.join = Some(json!({ "ignition": { "version": "9.0.0" } }).to_string()),
            "BadJoinConfig",
            "is not a spec version that is read",
            2,
        ),
        (
            "one that discards ours",
            |it| {
                let replace = json!({ "source": format!("https://{TOKEN}.example.com/") });
                let config =
                    json!({ "ignition": { "version": "3.2.0", "config": { "replace": replace } } });
                it.join = Some(config.to_string());
            },
            "BadJoinConfig",
            "ignition.config.replace would discard",
            2,
        ),
        (
            "a login that pushes",
            |it| it.push_login = Some("push".to_owned()),
            "PushLogin",
            "secret push pushes with",
            2,
        ),
        (
            "a config that is too large",
            |it| {
                let large = format!("data:,{}", "x".repeat(MAX_SECRET_SIZE / 2));
                let file = json!({ "path": "/var/large", "contents": { "source": large } });
                let config =
                    json!({ "ignition": { "version": "3.2.0" }, "storage": { "files": [file] } });
                it.join = Some(config.to_string());
            },
            "TooLarge",
            "the config is in it twice",
            2,
        ),
    ];
    for (what, change, reason, part, lookups) in cases {
        let mut fixture = Fixture::new();
        change(&mut fixture);
        let before = fixture.secret.clone();
        let decision = fixture.pass();
        assert_eq!(fixture.reason(), ("False", reason), "{what}");
        let message = &fixture.condition().unwrap().message;
        assert!(message.contains(part) && !message.contains(TOKEN), "{what}: {message}");
        assert_eq!(fixture.secret, before, "{what}");
        assert_eq!(fixture.lookups.len(), lookups, "{what}: {:?}", fixture.lookups);
        assert_eq!(decision.requeue_after, Some(SECRET_REFUSED), "{what}");
        // The same refusal is written once.
        assert_eq!(fixture.pass().actions, [], "{what}");
    }
}

#[test]
fn a_refusal_ends_and_the_others_conditions_stay() {
    let mut fixture = Fixture { secret: None, ..Fixture::new() };
    let others =
        json!([{ "type": "Blocked", "status": "False", "reason": "AsExpected", "message": "" }]);
    fixture.config.status.conditions = serde_json::from_value(others).unwrap();
    fixture.pass();
    assert_eq!(fixture.reason(), ("False", "NoSecret"));
    fixture.secret = Fixture::new().secret;
    fixture.pass();
    assert_eq!(fixture.reason(), ("True", "Current"));
    // Without the annotation the Secret is nobody's concern, and stays.
    let before = fixture.secret.clone();
    fixture.config.metadata.annotations.clear();
    fixture.pass();
    assert!(fixture.lookups.is_empty() && fixture.condition().is_none());
    assert_eq!(fixture.secret, before);
    assert!(condition(&fixture.config.status.conditions, "Blocked").is_some());
    assert_eq!(fixture.pass().actions, []);
}

#[test]
fn a_secret_that_may_not_be_written_costs_no_other_request() {
    let mut fixture = Fixture::new();
    fixture.secret_mut().metadata.labels = None;
    fixture.pass();
    let secrets = |it: &Lookup| matches!(it, Lookup::Secret(_));
    assert!(fixture.lookups.iter().all(secrets), "{:?}", fixture.lookups);
}
