//! What is decided, and what it does to the Secret and the condition.

use serde_json::json;

use super::fixture::{Fixture, SECRET, TOKEN, image};
use crate::user_data::decide::{RECHECK, REFUSED_REQUEUE, UserDataLookup};
use crate::user_data::user_data_secret::MAX_SECRET_SIZE;
use mosb_plan::api::{condition, labels};
use mosb_plan::payload::gzip;

fn pin(number: u32) -> String {
    format!("build-{number}@{}", image(number).digest())
}

/// The image in the files of a machine.
fn pinned_image(fixture: &Fixture) -> String {
    let config = fixture.ignition();
    let files = config["storage"]["files"].as_array().unwrap();
    let path = "/var/lib/mosb/first-boot/image";
    let file = files.iter().find(|file| file["path"] == path).unwrap();
    let source = file["contents"]["source"].as_str().unwrap();
    let contents = mosb_ignition::parse_data_url(source).unwrap();
    String::from_utf8(contents).unwrap().trim_end().to_owned()
}

#[test]
fn the_secret_has_the_config_of_the_image_in_service_and_is_written_when_it_differs() {
    let mut fixture = Fixture::new();
    let decision = fixture.pass();
    assert_eq!(decision.actions.len(), 2);
    assert_eq!(decision.requeue_after, Some(RECHECK));
    assert_eq!(fixture.reason(), ("True", "Current"));
    let message = &fixture.condition().unwrap().message;
    assert!(message.contains(SECRET) && message.contains(&image(1).to_string()), "{message}");
    assert_eq!(pinned_image(&fixture), image(1).to_string());
    assert_eq!(fixture.value("value"), fixture.value("userData"));
    assert_eq!(fixture.value("format"), Some(&b"ignition"[..]));
    let config = fixture.ignition();
    assert_eq!(config["ignition"]["version"], "3.0.0");
    assert!(config.to_string().contains(TOKEN));

    // It is as it should be.
    assert_eq!(fixture.pass().actions, []);
    // Somebody changed it.
    fixture.secret_mut().data.as_mut().unwrap().remove("format");
    assert_eq!(fixture.pass().actions.len(), 1);
    // Another image is in service.
    fixture.serve(2);
    assert_eq!(fixture.pass().actions.len(), 2);
    assert_eq!(pinned_image(&fixture), image(2).to_string());
    // Other keys stay.
    let data = fixture.secret_mut().data.as_mut().unwrap();
    data.insert("more".to_owned(), k8s_openapi::ByteString(b"x".to_vec()));
    fixture.serve(1);
    fixture.pass();
    assert_eq!(fixture.value("more"), Some(&b"x"[..]));
}

/// The controller ends after any write, and another one goes on.
#[test]
fn a_lost_condition_is_written_again_and_the_secret_is_not() {
    let mut fixture = Fixture::new();
    let before = fixture.config.status.clone();
    fixture.pass();
    fixture.config.status = before;
    let written = fixture.secret.clone();
    assert_eq!(fixture.pass().actions.len(), 1);
    assert_eq!(fixture.reason(), ("True", "Current"));
    assert_eq!(fixture.secret, written);
}

#[test]
fn a_pool_that_is_pinned_to_a_build_gives_that_one_to_new_machines() {
    let mut fixture = Fixture::new();
    fixture.serve(2);
    fixture.annotate(labels::ROLLOUT_BUILD, &pin(1));
    fixture.pass();
    assert_eq!(pinned_image(&fixture), image(1).to_string());
}

#[test]
fn without_changed_inputs_nothing_is_read() {
    let mut fixture = Fixture::new();
    fixture.pass();
    assert_eq!(fixture.lookups.len(), 2);
    let reason = fixture.pass().reason;
    fixture.is_current = true;
    let decision = fixture.pass();
    assert_eq!(fixture.lookups, []);
    assert_eq!((decision.actions.len(), decision.reason), (0, reason));
    // Its condition was lost, so it is not known what the Secret has.
    fixture.config.status.conditions.clear();
    assert_eq!(fixture.pass().actions.len(), 1);
}

#[test]
fn what_machines_lack_or_show_is_in_the_condition() {
    let mut fixture = Fixture { join: None, file: "/etc/pki/tls.key".to_owned(), ..Fixture::new() };
    fixture.pass();
    assert_eq!(fixture.reason(), ("True", "DoesNotJoin"));
    let message = &fixture.condition().unwrap().message;
    for want in ["do not join the cluster: name the Secret", "secrets: /etc/pki/tls.key"] {
        assert!(message.contains(want), "{message}");
    }
}

#[test]
fn every_refusal_has_a_reason_and_leaves_the_secret_as_it_is() {
    type Change = fn(&mut Fixture);
    // What, the change, the reason, a part of the message, and how many lookups it takes.
    let cases: [(&str, Change, &str, &str, usize); 23] = [
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
            "another pool's",
            |it| it.sharing = vec!["infra".to_owned()],
            "SecretShared",
            "MachineOSConfig infra names it too",
            0,
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
            "is no spec version that is read",
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
        assert_eq!(decision.requeue_after, Some(REFUSED_REQUEUE), "{what}");
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
    let secrets = |it: &UserDataLookup| matches!(it, UserDataLookup::Secret(_));
    assert!(fixture.lookups.iter().all(secrets), "{:?}", fixture.lookups);
}

/// A pool whose machines fetch their config.
fn served() -> Fixture {
    Fixture { endpoint: Some("ignition.example.com:8443"), ..Fixture::new() }
}

#[test]
fn with_an_endpoint_the_secret_has_a_stub_and_the_server_has_the_config() {
    let mut whole = Fixture::new();
    whole.pass();
    let mut fixture = served();
    let decision = fixture.pass();
    assert_eq!(fixture.reason(), ("True", "Current"));
    let message = &fixture.condition().unwrap().message;
    let url = "https://ignition.example.com:8443/worker";
    for part in [url, "spec 3.1.0", SECRET, &image(1).to_string()] {
        assert!(message.contains(part), "{message}");
    }
    // The server has it before a machine can ask for it.
    let written: Vec<String> = decision.actions.iter().map(ToString::to_string).collect();
    assert_eq!(
        written[..2],
        [
            "writing secret mosb-ignition/mosb-ignition-server".to_owned(),
            format!("writing secret {SECRET}"),
        ]
    );
    let stub = fixture.ignition();
    assert_eq!(stub["ignition"]["version"], "3.1.0");
    assert_eq!(stub["ignition"]["config"]["replace"]["source"], url);
    assert!(!stub.to_string().contains(TOKEN), "{stub}");
    assert_eq!(fixture.value("value"), fixture.value("userData"));
    let config = gzip::unpacked(fixture.served("worker.ign.gz").unwrap(), 1 << 20).unwrap();
    assert_eq!(config.as_deref(), whole.value("value"));
    // The server has no token.
    let header = &stub["ignition"]["config"]["replace"]["httpHeaders"][0];
    let token = header["value"].as_str().unwrap().strip_prefix("Bearer ").unwrap();
    let tokens = std::str::from_utf8(fixture.served("worker.tokens").unwrap()).unwrap();
    assert!(!tokens.contains(token) && tokens.contains("sha256:"), "{tokens}");

    // Another controller process makes the same.
    assert_eq!(fixture.pass().actions, []);
    // Another image changes what is served, and not the stub.
    let before = fixture.secret.clone();
    for fixture in [&mut fixture, &mut whole] {
        fixture.serve(2);
        fixture.pass();
    }
    assert_eq!(fixture.secret, before);
    let config = gzip::unpacked(fixture.served("worker.ign.gz").unwrap(), 1 << 20).unwrap();
    assert_eq!(config.as_deref(), whole.value("value"));
    // In another period the stub has another token, and the server accepts both.
    fixture.now = "2026-02-15T00:00:00Z".parse().unwrap();
    fixture.pass();
    assert_ne!(fixture.secret, before);
    // Without the endpoint, it is the whole config.
    fixture.endpoint = None;
    fixture.pass();
    assert_eq!(fixture.value("value"), whole.value("value"));
}

#[test]
fn each_pool_has_its_own_config_token_and_url_at_the_server() {
    let mut worker = served();
    worker.pass();
    let mut infra = Fixture { authority: worker.authority.clone(), ..served() };
    infra.config.spec.machine_config_pool.name = "infra".to_owned();
    infra.server.clone_from(&worker.server);
    infra.pass();
    assert_eq!(infra.reason(), ("True", "Current"));
    for key in ["worker.ign.gz", "worker.tokens"] {
        assert_eq!(infra.served(key), worker.served(key), "{key}");
    }
    assert_eq!(infra.served("infra.ign.gz"), worker.served("worker.ign.gz"));
    assert_ne!(infra.served("infra.tokens"), worker.served("worker.tokens"));
    let replace = |fixture: &Fixture| fixture.ignition()["ignition"]["config"]["replace"].clone();
    let (of_infra, of_worker) = (replace(&infra), replace(&worker));
    assert_eq!(of_infra["source"], "https://ignition.example.com:8443/infra");
    assert_ne!(of_infra["httpHeaders"], of_worker["httpHeaders"]);
    // The other pool is as it was.
    worker.server = infra.server;
    assert_eq!(worker.pass().actions, []);
}

/// The controller ends after any write, and another one goes on.
#[test]
fn a_stub_that_was_not_written_is_written_without_another_write_at_the_server() {
    let mut whole = served();
    whole.pass();
    for (what, lost, writes) in [("the stub", 1, 2), ("all", 2, 3)] {
        let mut fixture = served();
        fixture.authority.clone_from(&whole.authority);
        if lost < 2 {
            fixture.server.clone_from(&whole.server);
        }
        assert_eq!(fixture.pass().actions.len(), writes, "{what}");
        assert_eq!((&fixture.secret, &fixture.server), (&whole.secret, &whole.server), "{what}");
    }
}

#[test]
fn without_a_server_the_secret_stays_as_it_is() {
    type Change = fn(&mut Fixture);
    let cases: [(&str, Change, &str, &str); 5] = [
        ("no authority", |it| it.authority = None, "NoServer", "apply deploy/ignition-server"),
        ("no server", |it| it.server = None, "NoServer", "apply deploy/ignition-server"),
        (
            "no CA yet",
            |it| it.authority.as_mut().unwrap().data = None,
            "NoServer",
            "within a minute",
        ),
        (
            "somebody else's Secret",
            |it| it.server.as_mut().unwrap().metadata.labels = None,
            "NoServer",
            "not the one of deploy/ignition-server",
        ),
        (
            "other pools' configs",
            |it| {
                let large = k8s_openapi::ByteString(vec![b'x'; MAX_SECRET_SIZE]);
                it.server.as_mut().unwrap().data = Some([("a.ign.gz".to_owned(), large)].into());
            },
            "TooLarge",
            "with the configs of all pools, would have",
        ),
    ];
    for (what, change, reason, part) in cases {
        let mut fixture = served();
        change(&mut fixture);
        let before = (fixture.secret.clone(), fixture.server.clone());
        fixture.pass();
        assert_eq!(fixture.reason(), ("False", reason), "{what}");
        let message = &fixture.condition().unwrap().message;
        assert!(message.contains(part), "{what}: {message}");
        assert_eq!((fixture.secret.clone(), fixture.server.clone()), before, "{what}");
        assert_eq!(fixture.pass().actions, [], "{what}");
    }
}
