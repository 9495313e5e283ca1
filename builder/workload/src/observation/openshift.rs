//! The state of an OpenShift Build, from its own status.

use jiff::SignedDuration;

use super::Observation;
use crate::NoResultCause;
use mosb_api::openshift_build::{OpenShiftBuild, OpenShiftBuildStatus};
use mosb_build::JobMethod;
use mosb_build::result::{JobResult, Outcome, Phases, Step};
use mosb_types::ErrorClass;

/// Reasons for which a retry would fail again: the instructions or their inputs are wrong.
const REJECTED_REASONS: [&str; 6] = [
    "DockerBuildFailed",
    "ManageDockerfileFailed",
    "InvalidContextDirectory",
    "InvalidOutputReference",
    "InvalidImageReference",
    "UnresolvableEnvironmentVariable",
];

pub(super) fn of_build(build: &OpenShiftBuild) -> Observation {
    let none = OpenShiftBuildStatus::default();
    let status = build.status.as_ref().unwrap_or(&none);
    let is_being_deleted = build.metadata.deletion_timestamp.is_some();
    match &*status.phase {
        "Complete" => complete(build, status),
        "Failed" | "Error" => failed(build, status),
        "Cancelled" => Observation::NoResult(NoResultCause::Deleted),
        _ if is_being_deleted => Observation::NoResult(NoResultCause::Deleted),
        "Running" => Observation::Running,
        // New, Pending, or not processed yet.
        _ => Observation::Pending { why: (!status.reason.is_empty()).then(|| describe(status)) },
    }
}

fn describe(status: &OpenShiftBuildStatus) -> String {
    if status.message.is_empty() {
        status.reason.clone()
    } else {
        format!("{}: {}", status.reason, status.message)
    }
}

fn complete(build: &OpenShiftBuild, status: &OpenShiftBuildStatus) -> Observation {
    let digest = status.output.as_ref().map(|output| &*output.to.image_digest);
    match digest.unwrap_or_default().parse() {
        Ok(digest) => finished(
            build,
            Outcome::Succeeded {
                digest,
                method: JobMethod::Containerfile,
                bytes_pulled: 0,
                bytes_pushed: 0,
                phases: Phases::default(),
                base_tree: None,
                prepared: None,
                os_summary: None,
                warnings: Vec::new(),
            },
        ),
        Err(_) => Observation::NoResult(NoResultCause::Failed(
            "the Build is complete, and its status names no imageDigest; does the registry return digests?".to_owned(),
        )),
    }
}

fn failed(build: &OpenShiftBuild, status: &OpenShiftBuildStatus) -> Observation {
    match &*status.reason {
        "BuildPodEvicted" => Observation::NoResult(NoResultCause::Evicted(describe(status))),
        "BuildPodDeleted" | "CancelledBuild" => Observation::NoResult(NoResultCause::Deleted),
        "OutOfMemoryKilled" => {
            Observation::NoResult(NoResultCause::OutOfMemory("of the Build".to_owned()))
        }
        _ if deadline_exceeded(build, status) => {
            Observation::NoResult(NoResultCause::DeadlineExceeded)
        }
        reason if REJECTED_REASONS.contains(&reason) => finished(
            build,
            Outcome::Failed {
                step: Step::ImageBuild,
                class: ErrorClass::Rejected,
                reason: "program-failed".to_owned(),
                message: describe(status),
                last_lines: status.log_snippet.lines().map(str::to_owned).collect(),
                push: None,
            },
        ),
        // The reason is the same for an unavailable registry and a rejected push.
        _ => {
            let mut why = describe(status);
            if let Some(last) = status.log_snippet.lines().rfind(|line| !line.trim().is_empty()) {
                why = format!("{why}: {last}");
            }
            Observation::NoResult(NoResultCause::Failed(why))
        }
    }
}

fn deadline_exceeded(build: &OpenShiftBuild, status: &OpenShiftBuildStatus) -> bool {
    let (Some(start), Some(end), Some(most)) = (
        &status.start_timestamp,
        &status.completion_timestamp,
        build.spec.completion_deadline_seconds,
    ) else {
        return false;
    };
    end.0.duration_since(start.0) >= SignedDuration::from_secs(most)
}

/// The result, as our own pod would report it.
fn finished(build: &OpenShiftBuild, outcome: Outcome) -> Observation {
    let meta = &build.metadata;
    let mut owners = meta.owner_references.iter().flatten();
    let owner = owners.find(|owner| owner.kind == "MachineOSBuild");
    let name = owner.and_then(|owner| owner.name.parse().ok());
    match name {
        Some(name) => Observation::Finished(JobResult {
            job_uid: meta.uid.clone().unwrap_or_default(),
            build: name,
            outcome,
        }),
        None => Observation::NoResult(NoResultCause::Failed(
            "the Build has no MachineOSBuild as owner; delete it".to_owned(),
        )),
    }
}
