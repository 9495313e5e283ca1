//! Which sets are left alone, and when nothing is changed.

use jiff::Timestamp;
use serde_json::{Value, json};

use super::fake_cluster::{ALL, FakeCluster, NEW, OLD};
use crate::view::view;
use mosb_cluster::cluster_cache::BootImageKind::{
    self, Cluster, ClusterApiMachineSet as Sets, GcpMachineTemplate, MachineDeployment,
};

const CUSTOM: &str = "projects/mine/global/images/golden";

/// What an edit of a set or of something beside it leads to.
fn outcome(edit: impl FnOnce(&mut FakeCluster)) -> (String, String, String) {
    let mut cluster = FakeCluster::new(NEW);
    cluster.set(Sets, "a", OLD);
    edit(&mut cluster);
    let plan = cluster.settle();
    let set = plan.sets.iter().find(|set| set.name == "a").unwrap();
    let image = cluster.image(Sets, "a");
    (set.outcome.code().to_owned(), set.outcome.reason().to_owned(), image)
}

fn set(edit: fn(&mut Value)) -> impl FnOnce(&mut FakeCluster) {
    move |cluster: &mut FakeCluster| cluster.edit(Sets, "a", edit)
}

fn other(
    kind: BootImageKind,
    name: &'static str,
    edit: fn(&mut Value),
) -> impl FnOnce(&mut FakeCluster) {
    move |cluster: &mut FakeCluster| cluster.edit(kind, name, edit)
}

type Edit = Box<dyn FnOnce(&mut FakeCluster)>;

#[test]
fn sets_that_keep_their_image() {
    let cases: Vec<(&str, &str, Edit)> = vec![
        (
            "of a ClusterClass",
            "cluster-class",
            Box::new(set(|one| {
                one["metadata"]["labels"]["topology.cluster.x-k8s.io/owned"] = json!("");
            })),
        ),
        (
            "paused",
            "paused",
            Box::new(set(|one| {
                one["metadata"]["annotations"]["cluster.x-k8s.io/paused"] = json!("");
            })),
        ),
        (
            "of a paused Cluster",
            "paused",
            Box::new(other(Cluster, "c", |one| {
                one["spec"]["paused"] = json!(true);
            })),
        ),
        (
            "of a MachineDeployment",
            "part-of-deployment",
            Box::new(set(|one| {
                one["metadata"]["labels"]["cluster.x-k8s.io/deployment-name"] = json!("d");
            })),
        ),
        (
            "of somebody else",
            "owned",
            Box::new(set(|one| {
                one["metadata"]["ownerReferences"].as_array_mut().unwrap().push(json!({ "apiVersion": "hive/v1", "kind": "MachinePool", "name": "p", "uid": "p" }));
            })),
        ),
        (
            "being deleted",
            "deleting",
            Box::new(set(|one| {
                one["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
            })),
        ),
        (
            "of Windows",
            "windows",
            Box::new(other(GcpMachineTemplate, "a-t", |one| {
                one["status"] = json!({ "nodeInfo": { "operatingSystem": "windows" } });
            })),
        ),
        (
            "of an architecture that the stream lacks",
            "not-in-stream",
            Box::new(set(|one| {
                one["metadata"]["annotations"]["capacity.cluster-autoscaler.kubernetes.io/labels"] =
                    json!("kubernetes.io/arch=arm64");
            })),
        ),
        (
            "of an architecture that does not exist",
            "bad-architecture",
            Box::new(set(|one| {
                one["metadata"]["annotations"]["capacity.cluster-autoscaler.kubernetes.io/labels"] =
                    json!("kubernetes.io/arch=vax");
            })),
        ),
        (
            "of another OS stream",
            "os-stream",
            Box::new(set(|one| {
                one["metadata"]["labels"]["machineconfiguration.openshift.io/osstream"] =
                    json!("rhel-10");
            })),
        ),
        (
            "of a provider that mosb does not know",
            "platform",
            Box::new(set(|one| {
                one["spec"]["template"]["spec"]["infrastructureRef"]["kind"] =
                    json!("NutanixMachineTemplate");
            })),
        ),
        (
            "without a template",
            "template-missing",
            Box::new(set(|one| {
                one["spec"]["template"]["spec"]["infrastructureRef"]["name"] = json!("b-t");
            })),
        ),
        (
            "without a reference",
            "boot-image-field-missing",
            Box::new(set(|one| {
                one["spec"]["template"]["spec"]["infrastructureRef"] = json!({});
            })),
        ),
        (
            "with a stub that does not exist",
            "stub-missing",
            Box::new(set(|one| {
                one["spec"]["template"]["spec"]["bootstrap"] = json!({ "dataSecretName": "stub" });
            })),
        ),
    ];
    for (what, want, edit) in cases {
        // A template that the edit replaced can't be read.
        let mut cluster = FakeCluster::new(NEW);
        cluster.set(Sets, "a", OLD);
        edit(&mut cluster);
        let plan = cluster.settle();
        let found = plan.sets.iter().find(|set| set.name == "a").unwrap();
        assert_eq!(found.outcome.code(), want, "{what}: {}", found.outcome.reason());
        let wrote = cluster.writes.iter().any(|write| !write.contains("bootimagehistory"));
        assert!(!wrote, "{what}: {:?}", cluster.writes);
    }
}

#[test]
fn an_administrators_image_stays() {
    let (code, _, image) = outcome(|cluster| {
        cluster.edit(GcpMachineTemplate, "a-t", |one| {
            one["spec"]["template"]["spec"]["image"] = json!(CUSTOM);
        });
    });
    assert_eq!((&*code, &*image), ("custom-image", CUSTOM));
}

#[test]
fn images_wait_for_the_cluster() {
    let unavailable = |cluster: &mut FakeCluster| {
        cluster.edit(Cluster, "c", |one| one["status"]["conditions"][0]["status"] = json!("False"));
    };
    let unknown = |cluster: &mut FakeCluster| {
        cluster.edit(Cluster, "c", |one| one["status"] = json!({}));
    };
    let rolling = |cluster: &mut FakeCluster| {
        cluster.set(MachineDeployment, "d", NEW);
        cluster.edit(MachineDeployment, "d", |one| one["status"]["upToDateReplicas"] = json!(1));
    };
    let newer = |cluster: &mut FakeCluster| {
        cluster.golden["releaseVersion"] = json!("41.20240105.3.0");
    };
    let other_scheme =
        |cluster: &mut FakeCluster| cluster.golden["releaseVersion"] = json!("4.18.3");
    let no_version = |cluster: &mut FakeCluster| {
        cluster.golden.as_object_mut().unwrap().remove("releaseVersion");
    };
    for (what, part, edit) in [
        (
            "not available",
            "Cluster machines/c is not available",
            unavailable as fn(&mut FakeCluster),
        ),
        ("no condition", "does not report", unknown),
        ("rolling", "MachineDeployment d are being replaced", rolling),
        ("newer than the cluster", "and the cluster runs 41.20240105.3.0", newer),
        ("not comparable", "can't be compared with 4.18.3", other_scheme),
        ("not said", "has no releaseVersion", no_version),
    ] {
        let (code, reason, image) = outcome(edit);
        assert_eq!((&*code, &*image), ("waiting", OLD), "{what}: {reason}");
        assert!(reason.contains(part), "{what}: {reason}");
    }
}

#[test]
fn a_release_version_that_holds_nothing_back_is_noted() {
    for (what, release, is_noted) in [
        ("the newest of the stream", Some("41.20250105.3.0"), true),
        ("an older one", Some("41.20240105.3.0"), false),
        ("a later one, which somebody named", Some("41.20250205.3.0"), false),
        ("none", None, false),
    ] {
        let mut cluster = FakeCluster::new(NEW);
        cluster.set(Sets, "a", OLD);
        cluster.golden["releaseVersion"] = json!(release);
        if release.is_none() {
            cluster.golden.as_object_mut().unwrap().remove("releaseVersion");
        }
        let notes = view(&cluster.snapshot(), Timestamp::UNIX_EPOCH).notes;
        let want = "is 41.20250105.3.0, the newest of its stream, so no image waits";
        assert_eq!(notes.len(), usize::from(is_noted), "{what}: {notes:?}");
        assert_eq!(notes.concat().contains(want), is_noted, "{what}: {notes:?}");
    }
    let mut cluster = super::openshift::cluster();
    super::openshift::set(&mut cluster, "a");
    assert_eq!(view(&cluster.snapshot(), Timestamp::UNIX_EPOCH).notes, [""; 0], "OpenShift");
}

/// Cluster API does not know whether the control plane of a Cluster is available that names none.
#[test]
fn a_cluster_without_a_control_plane_object_is_available_by_its_other_parts() {
    let conditions = |workers: &str| {
        let parts = [
            ("Available", "Unknown"),
            ("ControlPlaneAvailable", "Unknown"),
            ("InfrastructureReady", "True"),
            ("RemoteConnectionProbe", "True"),
            ("WorkersAvailable", workers),
        ];
        json!(parts.map(|(kind, status)| json!({ "type": kind, "status": status })))
    };
    let cases = [
        ("all parts", json!({}), json!({ "conditions": conditions("True") }), ""),
        ("v1beta1", json!({}), json!({ "v1beta2": { "conditions": conditions("True") } }), ""),
        (
            "no workers",
            json!({}),
            json!({ "conditions": conditions("False") }),
            "has not the condition WorkersAvailable",
        ),
        (
            "a control plane that is not known",
            json!({ "controlPlaneRef": { "kind": "KubeadmControlPlane", "name": "c" } }),
            json!({ "conditions": conditions("True") }),
            "Cluster machines/c is not available",
        ),
    ];
    for (what, spec, status, want) in cases {
        let (code, reason, _) = outcome(|cluster| {
            cluster.edit(Cluster, "c", |one| {
                one["spec"] = spec.clone();
                one["status"] = status.clone();
            });
        });
        let want_code = if want.is_empty() { "current" } else { "waiting" };
        assert_eq!(code, want_code, "{what}: {reason}");
        assert!(reason.contains(want), "{what}: {reason}");
    }
}

#[test]
fn without_images_to_follow_it_is_an_error() {
    for (golden, part) in [
        (Value::Null, "ConfigMap mosb/coreos-bootimages does not exist"),
        (json!({ "stream": "no" }), "is not the JSON of a stream"),
        (json!({}), "no key"),
    ] {
        let mut cluster = FakeCluster::new(NEW);
        cluster.set(Sets, "a", OLD);
        cluster.golden = golden;
        let plan = cluster.settle();
        assert!(plan.errors[0].message.contains(part), "{}", plan.errors[0].message);
        assert_eq!(cluster.writes, [""; 0]);
    }
}

#[test]
fn a_selection_is_by_kind_and_label() {
    let mut cluster = FakeCluster::new(NEW);
    for name in ["a", "b"] {
        cluster.set(Sets, name, OLD);
    }
    cluster.edit(Sets, "b", |one| one["metadata"]["labels"]["keep"] = json!("current"));
    cluster.settings = "bootImages: {machineManagers: [{resource: machinesets, apiGroup: cluster.x-k8s.io, \
        selection: {mode: Partial, partial: {machineResourceSelector: {matchLabels: {keep: current}}}}}]}"
        .to_owned();
    cluster.settle();
    assert_eq!(
        (cluster.image(Sets, "a"), cluster.image(Sets, "b")),
        (OLD.to_owned(), NEW.to_owned())
    );
    cluster.settings = format!("{ALL}, unknown: 1}}");
    let plan = cluster.settle();
    assert_eq!(plan.errors[0].code, "settings");
}
