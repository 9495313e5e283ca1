//! Boot images follow the OS of the pools, where no release of OpenShift decides it.

use jiff::Timestamp;
use serde_json::{Value, json};

use super::fake_cluster::{FakeCluster, NEW, OLD};
use super::openshift::stub_secret;
use crate::pool_os::PoolOs;
use crate::view::view;
use mosb_api::{MachineOsBuild, MachineOsConfig};
use mosb_cluster::cluster_cache::BootImageKind::ClusterApiMachineSet as Sets;

const A: &str = "41.20241205.3.0";
const B: &str = "41.20250105.3.0";
/// Of the image on A, and of that on B.
const DIGESTS: [&str; 2] = ["a", "b"];

fn image(digest: &str) -> String {
    format!("quay.io/os/worker@sha256:{}", digest.repeat(64))
}

fn build(name: &str, version: &str) -> MachineOsBuild {
    let controller = json!({ "apiVersion": "machineconfiguration.openshift.io/v1", "name": "worker",
        "kind": "MachineOSConfig", "uid": "u", "controller": true });
    serde_json::from_value(json!({
        "apiVersion": "machineconfiguration.openshift.io/v1", "kind": "MachineOSBuild",
        "metadata": { "name": name, "ownerReferences": [controller],
            "annotations": { "mosb.dev/base-version": version, "mosb.dev/stage": "replaced" } },
        "spec": { "machineConfig": { "name": format!("rendered-worker-{}", "0".repeat(32)) },
            "machineOSConfig": { "name": "worker" }, "renderedImagePushSpec": "quay.io/os/worker:1" },
        "status": { "digestedImagePushSpec": image(name),
            "conditions": [{ "type": "Succeeded", "status": "True", "reason": "Ready", "message": "",
                "lastTransitionTime": "2026-01-01T00:00:00Z" }] },
    }))
    .unwrap()
}

fn config(in_service: &str, annotations: &Value) -> MachineOsConfig {
    serde_json::from_value(json!({
        "apiVersion": "machineconfiguration.openshift.io/v1", "kind": "MachineOSConfig",
        "metadata": { "name": "worker", "uid": "u", "annotations": annotations },
        "spec": { "machineConfigPool": { "name": "worker" }, "imageBuilder": { "imageBuilderType": "Job" },
            "renderedImagePushSecret": { "name": "push" }, "renderedImagePushSpec": "quay.io/os/worker:1" },
        "status": { "currentImagePullSpec": image(in_service), "machineOSBuild": { "name": in_service } },
    }))
    .unwrap()
}

#[test]
fn the_os_of_new_machines_follows_their_image() {
    let pin = |text: &str| json!({ "mosb.dev/rollout-build": text });
    let pin_of = |digest: &str| pin(&format!("{digest}@sha256:{}", digest.repeat(64)));
    for (what, in_service, annotations, version_of_b, want) in [
        ("on A", "a", json!({}), B, Some(A)),
        ("on B", "b", json!({}), B, Some(B)),
        ("on B, and pinned to A", "b", pin_of("a"), B, Some(A)),
        (
            "pinned to the stock image",
            "b",
            pin(&format!("stock@sha256:{}", "c".repeat(64))),
            B,
            None,
        ),
        ("the base has another version", "b", json!({}), "4.18.3", None),
        ("the base has a name", "b", json!({}), "bookworm", None),
        ("in service is what nobody built", "c", json!({}), B, None),
    ] {
        let builds = DIGESTS.map(|name| build(name, if name == "a" { A } else { version_of_b }));
        let pool = PoolOs::new(&config(in_service, &annotations), &builds);
        let release = pool.release.as_ref().map(|release| release.as_str());
        assert_eq!((&*pool.pool, release), ("worker", want), "{what}");
    }
}

/// The release of the images to follow is 41.20250105.3.0.
#[test]
fn images_wait_for_the_os_of_the_pools() {
    let (before, same) = ("41.20241205.3.0", "41.20250105.3.0");
    let newest = ("edge", Some("41.20250205.3.0"), None);
    type Pools<'a> = &'a [(&'a str, Option<&'a str>, Option<&'a str>)];
    let cases: [(&str, &str, Pools<'_>, &str); 9] = [
        ("older", same, &[("worker", Some(before), None)], "waiting"),
        ("the same", same, &[("worker", Some(same), None)], "current"),
        ("newer", same, &[newest], "current"),
        ("newer than the ConfigMap says", before, &[("worker", Some(same), None)], "current"),
        ("one of two is older", same, &[newest, ("worker", Some(before), None)], "waiting"),
        (
            "an older one has other machines",
            same,
            &[("worker", Some(same), Some("stub")), ("edge", Some(before), Some("other"))],
            "current",
        ),
        (
            "that of its machines is older",
            same,
            &[newest, ("worker", Some(before), Some("stub"))],
            "waiting",
        ),
        ("not known, as the ConfigMap says", same, &[("worker", None, None)], "current"),
        (
            "of another stream, as the ConfigMap says",
            before,
            &[("worker", Some("41.20250105.2.0"), None)],
            "waiting",
        ),
    ];
    for (what, says, pools, want) in cases {
        let mut cluster = FakeCluster::new(NEW);
        cluster.set(Sets, "a", OLD);
        stub_secret(&mut cluster, "stub", "3.2.0", "worker");
        cluster.edit(Sets, "a", |one| {
            one["spec"]["template"]["spec"]["bootstrap"] = json!({ "dataSecretName": "stub" });
        });
        cluster.golden["releaseVersion"] = json!(says);
        for (name, os, user_data) in pools {
            cluster.pool(name, *os, *user_data);
        }
        let plan = cluster.settle();
        assert_eq!(plan.sets[0].outcome.code(), want, "{what}: {}", plan.sets[0].outcome.reason());
        let image = if want == "current" { NEW } else { OLD };
        assert_eq!(cluster.image(Sets, "a"), image, "{what}");
    }
}

#[test]
fn images_follow_once_their_pool_moved() {
    let mut cluster = FakeCluster::new(NEW);
    cluster.set(Sets, "a", OLD);
    cluster.pool("worker", Some("41.20241205.3.0"), None);
    let reason = cluster.settle().sets[0].outcome.reason().to_owned();
    assert!(reason.contains("new machines of pool worker get 41.20241205.3.0"), "{reason}");
    cluster.pool("worker", Some("41.20250105.3.0"), None);
    assert_eq!(cluster.settle().sets[0].outcome.code(), "current");
    assert_eq!(cluster.image(Sets, "a"), NEW);
    // The pool goes back: what new machines have then is not changed again.
    cluster.pool("worker", Some("41.20241205.3.0"), None);
    assert_eq!(cluster.settle().sets[0].outcome.code(), "current");
    // The pool is ahead of the ConfigMap.
    cluster.pool("worker", Some("41.20250205.3.0"), None);
    let view = view(&cluster.snapshot(), Timestamp::UNIX_EPOCH);
    let want = "has images of 41.20250105.3.0, and new machines of pool worker get 41.20250205.3.0";
    assert!(view.notes.len() == 1 && view.notes[0].contains(want), "{:?}", view.notes);
}
