//! Stubs whose CA expires.

use std::collections::BTreeMap;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use jiff::Timestamp;
use serde_json::{Value, json};

use super::fake_cluster::FakeCluster;
use super::openshift::{cluster, set};
use crate::decide::decide;
use crate::figures::{BootImageFigures, figures};
use mosb_cluster::secret_ref::SecretRef;

/// A Secret with a stub whose CA expires on the first day of this year, or that has none.
fn secret(name: &str, year: Option<i32>) -> Value {
    let authorities = year.map(|year| {
        let mut params = rcgen::CertificateParams::default();
        params.not_after = rcgen::date_time_ymd(year, 1, 1);
        let pem = params.self_signed(&rcgen::KeyPair::generate().unwrap()).unwrap().pem();
        json!([{ "source": format!("data:;base64,{}", STANDARD.encode(pem)) }])
    });
    let config = json!({ "ignition": { "version": "3.1.0",
        "security": { "tls": { "certificateAuthorities": authorities } } } });
    json!({ "metadata": { "name": name, "namespace": "machines", "resourceVersion": "1" },
        "data": { "userData": STANDARD.encode(config.to_string()) } })
}

/// The figures at a day, when all lookups have been made, in this pass or an earlier one.
fn figures_at(cluster: &FakeCluster, day: &str, is_remembered: bool) -> BootImageFigures {
    let now: Timestamp = format!("{day}T00:00:00Z").parse().unwrap();
    let mut snapshot = cluster.snapshot();
    for secret in decide(&snapshot, now).lookups {
        let found = BTreeMap::from([(secret.clone(), cluster.secret(&secret))]);
        if is_remembered {
            snapshot.memory.record_stubs(&found, now);
        } else {
            snapshot.stubs.extend(found);
        }
    }
    let plan = decide(&snapshot, now);
    assert_eq!(plan.lookups, [] as [SecretRef; 0]);
    figures(&plan, &snapshot, now)
}

#[test]
fn a_ca_is_reported_90_days_before_its_end() {
    let mut cluster = cluster();
    for name in ["a", "b"] {
        set(&mut cluster, name);
    }
    // They have their image: nothing else needs the stub.
    cluster.publish(super::openshift::OLD, "41.20250105.3.0");
    cluster.secrets.clear();
    for (what, secret, day, want) in [
        ("91 days", secret("worker-user-data", Some(2030)), "2029-10-02", Some(vec![])),
        ("89 days", secret("worker-user-data", Some(2030)), "2029-10-04", Some(vec!["2030-01-01"])),
        ("over", secret("worker-user-data", Some(2030)), "2031-01-01", Some(vec!["2030-01-01"])),
        ("no CA of its own", secret("worker-user-data", None), "2031-01-01", None),
        ("it may not be read", Value::Null, "2031-01-01", None),
    ] {
        cluster.secrets.insert("machines/worker-user-data".to_owned(), secret);
        for is_remembered in [false, true] {
            let found = figures_at(&cluster, day, is_remembered).expiring;
            let found = found
                .map(|all| all.into_iter().map(|one| (one.secret, one.on)).collect::<Vec<_>>());
            let name = || "machines/worker-user-data".to_owned();
            let want = want
                .as_ref()
                .map(|days| days.iter().map(|day| (name(), (*day).to_owned())).collect::<Vec<_>>());
            assert_eq!(found, want, "{what}");
        }
    }
}

#[test]
fn what_nobody_selected_is_not_read() {
    let mut cluster = cluster();
    set(&mut cluster, "a");
    cluster.settings = "{}".to_owned();
    let plan = cluster.decide();
    assert!(plan.lookups.is_empty() && plan.stub_expiries.is_empty());
}
