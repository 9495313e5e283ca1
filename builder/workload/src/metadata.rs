//! Labels, annotations and owners of a build's objects.

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference};

use super::{JobRequest, kind};
use mosb_api::{API_VERSION, ImageBuilderType, MachineOsBuild, job_name, label_value, labels};

/// Labels of all objects of a build.
pub(super) fn all_labels(request: &JobRequest) -> BTreeMap<String, String> {
    let labels = [
        (labels::ON_CLUSTER_LAYERING, ""),
        (labels::EPHEMERAL_BUILD_OBJECT, ""),
        (labels::RENDERED_MACHINE_CONFIG, request.rendered.as_str()),
        (labels::TARGET_MACHINE_CONFIG_POOL, request.pool.as_str()),
        (labels::MACHINE_OS_CONFIG, &request.config),
        (labels::MACHINE_OS_BUILD, request.spec.build.as_str()),
    ];
    let label = |(key, value): (&str, &str)| (key.to_owned(), label_value(value));
    labels.map(label).into()
}

/// Annotations of all objects of a build: names that labels may have shortened, and which optional
/// inputs exist.
pub(super) fn all_annotations(request: &JobRequest) -> BTreeMap<String, String> {
    let mut annotations = BTreeMap::from([
        (labels::MACHINE_OS_CONFIG.to_owned(), request.config.clone()),
        (labels::MACHINE_OS_BUILD.to_owned(), request.spec.build.to_string()),
    ]);
    for (there, key) in [
        (&request.entitlement, labels::HAS_ENTITLEMENT),
        (&request.repositories, labels::HAS_REPOSITORIES),
        (&request.package_keys, labels::HAS_PACKAGE_KEYS),
    ] {
        if there.is_some() {
            annotations.insert(key.to_owned(), String::new());
        }
    }
    annotations
}

/// Metadata of an object of a build.
pub(super) fn metadata(request: &JobRequest, name: String) -> ObjectMeta {
    ObjectMeta {
        name: Some(name),
        namespace: Some(request.spec.namespace.clone()),
        labels: Some(all_labels(request)),
        annotations: Some(all_annotations(request)),
        ..ObjectMeta::default()
    }
}

/// Labels of what belongs to a build that has an image.
pub fn build_labels(build: &MachineOsBuild) -> BTreeMap<String, String> {
    let label = |key: &str, value: &str| (key.to_owned(), label_value(value));
    let mut labels = build.metadata.labels.clone();
    labels.extend([
        label(labels::ON_CLUSTER_LAYERING, ""),
        label(labels::EPHEMERAL_BUILD_OBJECT, ""),
        label(labels::MACHINE_OS_BUILD, &build.metadata.name),
    ]);
    labels
}

/// Its annotations: unlike labels they hold long names whole.
pub fn build_annotations(build: &MachineOsBuild) -> BTreeMap<String, String> {
    let annotations = [
        (labels::MACHINE_OS_BUILD, &build.metadata.name),
        (labels::MACHINE_OS_CONFIG, &build.spec.machine_os_config.name),
    ];
    annotations.map(|(key, value)| (key.to_owned(), value.clone())).into()
}

/// Owner reference to the MachineOSBuild.
pub(super) fn by_build(name: &str, uid: &str) -> OwnerReference {
    OwnerReference {
        api_version: API_VERSION.to_owned(),
        kind: "MachineOSBuild".to_owned(),
        name: name.to_owned(),
        uid: uid.to_owned(),
        controller: Some(true),
        block_owner_deletion: Some(true),
    }
}

/// Owner reference to the workload.
pub(super) fn by_workload(request: &JobRequest, uid: &str) -> OwnerReference {
    let api_version = match request.builder {
        ImageBuilderType::Job => "batch/v1",
        ImageBuilderType::CustomPod => "v1",
        ImageBuilderType::OpenShiftImage => "build.openshift.io/v1",
    };
    OwnerReference {
        api_version: api_version.to_owned(),
        kind: kind(request.builder).to_owned(),
        name: job_name(&request.spec.build),
        uid: uid.to_owned(),
        controller: Some(false),
        block_owner_deletion: Some(false),
    }
}
