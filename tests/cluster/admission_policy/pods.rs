//! The pods that mosb makes, and what a test adds to them.

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use crate::deploy::{NAMESPACE, install};
use mosb_tests::{Finished, node};

pub fn in_repository(path: &str) -> PathBuf {
    mosb_tests::repository().join(path)
}

pub fn read(path: &Path) -> Value {
    serde_saphyr::from_str(&fs::read_to_string(path).unwrap()).unwrap()
}

/// A Job's pod, or a Pod, as one to create.
pub fn pod_of(object: &Value) -> Value {
    let template = if object["kind"] == "Pod" { object } else { &object["spec"]["template"] };
    let metadata = &template["metadata"];
    json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {
            "generateName": "policy-", "namespace": NAMESPACE,
            "labels": metadata["labels"], "annotations": metadata["annotations"],
        },
        "spec": template["spec"],
    })
}

/// The pods that mosb makes, as its golden files have them, that of a check, and those of people by
/// hand.
pub fn own_pods() -> Vec<(String, Value)> {
    let cases = fs::read_dir(in_repository("testdata/job")).unwrap();
    let mut files: Vec<PathBuf> = cases
        .flat_map(|case| {
            ["job.yaml", "pod.yaml"].map(|file| case.as_ref().unwrap().path().join(file))
        })
        .filter(|file| file.exists())
        .collect();
    files.extend(
        ["by-hand.yaml", "by-hand-containerfile.yaml", "check.yaml"]
            .map(|file| in_repository("job-templates").join(file)),
    );
    let named = |file: PathBuf| (file.display().to_string(), pod_of(&read(&file)));
    let mut pods: Vec<_> = files.into_iter().map(named).collect();
    assert!(pods.len() > 8, "{pods:?}");
    pods.push(("the controller".to_owned(), pod_of(&install())));
    pods.push(("the probe".to_owned(), probe()));
    pods
}

/// The dry-run by which the controller learns if the cluster has user namespaces, as
/// `builder/builds/src/probe.rs` sends it.
pub fn probe() -> Value {
    json!({
        "apiVersion": "v1", "kind": "Pod", "metadata": { "generateName": "policy-", "namespace": NAMESPACE },
        "spec": { "hostUsers": false, "automountServiceAccountToken": false, "containers": [{ "name": "probe", "image": "probe" }] },
    })
}

pub fn create(pod: &Value, more: &[&str]) -> Finished {
    let words = [&["create", "--dry-run=server", "--filename=-"], more].concat();
    node().kubectl_with(&words, pod.to_string().as_bytes())
}

/// The object with one value set at a pointer, below what is made for it. An index that a list ends
/// at appends to it.
pub fn with(object: &Value, pointer: &str, value: &Value) -> Value {
    let mut object = object.clone();
    let mut place = &mut object;
    for part in pointer.split('/').skip(1) {
        let part = part.replace("~1", "/");
        place = match part.parse::<usize>() {
            Ok(index) => {
                let list = place.as_array_mut().unwrap();
                if index == list.len() {
                    list.push(Value::Null);
                }
                &mut list[index]
            }
            Err(_) => &mut place[part],
        };
    }
    *place = value.clone();
    object
}

pub const RUNTIME_CLASS: &str = "policy-class";

/// A pod with a runtime class that does not exist is refused before any policy sees it.
pub fn apply_runtime_class() {
    let class = json!({ "apiVersion": "node.k8s.io/v1", "kind": "RuntimeClass",
        "metadata": { "name": RUNTIME_CLASS }, "handler": "runc" });
    node().apply(&class.to_string());
}

/// Annotations that container runtimes and plugins of nodes act upon, and one that nobody knows.
pub const RUNTIME_ANNOTATIONS: [&str; 10] = [
    "cdi.k8s.io/devices",
    "cpu-quota.crio.io",
    "example.com/unknown",
    "io.containerd.cri.runtime",
    "io.katacontainers.config.hypervisor.path",
    "io.kubernetes.cri-o.Devices",
    "k8s.v1.cni.cncf.io/networks",
    "org.systemd.property.DeviceAllow",
    "run.oci.handler",
    "seccomp-profile.kubernetes.cri-o.io",
];
