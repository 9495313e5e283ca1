//! Pools whose machines fetch their config from `mosb serve-ignition`.

use super::fixture::{Fixture, SECRET, TOKEN, image};
use mosb_cluster::user_data_secret::MAX_SECRET_SIZE;
use mosb_image::Digest;
use mosb_plan::payload::gzip;

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
    let cases: [(&str, Change, &str, &str); 6] = [
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
        (
            "more than one pool may take",
            |it| {
                // Not compressible below 32 bytes each.
                let noise = (0..9000_u32).map(|n| Digest::of(&n.to_be_bytes()).hex());
                it.source = format!("data:,{}", noise.collect::<String>());
            },
            "TooLarge",
            "each pool takes at most 262144",
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
