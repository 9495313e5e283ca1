//! The age and skew of the images in use.

use jiff::Timestamp;
use serde_json::{Value, json};

use super::fake_cluster::{ALL, FakeCluster};
use super::openshift;
use crate::decide::decide;
use crate::figures::{BootImageFigures, figures};
use crate::plan::{BootImagePlan, SetPlan};
use mosb_cluster::cluster_cache::BootImageKind::{
    BootImageHistory, ClusterVersion, Infrastructure, MachineApiMachineSet as Sets,
    MachineConfiguration,
};

/// Of RHEL 8.6 and 9.4.
const OLD: &str = "412.86.202301010000-0";
const NEW: &str = "418.94.202511191518-0";
const DAYS: i64 = 1053;
const A: &str = "machines/machineset.machine.openshift.io/a";

fn gcp_name(release: &str) -> String {
    format!("rhcos-{}-gcp-x86-64", release.replace('.', "-"))
}

fn publish(cluster: &mut FakeCluster, release: &str) {
    let stream = json!({ "architectures": { "x86_64": {
        "artifacts": { "vmware": { "release": release } },
        "images": { "aws": { "regions": { "r": { "release": release, "image": ami(release) } } },
            "gcp": { "release": release, "project": "rhcos-cloud", "name": gcp_name(release) } },
    } } });
    cluster.golden = json!({ "stream": stream.to_string(), "releaseVersion": "4.18.3" });
}

/// A name that says nothing.
fn ami(release: &str) -> &'static str {
    if release == OLD { "ami-a" } else { "ami-b" }
}

fn set(cluster: &mut FakeCluster, name: &str, image: Value) {
    let mut value = image;
    value["userDataSecret"] = json!({ "name": "worker-user-data" });
    cluster.put(
        Sets,
        json!({ "metadata": { "name": name },
        "spec": { "template": { "spec": { "providerSpec": { "value": value } } } } }),
    );
}

fn image_of(platform: &str) -> Value {
    match platform {
        "AWS" => json!({ "ami": { "id": ami(OLD) }, "placement": { "region": "r" } }),
        "GCP" => json!({ "disks": [{ "boot": true,
            "image": format!("projects/rhcos-cloud/global/images/{}", gcp_name(OLD)) }] }),
        "VSphere" => json!({ "template": "one" }),
        other => panic!("{other}"),
    }
}

/// A cluster of OpenShift with set `a`, which had its image when this was the one to follow.
fn cluster(platform: &str) -> FakeCluster {
    let mut cluster = openshift::cluster();
    cluster.settings = format!("{ALL}, images: {{{OLD}: one, {NEW}: two}}}}");
    cluster.edit(Infrastructure, "cluster", |one| {
        one["status"]["platformStatus"]["type"] = json!(platform);
    });
    publish(&mut cluster, OLD);
    set(&mut cluster, "a", image_of(platform));
    assert_eq!(openshift::codes(&cluster.settle()), ["current"], "{platform}");
    publish(&mut cluster, NEW);
    cluster
}

fn own(cluster: &mut FakeCluster, name: &str) {
    cluster.edit(Sets, name, |one| {
        one["metadata"]["ownerReferences"] =
            json!([{ "apiVersion": "hive/v1", "kind": "MachinePool", "name": "p", "uid": "p" }]);
    });
}

fn found(cluster: &FakeCluster) -> (BootImagePlan, BootImageFigures) {
    let snapshot = cluster.snapshot();
    let now: Timestamp = "2026-01-01T00:00:00Z".parse().unwrap();
    let plan = decide(&snapshot, now);
    let figures = figures(&plan, &snapshot, now);
    (plan, figures)
}

/// `LIMIT: SETS, UNKNOWN`; `-` without a limit.
fn skew(figures: &BootImageFigures) -> String {
    let skew = figures.skew.as_ref();
    let line = skew.map(|one| format!("{}: {}, {}", one.limit, one.too_old.join(" "), one.unknown));
    line.unwrap_or_else(|| "-".to_owned())
}

/// An AMI does not say what it is, and an earlier golden ConfigMap did.
#[test]
fn an_image_is_too_old_whatever_keeps_it() {
    type Edit = fn(&mut FakeCluster);
    let states: [(&str, Edit); 3] = [
        ("pinned", |cluster| cluster.annotate(Sets, "a", "mosb.dev/boot-image-pin", "always")),
        ("waiting", |cluster| {
            cluster.edit(ClusterVersion, "version", |one| {
                one["status"]["history"][0]["state"] = json!("Partial");
            });
        }),
        ("owned", |cluster| own(cluster, "a")),
    ];
    for platform in ["AWS", "GCP", "VSphere"] {
        for (state, edit) in states {
            for (oldest, want) in [
                (Some("413.92.202302100000-0"), format!("413.92.202302100000-0: {A}, 0")),
                (Some(OLD), format!("{OLD}: , 0")),
                (None, format!("RHEL 9.2: {A}, 0")),
                // Not of OpenShift: without a limit of its own.
                (Some(""), "-".to_owned()),
            ] {
                let what = format!("{platform}, {state}, {oldest:?}");
                let mut cluster = cluster(platform);
                edit(&mut cluster);
                match oldest {
                    None => {}
                    Some("") => cluster.objects.retain(|(kind, _), _| *kind != ClusterVersion),
                    Some(oldest) => {
                        cluster.settings = format!(
                            "{ALL}, images: {{{OLD}: one, {NEW}: two}}, oldest: {oldest}}}"
                        );
                    }
                }
                cluster.settle();
                let (plan, figures) = found(&cluster);
                assert_eq!(openshift::codes(&plan), [state], "{what}");
                assert!(plan.sets[0].image.is_some(), "{what}");
                assert_eq!(skew(&figures), want, "{what}");
                assert_eq!(figures.days_behind, Some(DAYS), "{what}");
            }
        }
    }
}

/// The golden images may be ahead of the pools, or behind them.
#[test]
fn the_age_is_that_against_the_pools() {
    const DAY: &str = "413.92.202301020000-0";
    for (what, is_openshift, os, want) in [
        ("not known", false, None, DAYS),
        ("as old", false, Some(OLD), 0),
        ("a day newer", false, Some(DAY), 1),
        ("newer than the golden ones", false, Some("418.94.202511201518-0"), DAYS + 1),
        ("the release decides", true, Some(DAY), DAYS),
    ] {
        let mut cluster = cluster("AWS");
        own(&mut cluster, "a");
        if !is_openshift {
            cluster.objects.retain(|(kind, _), _| *kind != ClusterVersion);
        }
        cluster.pool("edge", None, None);
        cluster.pool("worker", os, None);
        assert_eq!(found(&cluster).1.days_behind, Some(want), "{what}");
    }
}

/// The administrator's map has the release of the template in use, and not that of the stream.
#[test]
fn a_template_without_a_successor_is_known_by_its_release() {
    let mut cluster = cluster("VSphere");
    cluster.settings = format!("{ALL}, images: {{{OLD}: one}}}}");
    let (plan, figures) = found(&cluster);
    assert_eq!(openshift::codes(&plan), ["no-image-for-release"]);
    assert_eq!(plan.sets[0].image.as_deref(), Some("one (412.86.202301010000-0)"));
    assert_eq!(skew(&figures), format!("RHEL 9.2: {A}, 0"));
}

#[test]
fn without_images_to_follow_old_ones_are_still_too_old() {
    let mut cluster = cluster("AWS");
    cluster.golden = Value::Null;
    let (_, figures) = found(&cluster);
    assert_eq!((skew(&figures), figures.days_behind), (format!("RHEL 9.2: {A}, 0"), None));
}

/// Somebody who may write the histories of another namespace.
#[test]
fn no_history_makes_the_image_of_another_set_look_new() {
    for platform in ["AWS", "GCP"] {
        let mut cluster = cluster(platform);
        let image = match platform {
            "AWS" => json!(ami(OLD)),
            _ => image_of(platform)["disks"][0]["image"].clone(),
        };
        let detail = json!({ "bootImageRef": image, "release": NEW, "count": 1,
            "updatedTime": "2026-01-01T00:00:00Z" });
        for name in ["0", "z"] {
            cluster.put(
                BootImageHistory,
                json!({ "metadata": { "name": "x", "namespace": name },
                    "status": { "details": [detail] } }),
            );
        }
        let (_, figures) = found(&cluster);
        assert_eq!(skew(&figures), format!("RHEL 9.2: {A}, 0"), "{platform}");
    }
}

/// They start no machines from an old image of a stream, or another set is counted for them.
#[test]
fn only_sets_that_may_have_an_old_image_are_counted() {
    let mut cluster = cluster("AWS");
    let other = || json!({ "ami": { "id": "ami-c" }, "placement": { "region": "r" } });
    for name in ["custom", "deleted", "owned", "windows"] {
        set(&mut cluster, name, other());
    }
    // Its image is too old, and no new machine starts from it.
    set(&mut cluster, "old-windows", image_of("AWS"));
    for name in ["windows", "old-windows"] {
        cluster.edit(Sets, name, |one| {
            let labels = json!({ "machine.openshift.io/os-id": "Windows" });
            one["spec"]["template"]["metadata"] = json!({ "labels": labels });
        });
    }
    cluster.edit(Sets, "deleted", |one| {
        one["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
    });
    own(&mut cluster, "owned");
    let (plan, figures) = found(&cluster);
    let lines = |set: &SetPlan| format!("{} {}", set.name, set.outcome.code());
    let lines: Vec<String> = plan.sets.iter().map(lines).collect();
    let want = [
        "a updating",
        "custom unproven-image",
        "deleted deleting",
        "old-windows windows",
        "owned owned",
        "windows windows",
    ];
    assert_eq!(lines, want);
    assert!(plan.sets.iter().all(|set| set.image.is_some()), "{:?}", plan.sets);
    assert_eq!(skew(&figures), format!("RHEL 9.2: {A}, 2"));
    // Another controller keeps them all.
    cluster.other_controller = Some("Deployment mco/machine-config-controller".to_owned());
    cluster.put(
        MachineConfiguration,
        json!({ "metadata": { "name": "cluster" },
        "status": { "managedBootImagesStatus": { "machineManagers": [{ "resource": "machinesets",
            "apiGroup": "machine.openshift.io", "selection": { "mode": "All" } }] } } }),
    );
    assert_eq!(skew(&found(&cluster).1), "RHEL 9.2: , 0");
}
