//! OpenShift's sets follow the images of the release that the cluster runs.

use std::sync::Arc;
use std::time::Duration;

use serde_json::json;

use super::openshift::{NEW, OLD, cluster, codes, set, spec, stub_secret};
use crate::BootImageReconciler;
use mosb_cluster::cluster_cache::BootImageKind::ClusterVersion;
use mosb_cluster::cluster_cache::ClusterCache;
use mosb_cluster::resolver::{LookupLimits, Resolver};
use mosb_reconcile::driver::Reconciler as _;
use mosb_reconcile::fake_api::{FakeAnswer, FakeApi};
use mosb_reconcile::watch::WatchState;
use mosb_reconcile::write::Executor;

#[test]
fn nothing_changes_during_an_upgrade_or_from_a_newer_release() {
    for (what, history, want) in [
        ("under way", json!([{ "state": "Partial", "version": "4.18.3" }]), "waiting"),
        (
            "older than the images",
            json!([{ "state": "Completed", "version": "4.18.2" }]),
            "waiting",
        ),
        ("without a history", json!([]), "waiting"),
        (
            "newer than the images",
            json!([{ "state": "Completed", "version": "4.18.4" }]),
            "current",
        ),
    ] {
        let mut cluster = cluster();
        stub_secret(&mut cluster, "worker-user-data", "3.2.0", "worker");
        set(&mut cluster, "a");
        cluster.edit(ClusterVersion, "version", |one| one["status"]["history"] = history);
        assert_eq!(codes(&cluster.settle()), [want], "{what}");
    }
}

/// The operator writes the stamp once a node runs the release, so it is the later of the two.
#[test]
fn nothing_changes_from_a_release_that_the_operator_or_the_release_itself_does_not_vouch_for() {
    for (what, release, stamp, want, part) in [
        ("stamped as it is", Some("4.18.3"), Some("4.18.3"), "current", ""),
        ("the stamp is newer", Some("4.18.3"), Some("4.18.4"), "waiting", "are of 4.18.4"),
        ("the stamp is older", Some("4.18.4"), Some("4.18.3"), "current", ""),
        ("only the stamp", None, Some("4.18.3"), "current", ""),
        ("only a newer stamp", None, Some("4.18.4"), "waiting", "are of 4.18.4"),
        ("neither", None, None, "waiting", "has no releaseVersion"),
        ("an empty one", Some(" "), None, "waiting", "has no releaseVersion"),
        (
            "not comparable",
            Some("0.0.1-snapshot"),
            Some("41.20250105.3.0"),
            "waiting",
            "can't be compared",
        ),
    ] {
        let mut cluster = cluster();
        stub_secret(&mut cluster, "worker-user-data", "3.2.0", "worker");
        set(&mut cluster, "a");
        let golden = cluster.golden.as_object_mut().unwrap();
        golden.remove("releaseVersion");
        let keys = [
            ("releaseVersion", release),
            ("MCOReleaseImageVersion", stamp),
            ("MCOVersionHash", stamp),
        ];
        for (key, value) in keys {
            golden.extend(value.map(|value| (key.to_owned(), json!(value))));
        }
        let plan = cluster.settle();
        assert_eq!(codes(&plan), [want], "{what}");
        let reason = plan.sets[0].outcome.reason();
        assert!(reason.contains(part), "{what}: {reason}");
        let image = if want == "current" { NEW } else { OLD };
        assert_eq!(spec(&cluster, "a")["disks"][0]["image"], image, "{what}");
    }
}

/// What is new may be unseen. One that failed is named in the status of the sets.
#[tokio::test]
async fn a_pass_waits_for_watches_that_list() {
    let api = FakeApi::new(|_| FakeAnswer::Never);
    let cache = Arc::new(ClusterCache::empty("ns"));
    let resolver = Resolver {
        client: api.client.clone(),
        cache: Arc::clone(&cache),
        registries: Arc::default(),
        limits: Arc::new(LookupLimits::new(Duration::from_secs(1))),
    };
    let executor = Executor::from(&api);
    let reconciler = BootImageReconciler::new(resolver, executor, Arc::default());
    for (what, state, waits) in [
        ("listing", WatchState::Listing, true),
        ("current", WatchState::Current, false),
        ("broken", WatchState::Broken { listed: true, why: "away".to_owned() }, false),
        ("not served", WatchState::NotServed, false),
    ] {
        cache.boot_images.watch_health.set("machinesets", state, true);
        assert_eq!(reconciler.prepare("").await.is_some(), waits, "{what}");
    }
}
