//! The Pod of a build, without a Job.

use k8s_openapi::api::core::v1::{
    EnvVar, EnvVarSource, ObjectFieldSelector, Pod, PodSchedulingGate,
};

use super::metadata::by_build;
use super::{InputKind, JobRequest, job};
use mosb_api::labels;

/// Scheduling gate until all inputs exist.
pub(super) const GATE: &str = "mosb.dev/inputs";
/// The variable with the UID of the Job or Pod.
const UID_VARIABLE: &str = "MOSB_JOB_UID";

/// A Pod with a scheduling gate, owned by its MachineOSBuild. Its containers are those of the
/// [`job()`].
pub fn pod(request: &JobRequest) -> Pod {
    let job = job(request);
    let spec = job.spec.expect("a test fills both templates");
    let mut metadata = job.metadata;
    metadata.owner_references =
        Some(vec![by_build(request.spec.build.as_str(), &request.build_uid)]);
    let template = spec.template.metadata.unwrap_or_default();
    metadata.labels = template.labels;
    let annotations = metadata.annotations.get_or_insert_default();
    annotations.extend(template.annotations.unwrap_or_default());
    if let Some(needs) = annotations.get_mut(labels::NEEDS) {
        // Created before the Pod: `account_before`.
        let kind = format!("{}/", InputKind::ServiceAccount);
        let words = needs.split(' ').filter(|need| !need.starts_with(&kind));
        *needs = words.collect::<Vec<_>>().join(" ");
    }
    let mut pod = spec.template.spec.expect("a test fills both templates");
    pod.active_deadline_seconds = spec.active_deadline_seconds.or(pod.active_deadline_seconds);
    pod.scheduling_gates = Some(vec![PodSchedulingGate { name: GATE.to_owned() }]);
    let all = pod.init_containers.iter_mut().flatten();
    for container in all.chain(&mut pod.containers) {
        let variables = container.env.iter_mut().flatten();
        for variable in variables.filter(|variable| variable.name == UID_VARIABLE) {
            *variable = own_uid();
        }
    }
    Pod { metadata, spec: Some(pod), status: None }
}

fn own_uid() -> EnvVar {
    EnvVar {
        name: UID_VARIABLE.to_owned(),
        value_from: Some(EnvVarSource {
            field_ref: Some(ObjectFieldSelector {
                field_path: "metadata.uid".to_owned(),
                ..ObjectFieldSelector::default()
            }),
            ..EnvVarSource::default()
        }),
        ..EnvVar::default()
    }
}

/// Whether the scheduling gate is set.
pub(super) fn is_held_back(pod: &Pod) -> bool {
    let gates = pod.spec.iter();
    let mut gates = gates.flat_map(|spec| spec.scheduling_gates.iter().flatten());
    gates.any(|gate| gate.name == GATE)
}
