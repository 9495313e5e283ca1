//! What is decided, and what it does to the Secret and the condition.

use serde_json::json;

use super::fixture::{Fixture, SECRET, TOKEN, image, pin, rendered_name};
use mosb_api::labels;
use mosb_reconcile::waits::SECRET_RECHECK;

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
    assert_eq!(decision.requeue_after, Some(SECRET_RECHECK));
    assert_eq!(decision.checked_for, Some(SECRET_RECHECK));
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

/// The history as a roll-out writes it, newest first: builds, and whether a machine ran them well.
fn history(entries: &[(u32, bool)]) -> String {
    let entry = |(number, is_confirmed): &(u32, bool)| {
        let time = "2026-01-01T00:00:00Z";
        json!({ "build": format!("build-{number}"), "image": image(*number).to_string(),
            "config": rendered_name(*number), "since": time,
            "confirmed": is_confirmed.then_some(time) })
    };
    json!(entries.iter().map(entry).collect::<Vec<_>>()).to_string()
}

#[test]
fn new_machines_get_what_a_machine_ran_well() {
    for (what, mode, entries, pinned, want) in [
        ("no record", "automatic", [].as_slice(), None, 2),
        ("nothing ran well yet", "automatic", &[(2, false), (1, false)], None, 2),
        ("the one before did", "automatic", &[(2, false), (1, true)], None, 1),
        ("the newest did, too", "automatic", &[(2, true), (1, true)], None, 2),
        ("only the newest did", "automatic", &[(2, true), (1, false)], None, 2),
        ("without a roll-out", "none", &[(2, false), (1, true)], None, 2),
        ("another one is pinned", "automatic", &[(2, false), (1, true)], Some(2), 2),
    ] {
        let mut fixture = Fixture::new();
        fixture.serve(2);
        fixture.annotate(labels::ROLLOUT, mode);
        fixture.annotate(labels::HISTORY, &history(entries));
        if let Some(number) = pinned {
            fixture.annotate(labels::ROLLOUT_BUILD, &pin(number));
        }
        fixture.pass();
        assert_eq!(pinned_image(&fixture), image(want).to_string(), "{what}");
        let message = &fixture.condition().unwrap().message;
        let newer = format!("; {} of build build-2 is in service, and no machine", image(2));
        assert_eq!(message.contains(&newer), want == 1, "{what}: {message}");
        // It follows the record.
        fixture.annotate(labels::HISTORY, &history(&[(2, true), (1, true)]));
        fixture.pass();
        assert_eq!(pinned_image(&fixture), image(2).to_string(), "{what}");
    }
}

#[test]
fn the_first_to_write_a_secret_keeps_it() {
    let mut fixture = Fixture::new();
    fixture.pass();
    // Somebody names it for another pool.
    fixture.sharing = vec!["infra".to_owned()];
    fixture.serve(2);
    fixture.pass();
    assert_eq!(fixture.reason(), ("True", "Current"));
    assert_eq!(pinned_image(&fixture), image(2).to_string());
    // That pool gets nothing, also without this one.
    let mut other = Fixture { secret: fixture.secret.clone(), ..Fixture::new() };
    other.config.metadata.name = "infra".to_owned();
    other.pass();
    assert_eq!(other.reason(), ("False", "SecretShared"));
    assert_eq!(other.secret, fixture.secret);
    // The MachineOSConfig is created anew.
    fixture.config.metadata.uid = Some("another".to_owned());
    for build in &mut fixture.builds {
        build.metadata.owner_references[0].uid = "another".to_owned();
    }
    fixture.pass();
    assert_eq!(fixture.reason(), ("True", "Current"));
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
    fixture.is_checked = true;
    let decision = fixture.pass();
    assert_eq!(fixture.lookups, []);
    assert_eq!((decision.actions.len(), decision.reason), (0, reason));
    assert_eq!(decision.checked_for, None, "the check before goes on to count");
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
