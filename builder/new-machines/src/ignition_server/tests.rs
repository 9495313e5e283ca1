//! What is decided about the server's Secrets, with real keys and certificates.

use std::collections::BTreeMap;

use jiff::Timestamp;
use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::Secret as SecretResource;
use kube::runtime::watcher::Event;
use serde_json::json;

use super::{ServerKeys, authority_secret, server_secret};
use crate::decide::{Decision, decide};
use crate::effect::Action;
use crate::evaluation::Reason;
use crate::lookups::generate;
use crate::observe::{affected_keys, observe, server_key};
use crate::snapshot::{Lookup, LookupResults, Server, Snapshot, Subject};
use mosb_api::labels;
use mosb_cluster::cluster_cache::{ClusterCache, ManagedObject, Trigger};
use mosb_cluster::secret_ref::SecretRef;
use mosb_cluster::user_data_secret::{FoundSecret, UserDataSecret};
use mosb_ignition_server::{CertificateInfo, config_key, tokens_key};
use mosb_types::Secret;

const NOW: &str = "2026-11-25T10:00:00Z";

/// The two Secrets of `deploy/ignition-server`, and what the settings and MachineOSConfigs ask for.
struct Fixture {
    now: Timestamp,
    endpoint: Option<&'static str>,
    pools: Vec<&'static str>,
    secrets: BTreeMap<SecretRef, SecretResource>,
    /// The Secrets that were written in the last pass, in order.
    written: Vec<String>,
    lookups: Vec<Lookup>,
    is_checked: bool,
}

impl Fixture {
    fn new() -> Self {
        let empty = |secret: SecretRef| {
            let object = json!({ "metadata": { "name": secret.name(), "uid": "u",
                "resourceVersion": "7", "labels": { labels::USER_DATA: "" } } });
            (secret, serde_json::from_value(object).unwrap())
        };
        Self {
            now: NOW.parse().unwrap(),
            endpoint: Some("ignition.example.com:8443"),
            pools: vec!["worker"],
            secrets: [authority_secret("mosb-system"), server_secret()].map(empty).into(),
            written: Vec::new(),
            lookups: Vec::new(),
            is_checked: false,
        }
    }

    /// One pass: decides with all lookups, and applies the actions.
    fn pass(&mut self) -> Decision {
        let mut snapshot = Snapshot {
            namespace: "mosb-system".to_owned(),
            endpoint: Ok(self.endpoint.map(|text| text.to_owned().try_into().unwrap())),
            subject: Subject::Server(Server {
                pools: self.pools.iter().map(|pool| (*pool).to_owned()).collect(),
                authority_version: Some("7".to_owned()),
            }),
            is_checked: self.is_checked,
            lookup_results: LookupResults::default(),
        };
        self.lookups.clear();
        let decision = loop {
            let decision = decide(&snapshot, self.now);
            let [lookup] = &*decision.lookups else { break decision };
            assert!(decision.actions.is_empty());
            self.lookups.push(lookup.clone());
            assert!(self.lookups.len() <= 4, "{:?}", self.lookups);
            match lookup {
                Lookup::Secret(secret) => {
                    let found = match self.secrets.get(secret).cloned() {
                        Some(found) => FoundSecret::Found(Box::new(Secret::new(found.into()))),
                        None => FoundSecret::Missing,
                    };
                    snapshot.lookup_results.secrets.insert(secret.clone(), found);
                }
                other => generate(other, &mut snapshot, self.now).unwrap(),
            }
        };
        let shown = format!("{:?} {snapshot:?}", (&decision.actions, &decision.reason));
        assert!(!shown.contains("PRIVATE KEY"), "{shown}");
        self.written.clear();
        for action in &decision.actions {
            let Action::Effect(write) = action else { panic!("{action}") };
            self.written.push(write.secret.name().to_owned());
            let object = write.object.expose().0.clone();
            let before = self.secrets.insert(write.secret.clone(), object.clone());
            assert_eq!(object.metadata, before.expect("a Secret is not created").metadata);
        }
        decision
    }

    fn server(&self) -> UserDataSecret {
        self.secrets[&server_secret()].clone().into()
    }

    fn keys(&self) -> ServerKeys {
        let secret = self.secrets[&authority_secret("mosb-system")].clone().into();
        ServerKeys::in_secret(&secret).unwrap()
    }

    fn certificate(&self) -> CertificateInfo {
        CertificateInfo::from_json(self.server().value("tls.json").unwrap()).unwrap()
    }

    fn set(&mut self, secret: &SecretRef, key: &str, value: &[u8]) {
        let data = self.secrets.get_mut(secret).unwrap().data.get_or_insert_default();
        data.insert(key.to_owned(), ByteString(value.to_vec()));
    }

    fn add_pool(&mut self, pool: &str) {
        for key in [config_key(pool), tokens_key(pool)] {
            self.set(&server_secret(), &key, b"x");
        }
    }

    fn later(&mut self, days: i64) {
        self.now = Timestamp::from_second(self.now.as_second() + days * 24 * 3600).unwrap();
    }
}

const AUTHORITY: &str = "mosb-ignition-authority";
const SERVER: &str = "mosb-ignition-server";

#[test]
fn keys_and_certificate_are_made_once_and_stay() {
    let mut fixture = Fixture::new();
    let decision = fixture.pass();
    assert_eq!(fixture.written, [AUTHORITY, SERVER], "first the CA, then what it issued");
    assert!(decision.requeue_after.is_some() && decision.checked_for.is_some());
    assert_eq!(fixture.certificate().host, "ignition.example.com");
    let keys = fixture.keys();
    let server = fixture.server();
    let private = server.value("tls.key").unwrap();
    assert_ne!(private, keys.authority.key.expose().as_bytes(), "the server has no key of the CA");
    assert_eq!(server.value("ca.key"), None);
    fixture.pass();
    assert_eq!(fixture.written, [""; 0]);
    assert_eq!((fixture.keys(), fixture.lookups.len()), (keys.clone(), 2));
    // An event without a change of the inputs.
    fixture.is_checked = true;
    assert_eq!(fixture.pass().reason, decision.reason);
    assert_eq!(fixture.lookups, []);
    fixture.is_checked = false;

    // The controller ended between the two writes.
    fixture.secrets.insert(server_secret(), Fixture::new().secrets[&server_secret()].clone());
    fixture.pass();
    assert_eq!(fixture.written, [SERVER]);
    assert_eq!(fixture.keys(), keys);
}

#[test]
fn certificates_are_renewed_before_they_end_and_stay_with_their_authority() {
    let mut fixture = Fixture::new();
    fixture.pass();
    let (keys, first) = (fixture.keys(), fixture.certificate());
    fixture.later(55);
    fixture.pass();
    assert_eq!(fixture.written, [""; 0]);
    fixture.later(10);
    fixture.pass();
    assert_eq!(fixture.written, [SERVER]);
    assert!(fixture.certificate().not_after > first.not_after);
    assert_eq!(fixture.keys(), keys);

    // The CA is replaced in its last year, and its token key is not.
    fixture.later(9 * 366);
    fixture.pass();
    assert_eq!(fixture.written, [AUTHORITY, SERVER]);
    assert_ne!(fixture.keys().authority, keys.authority);
    assert_eq!(fixture.keys().tokens, keys.tokens);
}

#[test]
fn what_was_made_while_the_clock_was_wrong_is_made_anew() {
    for (what, days, want) in [
        ("a certificate was renewed too early", 70, &[SERVER][..]),
        ("a CA was made too early", 10 * 366, &[AUTHORITY, SERVER]),
    ] {
        let mut fixture = Fixture::new();
        fixture.pass();
        fixture.later(days);
        fixture.pass();
        assert_eq!(fixture.written, want, "{what}");
        fixture.later(-days);
        fixture.pass();
        assert_eq!(fixture.written, want, "{what}");
        let (authority, certificate) = (fixture.keys().authority, fixture.certificate());
        assert!(authority.is_good(fixture.now), "{what}: {authority:?}");
        assert_eq!(certificate.not_before, "2026-11-24T00:00:00Z", "{what}");
        fixture.pass();
        assert_eq!(fixture.written, [""; 0], "{what}");
    }
}

#[test]
fn what_is_missing_or_does_not_fit_is_made_anew() {
    type Change = fn(&mut Fixture);
    let cases: [(&str, Change, &[&str]); 6] = [
        ("another endpoint", |it| it.endpoint = Some("192.0.2.1"), &[SERVER]),
        ("the same host", |it| it.endpoint = Some("ignition.example.com"), &[]),
        ("no key", |it| it.set(&server_secret(), "tls.key", b""), &[SERVER]),
        ("another certificate", |it| it.set(&server_secret(), "tls.crt", b"x"), &[SERVER]),
        (
            "no token key",
            |it| it.set(&authority_secret("mosb-system"), "token.key", b"short"),
            &[AUTHORITY],
        ),
        (
            "an emptied CA",
            |it| it.secrets.get_mut(&authority_secret("mosb-system")).unwrap().data = None,
            &[AUTHORITY, SERVER],
        ),
    ];
    for (what, change, want) in cases {
        let mut fixture = Fixture::new();
        fixture.pass();
        change(&mut fixture);
        fixture.pass();
        assert_eq!(fixture.written, want, "{what}");
        fixture.pass();
        assert_eq!(fixture.written, [""; 0], "{what}");
    }
}

#[test]
fn a_pool_without_user_data_is_removed_also_if_it_is_the_last_one() {
    let mut fixture = Fixture { pools: vec!["worker", "infra"], ..Fixture::new() };
    fixture.pass();
    let certificate = fixture.certificate();
    for pool in ["worker", "infra", "left"] {
        fixture.add_pool(pool);
    }
    fixture.set(&server_secret(), "mine", b"stays");
    let pools = |fixture: &Fixture| {
        let server = fixture.server();
        let is_there = |pool: &&str| {
            let keys = [config_key(pool), tokens_key(pool)];
            let there = keys.map(|key| server.value(&key).is_some());
            assert_eq!(there[0], there[1], "{pool}");
            there[0]
        };
        ["worker", "infra", "left"].into_iter().filter(is_there).collect::<Vec<_>>()
    };
    fixture.pass();
    assert_eq!(pools(&fixture), ["worker", "infra"]);
    fixture.pools = vec!["infra"];
    fixture.pass();
    assert_eq!(pools(&fixture), ["infra"]);
    fixture.pools.clear();
    fixture.pass();
    assert_eq!(pools(&fixture), [""; 0]);
    // Without an endpoint, nothing is served either.
    fixture.add_pool("worker");
    fixture.pools = vec!["worker"];
    fixture.endpoint = None;
    let decision = fixture.pass();
    assert_eq!((pools(&fixture), decision.reason), (vec![], Reason::NothingServed));
    assert_eq!(fixture.server().value("mine"), Some(&b"stays"[..]));
    assert_eq!(fixture.certificate(), certificate);
}

#[test]
fn a_secret_that_is_not_ours_stays_as_it_is() {
    type Change = fn(&mut SecretResource);
    for secret in [authority_secret("mosb-system"), server_secret()] {
        let cases: [(&str, Change, &str); 3] = [
            ("no label", |it| it.metadata.labels = None, "not the one of deploy/ignition-server"),
            ("immutable", |it| it.immutable = Some(true), "immutable"),
            (
                "full",
                |it| it.data = Some([("a".to_owned(), ByteString(vec![0; 1 << 20]))].into()),
                "a Secret takes 1048576",
            ),
        ];
        for (what, change, part) in cases {
            let mut fixture = Fixture::new();
            change(fixture.secrets.get_mut(&secret).unwrap());
            let decision = fixture.pass();
            let Reason::Refused(refusal) = &decision.reason else {
                panic!("{secret}: {what}: {decision:?}");
            };
            let message = &refusal.message;
            assert!(message.contains(part) && message.contains(secret.name()), "{message}");
            assert_eq!(decision.actions, [], "{secret}: {what}");
        }
        let mut fixture = Fixture::new();
        fixture.secrets.remove(&secret);
        let decision = fixture.pass();
        assert!(decision.reason.to_string().contains("deploy/ignition-server"), "{decision:?}");
    }
}

#[test]
fn without_the_secret_of_the_authority_nothing_is_done() {
    let cache = ClusterCache::empty("mosb-system");
    assert!(observe(&cache, &server_key()).is_none());
    let object = ManagedObject {
        name: AUTHORITY.to_owned(),
        uid: "u".to_owned(),
        resource_version: Some("1".to_owned()),
        config: None,
        build: None,
        workload: None,
        ephemeral: false,
        deleting: false,
    };
    cache.secrets.apply_event(Event::Apply((AUTHORITY.to_owned(), object)));
    assert!(observe(&cache, &server_key()).is_some());
    let config = || "worker".to_owned();
    for (trigger, want) in [
        (Trigger::All, true),
        (Trigger::Config(config(), config()), true),
        (Trigger::Secret(AUTHORITY.to_owned()), true),
        (Trigger::Secret("join".to_owned()), false),
        (Trigger::Pool(config()), false),
    ] {
        assert_eq!(affected_keys(&cache, &trigger).contains(&server_key()), want, "{trigger:?}");
    }
}
