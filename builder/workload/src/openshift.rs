//! The build as an OpenShift `Build`, which the cluster's own builder runs.
//!
//! It contains none of our containers: the rendered config is processed in advance and passed in
//! ConfigMaps. A Build can't be suspended (its pod waits for its inputs), and it can't keep push
//! credentials away from the instructions.

use k8s_openapi::api::core::v1::{
    ConfigMapVolumeSource, LocalObjectReference, ResourceRequirements, SecretVolumeSource,
};

use super::metadata::{by_build, metadata};
use super::names::{PULL, PUSH, volumes};
use super::placement::node_selector;
use super::{InputKind, JobRequest, resources};
use mosb_api::openshift_build::{
    BuildOutput, BuildSource, BuildStrategy, BuildVolume, BuildVolumeMount, BuildVolumeSource,
    ConfigMapBuildSource, DockerBuildStrategy, ImageReference, OpenShiftBuild, OpenShiftBuildSpec,
};
use mosb_api::{job_name, labels, object_name};
use mosb_plan::payload::ContextMap;

/// Additional inputs of an OpenShift Build.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OpenShiftSource {
    pub dockerfile: String,
    pub context: Vec<ContextMap>,
}

/// The OpenShift Build, owned by the MachineOSBuild. Its pod waits for the inputs in annotation
/// `mosb.dev/needs`.
pub(super) fn build(request: &JobRequest, from: &OpenShiftSource) -> OpenShiftBuild {
    let mut meta = metadata(request, job_name(&request.spec.build));
    meta.owner_references = Some(vec![by_build(request.spec.build.as_str(), &request.build_uid)]);
    let needs: Vec<String> =
        needs(request, from).iter().map(|(kind, name)| format!("{kind}/{name}")).collect();
    meta.annotations.get_or_insert_default().extend([
        (labels::ATTEMPT.to_owned(), request.attempt.to_string()),
        (labels::METHOD.to_owned(), request.method.to_string()),
        (labels::NEEDS.to_owned(), needs.join(" ")),
    ]);
    let settings = &request.settings;
    let nodes = node_selector(request.into());
    let mut wanted = ResourceRequirements::default();
    resources::fill(&mut wanted, &settings.resources.image_build);
    OpenShiftBuild {
        metadata: meta,
        spec: OpenShiftBuildSpec {
            completion_deadline_seconds: Some(deadline(request)),
            node_selector: (!nodes.is_empty()).then_some(nodes),
            output: BuildOutput {
                to: ImageReference {
                    kind: "DockerImage".to_owned(),
                    name: format!("{}:{}", request.spec.push, request.rendered.tag()),
                },
                push_secret: named(object_name(PUSH, &request.spec.build)),
            },
            resources: (wanted != ResourceRequirements::default()).then_some(wanted),
            service_account: None,
            source: BuildSource {
                type_: "Dockerfile".to_owned(),
                dockerfile: from.dockerfile.clone(),
                config_maps: from.context.iter().map(copied).collect(),
            },
            strategy: BuildStrategy {
                type_: "Docker".to_owned(),
                docker_strategy: DockerBuildStrategy {
                    pull_secret: Some(named(object_name(PULL, &request.spec.build))),
                    volumes: administrators_own(request),
                },
            },
        },
        ..OpenShiftBuild::default()
    }
}

fn named(name: String) -> LocalObjectReference {
    LocalObjectReference { name }
}

fn copied(one: &ContextMap) -> ConfigMapBuildSource {
    ConfigMapBuildSource {
        config_map: named(one.map.metadata.name.clone()),
        destination_dir: one.folder.clone(),
    }
}

/// The deadline of a Containerfile Job.
fn deadline(request: &JobRequest) -> i64 {
    let seconds = request.settings.active_deadline_seconds.containerfile;
    seconds.map_or_else(super::template::containerfile_deadline, i64::from)
}

fn needs(request: &JobRequest, from: &OpenShiftSource) -> Vec<(InputKind, String)> {
    let context = from.context.iter();
    let mut needs: Vec<_> =
        context.map(|one| (InputKind::ConfigMap, one.map.metadata.name.clone())).collect();
    needs.extend(
        [PULL, PUSH].map(|prefix| (InputKind::Secret, object_name(prefix, &request.spec.build))),
    );
    let copies = request.copies.iter();
    needs.extend(copies.map(|copy| (copy.kind(), copy.name().to_owned())));
    needs
}

/// The administrator's package sources for all builds, as our own pod mounts them.
fn administrators_own(request: &JobRequest) -> Vec<BuildVolume> {
    let secret = |name: &String| BuildVolumeSource {
        type_: "Secret".to_owned(),
        secret: Some(SecretVolumeSource {
            secret_name: Some(name.clone()),
            ..SecretVolumeSource::default()
        }),
        ..BuildVolumeSource::default()
    };
    let map = |name: &String| BuildVolumeSource {
        type_: "ConfigMap".to_owned(),
        config_map: Some(ConfigMapVolumeSource {
            name: name.clone(),
            ..ConfigMapVolumeSource::default()
        }),
        ..BuildVolumeSource::default()
    };
    let all = [
        (volumes::ENTITLEMENT, request.entitlement.as_ref().map(secret), "/etc/pki/entitlement"),
        (volumes::REPOSITORIES, request.repositories.as_ref().map(map), "/etc/yum.repos.d"),
        (volumes::PACKAGE_KEYS, request.package_keys.as_ref().map(secret), "/etc/pki/rpm-gpg"),
    ];
    let volume = |(name, source, path): (&str, Option<BuildVolumeSource>, &str)| {
        Some(BuildVolume {
            name: name.to_owned(),
            source: source?,
            mounts: vec![BuildVolumeMount { destination_path: path.to_owned() }],
        })
    };
    all.into_iter().filter_map(volume).collect()
}
