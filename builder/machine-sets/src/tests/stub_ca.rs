//! `bootImages.userDataTrustBundle`: a stub gets another CA before the image, if its owner says so.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use k8s_openapi::ByteString;
use serde_json::{Value, json};

use super::fake_cluster::{ALL, FakeCluster};
use super::openshift::{NEW, OLD, cluster, codes, set, spec, stub_secret};

const SECRET: &str = "machines/worker-user-data";

fn authority() -> String {
    let key = rcgen::KeyPair::generate().unwrap();
    rcgen::CertificateParams::default().self_signed(&key).unwrap().pem()
}

/// A cluster with one set, whose Secret has a stub of this version with this CA.
fn with_stub(version: &str, ca: &str, annotation: Option<&str>) -> FakeCluster {
    let mut cluster = cluster();
    set(&mut cluster, "a");
    stub_secret(&mut cluster, "worker-user-data", version, "worker");
    let mut stub = stub_of(&cluster);
    let source = format!("data:;base64,{}", STANDARD.encode(ca));
    stub["ignition"]["security"] =
        json!({ "tls": { "certificateAuthorities": [{ "source": source }] } });
    let object = cluster.secrets.get_mut(SECRET).unwrap();
    object["data"]["userData"] = json!(ByteString(stub.to_string().into_bytes()));
    object["metadata"]["annotations"] =
        annotation.map_or(json!({}), |value| json!({ "mosb.dev/user-data-ca": value }));
    cluster
}

fn trust(cluster: &mut FakeCluster, bundle: &str) {
    cluster.settings = format!("{ALL}, userDataTrustBundle: {bundle:?}}}");
}

fn stub_of(cluster: &FakeCluster) -> Value {
    let data = &cluster.secrets[SECRET]["data"]["userData"];
    let ByteString(bytes) = serde_json::from_value(data.clone()).unwrap();
    serde_json::from_slice(&bytes).unwrap()
}

fn ca_of(cluster: &FakeCluster) -> String {
    let stub = stub_of(cluster);
    let list = &stub["ignition"]["security"]["tls"]["certificateAuthorities"];
    let (_, text) = list[0]["source"].as_str().unwrap().split_once(',').unwrap();
    String::from_utf8(STANDARD.decode(text).unwrap()).unwrap()
}

#[test]
fn a_ca_that_is_not_current_is_replaced_before_the_image_where_the_secret_says_so() {
    let (old, new) = (authority(), authority());
    let both = format!("{old}{new}");
    for (what, version, annotation, bundle, want) in [
        ("another CA", "3.2.0", Some("true"), Some(&new), &new),
        ("one of them", "3.2.0", Some("true"), Some(&both), &old),
        ("nobody said so", "3.2.0", None, Some(&new), &old),
        ("somebody said no", "3.2.0", Some("false"), Some(&new), &old),
        ("no CAs in the settings", "3.2.0", Some("true"), None, &old),
        ("converted, too", "2.2.0", Some("true"), Some(&new), &new),
        ("converted only", "2.2.0", None, Some(&new), &old),
    ] {
        let mut cluster = with_stub(version, &old, annotation);
        if let Some(bundle) = bundle {
            trust(&mut cluster, bundle);
        }
        let plan = cluster.settle();
        assert_eq!(codes(&plan), ["current"], "{what}");
        assert_eq!(spec(&cluster, "a")["disks"][0]["image"], NEW, "{what}");
        assert_eq!(ca_of(&cluster), *want, "{what}");
        let stub = stub_of(&cluster);
        assert!(stub["ignition"]["version"].as_str().unwrap().starts_with("3."), "{what}");
        // One write of the Secret, and it comes before the image.
        let at = |start: &str| cluster.writes.iter().position(|write| write.starts_with(start));
        let writes = cluster.writes.iter().filter(|write| write.starts_with("secret"));
        let is_written = version == "2.2.0" || want == &new;
        assert_eq!(writes.count(), usize::from(is_written), "{what}: {:?}", cluster.writes);
        assert!(at("secret") < at("boot image of"), "{what}: {:?}", cluster.writes);
        let annotations = &cluster.secrets[SECRET]["metadata"]["annotations"];
        let upgraded = &annotations["machineconfiguration.openshift.io/stub-ignition-upgraded-to"];
        assert_eq!(upgraded.is_string(), version == "2.2.0", "{what}");
    }
}

#[test]
fn settings_without_a_certificate_change_nothing() {
    let old = authority();
    let mut cluster = with_stub("3.2.0", &old, Some("true"));
    trust(&mut cluster, "-----BEGIN CERTIFICATE-----\naGk=\n-----END CERTIFICATE-----\n");
    let plan = cluster.settle();
    assert_eq!(codes(&plan), ["stub-authority"]);
    let reason = plan.sets[0].outcome.reason();
    assert!(reason.contains("bootImages.userDataTrustBundle"), "{reason}");
    assert_eq!((ca_of(&cluster), &spec(&cluster, "a")["disks"][0]["image"]), (old, &json!(OLD)));
}

/// A tool or a webhook keeps the Secret as it was.
#[test]
fn a_secret_that_another_writer_puts_back_is_written_once() {
    let (old, new) = (authority(), authority());
    for (version, bundle) in [("3.2.0", Some(&new)), ("2.2.0", None)] {
        let mut cluster = with_stub(version, &old, Some("true"));
        set(&mut cluster, "b");
        if let Some(bundle) = bundle {
            trust(&mut cluster, bundle);
        }
        let before = cluster.secrets.clone();
        let mut plan = cluster.pass(usize::MAX);
        for _ in 0..20 {
            plan = cluster.pass(usize::MAX);
            cluster.secrets.clone_from(&before);
        }
        let writes = cluster.writes.iter().filter(|write| write.starts_with("secret"));
        assert_eq!(writes.count(), 1, "{version}");
        assert_eq!(codes(&plan), ["stub-not-kept"; 2], "{version}");
        let reason = plan.sets[1].outcome.reason();
        assert!(reason.contains(SECRET) && reason.contains("another writer"), "{reason}");
        assert_eq!(spec(&cluster, "a")["disks"][0]["image"], OLD, "{version}");
        // Another CA is another write.
        if bundle.is_some() {
            trust(&mut cluster, &authority());
            let plan = cluster.settle();
            assert_eq!(codes(&plan), ["current"; 2]);
        }
    }
}

#[test]
fn a_secret_that_sets_share_is_refused_once_for_all_of_them() {
    let mut cluster = with_stub("2.2.0", &authority(), None);
    set(&mut cluster, "b");
    // The records.
    for _ in 0..2 {
        cluster.pass(usize::MAX);
    }
    cluster.refused.insert("a".to_owned());
    cluster.pass(usize::MAX);
    assert_eq!(codes(&cluster.pass(usize::MAX)), ["no-right"; 2]);
    assert!(!cluster.writes.iter().any(|write| write.starts_with("secret")));
}
