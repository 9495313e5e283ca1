//! For which architecture a set gets its image.

use serde_json::{Value, json};

use super::fake_cluster::{FakeCluster, NEW, OLD};
use super::openshift;
use crate::eligibility::architecture;
use crate::machine_set::MachineSet;
use crate::plan::Outcome;
use mosb_boot_image::{Architecture, Stream};
use mosb_cluster::cluster_cache::BootImageKind::{
    self, ClusterApiMachineSet, ClusterVersion, ControlPlaneMachineSet, GcpMachineTemplate,
    MachineApiMachineSet,
};

const LABELS: &str = "capacity.cluster-autoscaler.kubernetes.io/labels";

/// The architecture of the only set of this kind, or the code of why there is none. The controller
/// runs on `own`, and the stream has images for `stream`.
fn found(
    cluster: &FakeCluster,
    kind: BootImageKind,
    own: Option<Architecture>,
    stream: &[&str],
) -> Result<&'static str, String> {
    let mut snapshot = cluster.snapshot();
    snapshot.own_architecture = own;
    let images: Value = stream.iter().map(|name| ((*name).to_owned(), json!({}))).collect();
    let stream: Stream = serde_json::from_value(json!({ "architectures": images })).unwrap();
    let set = MachineSet::new(snapshot.list(kind)[0]).unwrap();
    let found = architecture(set, &snapshot, &stream);
    found.map(Architecture::kubernetes_name).map_err(|one| Outcome::from(one).code().to_owned())
}

#[test]
fn of_the_machine_api_by_annotation_else_that_of_the_controller_but_on_a_mixed_cluster() {
    let own = Some(Architecture::Aarch64);
    for (what, annotation, desired, own, want) in [
        ("that of the controller", None, None, own, Ok("arm64")),
        ("the cluster has one", None, Some("amd64"), own, Ok("arm64")),
        ("a mixed cluster", None, Some("Multi"), own, Err("no-architecture")),
        ("says so itself", Some("kubernetes.io/arch=s390x"), Some("Multi"), own, Ok("s390x")),
        ("on any cluster", Some("a=b, kubernetes.io/arch=ppc64le"), None, own, Ok("ppc64le")),
        ("other labels only", Some("a=b"), None, own, Err("bad-architecture")),
        ("an RPM name", Some("kubernetes.io/arch=x86_64"), None, own, Err("bad-architecture")),
        ("a controller on another one", None, None, None, Err("no-architecture")),
    ] {
        let mut cluster = openshift::cluster();
        openshift::set(&mut cluster, "a");
        if let Some(annotation) = annotation {
            cluster.annotate(MachineApiMachineSet, "a", LABELS, annotation);
        }
        if let Some(desired) = desired {
            cluster.edit(ClusterVersion, "version", |one| {
                one["status"]["desired"] = json!({ "architecture": desired });
            });
        }
        let found = found(&cluster, MachineApiMachineSet, own, &["x86_64"]);
        assert_eq!(found, want.map_err(str::to_owned), "{what}");
    }
}

#[test]
fn of_the_control_plane_that_of_the_controller() {
    for (what, own, want) in [
        ("known", Some(Architecture::S390x), Ok("s390x")),
        ("not known", None, Err("no-architecture")),
    ] {
        let mut cluster = openshift::cluster();
        cluster
            .put(ControlPlaneMachineSet, json!({ "metadata": { "name": "cluster" }, "spec": {} }));
        cluster.annotate(ControlPlaneMachineSet, "cluster", LABELS, "kubernetes.io/arch=amd64");
        cluster.edit(ClusterVersion, "version", |one| {
            one["status"]["desired"] = json!({ "architecture": "Multi" });
        });
        let found = found(&cluster, ControlPlaneMachineSet, own, &["x86_64"]);
        assert_eq!(found, want.map_err(str::to_owned), "{what}");
    }
}

/// The controller's own architecture says nothing of machines in another cluster.
#[test]
fn of_cluster_api_by_annotation_template_or_label_else_the_only_one_of_the_stream() {
    let (one, two) = (&["aarch64"][..], &["aarch64", "x86_64"][..]);
    let arm = json!({ "architecture": "arm64", "operatingSystem": "linux" });
    let windows = json!({ "architecture": "amd64", "operatingSystem": "windows" });
    let (amd_label, s390x_label) = (Some("kubernetes.io/arch=amd64"), Some("s390x"));
    for (what, annotation, node_info, label, stream, want) in [
        ("the annotation", amd_label, arm.clone(), s390x_label, two, Ok("amd64")),
        ("the template", None, arm.clone(), s390x_label, two, Ok("arm64")),
        ("labels of another kind", Some("a=b"), arm, s390x_label, two, Ok("arm64")),
        ("the label", None, Value::Null, s390x_label, two, Ok("s390x")),
        ("the stream", None, Value::Null, None, one, Ok("arm64")),
        ("a stream of two", None, Value::Null, None, two, Err("no-architecture")),
        ("a stream of none", None, Value::Null, None, &[], Err("no-architecture")),
        ("a bad label", None, Value::Null, Some("x86_64"), one, Err("bad-architecture")),
        ("Windows", None, windows.clone(), None, one, Err("windows")),
        ("Windows with an annotation", amd_label, windows, None, one, Err("windows")),
    ] {
        let mut cluster = FakeCluster::new(NEW);
        cluster.set(ClusterApiMachineSet, "a", OLD);
        if let Some(annotation) = annotation {
            cluster.annotate(ClusterApiMachineSet, "a", LABELS, annotation);
        }
        cluster.edit(GcpMachineTemplate, "a-t", |one| {
            one["status"] = json!({ "nodeInfo": node_info });
        });
        if let Some(label) = label {
            cluster.edit(ClusterApiMachineSet, "a", |one| {
                one["spec"]["template"]["metadata"] =
                    json!({ "labels": { "kubernetes.io/arch": label } });
            });
        }
        let found = found(&cluster, ClusterApiMachineSet, Some(Architecture::Ppc64le), stream);
        assert_eq!(found, want.map_err(str::to_owned), "{what}");
    }
}
