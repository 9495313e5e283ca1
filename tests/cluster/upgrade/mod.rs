//! Objects that an earlier mosb left in a cluster are taken over by this one, and nothing is built
//! again: not even where this one writes images in another format.
//!
//! `testdata/upgrade/README.md` says what is recorded, and how.

mod record;
mod recorded;
mod upgrade_cluster;

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use serde_json::Value;

use crate::test_cluster::state;
use mosb_tests::wait;
use recorded::Recorded;
use upgrade_cluster::{LONG, M, POOLS, UpgradeCluster, text};

/// All recorded versions.
fn folder() -> PathBuf {
    mosb_tests::repository().join("testdata/upgrade")
}

#[test]
fn this_version_is_recorded() {
    let here = folder().join(env!("CARGO_PKG_VERSION"));
    if std::env::var_os("MOSB_RECORD").is_some() {
        assert!(!here.exists(), "{}: what a version left is never recorded anew", here.display());
        record::record(&here);
    }
    assert!(
        here.join("machineosbuilds.yaml").exists(),
        "nothing is recorded of version {}: make record",
        env!("CARGO_PKG_VERSION")
    );
}

/// What of an object must stay.
fn stays(object: &Value) -> Value {
    let metadata = &object["metadata"];
    let annotations = metadata["annotations"].as_object().cloned();
    let mut annotations = annotations.unwrap_or_default();
    // kubectl's own.
    annotations.retain(|key, _| !key.starts_with("kubectl.kubernetes.io/"));
    serde_json::json!([
        metadata["name"],
        metadata["uid"],
        metadata["labels"],
        annotations,
        object["status"]
    ])
}

fn uids(objects: &[Value]) -> BTreeSet<String> {
    let uid = |object: &Value| text(&object["metadata"]["uid"]).to_owned();
    objects.iter().map(uid).collect()
}

fn name(object: &Value) -> &str {
    text(&object["metadata"]["name"])
}

#[test]
fn objects_of_an_earlier_version_are_adopted() {
    let versions = fs::read_dir(folder()).unwrap();
    let mut versions: Vec<PathBuf> = versions.map(|entry| entry.unwrap().path()).collect();
    versions.retain(|path| path.is_dir());
    versions.sort();
    assert!(!versions.is_empty());
    for version in versions {
        taken_over(&version);
    }
}

fn taken_over(version: &Path) {
    let recorded = Recorded::read(version);
    let mut cluster = UpgradeCluster::new(&recorded.images());
    recorded.load(&cluster);
    let builds = cluster.all("machineosbuilds");
    let jobs = cluster.all("jobs");
    let configs = cluster.all("machineosconfigs");
    let pools = cluster.all("machineconfigpools");
    assert_eq!((builds.len(), jobs.len()), (POOLS.len(), 2));

    cluster.start();
    cluster.until_all_are("building");
    // The one whose Job runs ends as it would have ended.
    let [running] = &cluster.running()[..] else {
        panic!("{jobs:#?}");
    };
    let (job, pod) = running;
    cluster.succeed(job, pod);
    wait("the end of what was running", LONG, || {
        let config = cluster.get("machineosconfig", "building");
        let image = text(&config["status"]["currentImagePullSpec"]);
        image.ends_with(&cluster.image).then_some(())
    });
    cluster.until_all_are("up-to-date");

    // Nothing else has changed.
    let after = cluster.all("machineosbuilds");
    assert_eq!(uids(&after), uids(&builds), "{}", cluster.log());
    let is_job_of = |job: &Value, uid: &Value| job["metadata"]["ownerReferences"][0]["uid"] == *uid;
    for (was, is) in builds.iter().zip(&after) {
        if name(was).starts_with("building-") {
            assert_eq!(state(is), "Succeeded");
            let attempt = &is["metadata"]["annotations"]["mosb.dev/attempt"];
            assert_eq!(attempt, "1");
        } else {
            assert_eq!(stays(is), stays(was), "{}", name(was));
        }
    }
    let mut left = uids(&cluster.all("jobs"));
    left.retain(|uid| *uid != text(&job["metadata"]["uid"]));
    let failed = builds.iter().find(|build| state(build) == "Failed");
    let remaining: Vec<Value> = jobs
        .iter()
        .filter(|job| is_job_of(job, &failed.unwrap()["metadata"]["uid"]))
        .cloned()
        .collect();
    assert_eq!(left, uids(&remaining), "{}", cluster.log());
    for (kind, before) in [("machineosconfigs", configs), ("machineconfigpools", pools)] {
        for (was, is) in before.iter().zip(&cluster.all(kind)) {
            if name(was) != "building" {
                assert_eq!(stays(is), stays(was), "{kind} {}", name(was));
            }
        }
    }

    // Only a change is built, and a return to the earlier config takes the image that is there,
    // whatever its format.
    let of_direct = |builds: &[Value]| {
        let names = builds.iter().map(name);
        let mut names = names.filter(|name| name.starts_with("direct-"));
        (names.next().unwrap().to_owned(), names.count())
    };
    let (first, _) = of_direct(&builds);
    cluster.renders("direct", 0xa2, None, &[]);
    cluster.pod_of("direct");
    cluster.renders("direct", 0xa1, None, &[]);
    wait("the image that the pool had", LONG, || {
        let config = cluster.get("machineosconfig", "direct");
        let named = &config["metadata"]["annotations"][format!("{M}/current-machine-os-build")];
        let is_alone = of_direct(&cluster.all("machineosbuilds")) == (first.clone(), 0);
        (*named == *first && is_alone).then_some(())
    });
    cluster.until_all_are("up-to-date");

    // Requests are still understood: the failed one is built again on request.
    let uid = failed.unwrap()["metadata"]["uid"].clone();
    cluster.annotate("machineosconfig", "failed", &format!("{M}/rebuild"), "");
    wait("another build of the pool that failed", LONG, || {
        let builds = cluster.all("machineosbuilds");
        let mut builds = builds.iter();
        let again = builds.find(|build| name(build).starts_with("failed-"))?;
        (again["metadata"]["uid"] != uid).then_some(())
    });
    cluster.stop();
}
