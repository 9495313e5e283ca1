//! The words for the state of a pool's build, its Job and its push, found in a snapshot. Pure.

use k8s_openapi::api::core::v1::Pod;

use crate::snapshot::{SeenWorkload, Snapshot};
use mosb_api::{BuildCondition, MachineOsBuild, MachineOsBuildStatus};
use mosb_build::result::{Outcome, Step as Container};
use mosb_workload::Workload;

/// Values of the label `state`.
pub(super) const STATES: [&str; 5] = ["pending", "building", "succeeded", "failed", "interrupted"];
pub(super) const JOB_STATES: [&str; 3] = ["active", "succeeded", "failed"];
pub(super) const PUSH_STATES: [&str; 3] = ["pushing", "succeeded", "failed"];

/// The build in use or in progress: the annotated one, else the newest.
pub(super) fn current<'a>(
    snapshot: &'a Snapshot,
    annotated: Option<&str>,
) -> Option<&'a MachineOsBuild> {
    let named = |build: &&MachineOsBuild| Some(build.metadata.name.as_str()) == annotated;
    let newest =
        |build: &&MachineOsBuild| build.metadata.creation_timestamp.as_ref().map(|at| at.0);
    let mut builds = snapshot.builds.iter();
    builds.find(named).or_else(|| snapshot.builds.iter().max_by_key(newest))
}

pub(super) fn state(status: &MachineOsBuildStatus) -> &'static str {
    match status.state() {
        None | Some(BuildCondition::Prepared) => "pending",
        Some(BuildCondition::Building) => "building",
        Some(BuildCondition::Succeeded) => "succeeded",
        Some(BuildCondition::Failed) => "failed",
        Some(BuildCondition::Interrupted) => "interrupted",
    }
}

fn workload_of<'a>(snapshot: &'a Snapshot, build: &MachineOsBuild) -> Option<&'a SeenWorkload> {
    let owned = |seen: &&SeenWorkload| {
        let owners = seen.workload.metadata().owner_references.iter().flatten();
        let mut owners = owners.map(|owner| &owner.uid);
        owners.any(|uid| uid == build.metadata.uid())
    };
    snapshot.workloads.iter().find(owned)
}

/// The state of the push alone. Before it starts there is none: `RUN` lines may run for an hour. A
/// direct build pushes while it builds.
pub(super) fn push_state(snapshot: &Snapshot, build: &MachineOsBuild) -> Option<&'static str> {
    let seen = workload_of(snapshot, build)?;
    if let Workload::Build(build) = &seen.workload {
        let status = build.status.as_ref()?;
        return match (&*status.phase, &*status.reason) {
            ("Complete", _) => Some("succeeded"),
            (_, "PushImageToRegistryFailed") => Some("failed"),
            // OpenShift does not report when the push starts.
            _ => None,
        };
    }
    let result = snapshot.results.get(&build.metadata.name);
    let result = result.filter(|result| result.job_uid == seen.workload.uid());
    match result.map(|result| &result.outcome) {
        Some(Outcome::Succeeded { .. }) => Some("succeeded"),
        Some(Outcome::Failed { push, .. }) => push.map(|_| "failed"),
        Some(Outcome::Prepared { .. } | Outcome::NeedsContainerfile { .. }) => None,
        None => seen.pods().any(is_pushing).then_some("pushing"),
    }
}

/// Whether the container with the push credentials runs; `RUN` lines run in an init container.
fn is_pushing(pod: &Pod) -> bool {
    let pushes = [Container::ImageBuild, Container::ImagePush].map(Container::as_str);
    let status = pod.status.iter();
    let mut main = status.flat_map(|status| status.container_statuses.iter().flatten());
    main.any(|container| {
        let state = container.state.as_ref();
        pushes.contains(&&*container.name) && state.is_some_and(|state| state.running.is_some())
    })
}

/// The state of a Job, or of the Pod or Build in its place.
pub(super) fn job_state(snapshot: &Snapshot, build: &MachineOsBuild) -> Option<&'static str> {
    match &workload_of(snapshot, build)?.workload {
        Workload::Job(job) => {
            let status = job.status.as_ref()?;
            let is = |kind: &str| {
                let mut conditions = status.conditions.iter().flatten();
                conditions.any(|condition| condition.type_ == kind && condition.status == "True")
            };
            match (is("Complete"), is("Failed"), status.active) {
                (true, _, _) => Some("succeeded"),
                (_, true, _) => Some("failed"),
                (_, _, Some(1..)) => Some("active"),
                _ => None,
            }
        }
        Workload::Pod(pod) => match pod.status.as_ref()?.phase.as_deref()? {
            "Succeeded" => Some("succeeded"),
            "Failed" => Some("failed"),
            "Running" => Some("active"),
            _ => None,
        },
        Workload::Build(build) => match &*build.status.as_ref()?.phase {
            "Complete" => Some("succeeded"),
            "Failed" | "Error" | "Cancelled" => Some("failed"),
            "Running" => Some("active"),
            _ => None,
        },
    }
}
