//! What the commands change.

use serde_json::{Value, json};

use super::fake_cluster::{FakeCluster, NEW, OLD};
use crate::view::{BootImageRequest, change};
use mosb_cluster::cluster_cache::BootImageKind::{ClusterApiMachineSet as Sets, MachineDeployment};

const PIN: &str = "mosb.dev/boot-image-pin";

fn cluster() -> FakeCluster {
    let mut cluster = FakeCluster::new(NEW);
    cluster.set(Sets, "a", OLD);
    cluster.settle();
    cluster
}

fn request(cluster: &mut FakeCluster, set: &str, request: &BootImageRequest) {
    let change = change(&cluster.snapshot(), set, request).unwrap();
    cluster.patch(&change.set, &change.operations);
    if let Some((target, status)) = &change.record {
        cluster.merge_status(target, status);
    }
}

/// A restored image is older than the one to follow, and stays.
#[test]
fn restore_pins() {
    let mut cluster = cluster();
    let restore = BootImageRequest::Restore { to: None, until: None };
    request(&mut cluster, "a", &restore);
    let plan = cluster.settle();
    assert_eq!(plan.sets[0].outcome.code(), "pinned");
    assert_eq!(cluster.image(Sets, "a"), OLD);
    let history = "a.machineset.cluster.x-k8s.io";
    let images: Vec<String> = cluster.record(history).into_iter().map(|(image, _)| image).collect();
    assert_eq!(images, [OLD, NEW, OLD]);
    assert_eq!(cluster.restores, 1);
    request(&mut cluster, "a", &BootImageRequest::Unpin);
    cluster.settle();
    assert_eq!(cluster.image(Sets, "a"), NEW);
    assert_eq!(cluster.restores, 1);
}

/// A pin of the image that was found puts nothing back.
#[test]
fn a_pin_is_no_restore() {
    let mut cluster = FakeCluster::new(NEW);
    cluster.set(Sets, "a", OLD);
    request(&mut cluster, "a", &BootImageRequest::Pin { until: None });
    cluster.settle();
    assert_eq!((cluster.image(Sets, "a"), cluster.restores), (OLD.to_owned(), 0));
}

#[test]
fn a_pin_ends_with_a_release() {
    let mut cluster = cluster();
    let until = Some("41.20250105.3.0".parse().unwrap());
    request(&mut cluster, "a", &BootImageRequest::Restore { to: Some(1), until });
    cluster.settle();
    assert_eq!(cluster.image(Sets, "a"), OLD);
    let newer = "projects/fedora-coreos-cloud/global/images/fcos-41-3";
    cluster.publish(newer, "41.20250205.3.0");
    cluster.settle();
    assert_eq!(cluster.image(Sets, "a"), newer);
}

/// After another writer won, the next try is asked for.
#[test]
fn unpin_begins_anew_after_another_writer() {
    let mut cluster = cluster();
    for _ in 0..3 {
        cluster.edit(Sets, "a", |set| {
            set["spec"]["template"]["spec"]["infrastructureRef"]["name"] = "a-t".into();
        });
        cluster.settle();
    }
    assert_eq!(cluster.image(Sets, "a"), OLD);
    request(&mut cluster, "a", &BootImageRequest::Unpin);
    cluster.settle();
    assert_eq!(cluster.image(Sets, "a"), NEW);
}

#[test]
fn pins_are_annotations() {
    for (what, annotations, until, want) in [
        ("the first annotation", Value::Null, None, "always"),
        ("beside others", json!({ "x": "y" }), Some("41.20250105.3.0"), "41.20250105.3.0"),
    ] {
        let mut cluster = cluster();
        cluster.edit(Sets, "a", |set| set["metadata"]["annotations"] = annotations);
        let until = until.map(|text: &str| text.parse().unwrap());
        request(&mut cluster, "machines/machineset/a", &BootImageRequest::Pin { until });
        let set = &cluster.objects[&(Sets, "machines/a".to_owned())];
        assert_eq!(set["metadata"]["annotations"][PIN], want, "{what}");
    }
}

#[test]
fn requests_that_are_not_possible() {
    let mut cluster = cluster();
    cluster.set(MachineDeployment, "a", OLD);
    cluster.set(Sets, "new", OLD);
    let restore = |to| BootImageRequest::Restore { to, until: None };
    for (set, request, part) in [
        ("b", BootImageRequest::Unpin, "no machine set b"),
        ("a", BootImageRequest::Unpin, "machinedeployment.cluster.x-k8s.io/a"),
        ("machineset/a", restore(Some(9)), "there is no entry 9"),
        ("new", restore(None), "no earlier image"),
    ] {
        let error = change(&cluster.snapshot(), set, &request).unwrap_err().to_string();
        assert!(error.contains(part), "{error}");
    }
    // Its template is deleted.
    cluster.objects.retain(|(kind, key), _| !kind.is_template() || !key.ends_with("a-t"));
    let error = change(&cluster.snapshot(), "machineset/a", &restore(Some(1))).unwrap_err();
    assert!(error.to_string().contains("does not exist any more"), "{error}");
}
