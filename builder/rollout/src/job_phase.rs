//! How far a Job on a machine is, from its conditions and its pods, and why its pod does not run. Pure.

use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::batch::v1::{Job, JobCondition};
use k8s_openapi::api::core::v1::{ContainerStateTerminated, Pod, PodStatus};

use super::snapshot::JobPhase;
use mosb_api::rollout::NodeReport;
use mosb_cluster::cluster_names::ROLLOUT_NAMESPACE;

/// How long after the end of a Job the watch of its pods may take to show its last one.
const POD_WAIT: Duration = Duration::from_secs(10);
/// Why a Job that ended has no report.
const NO_POD: &str = "its pod was deleted before its end was seen";
/// The most characters of a message.
const MESSAGE: usize = 1024;
/// The most characters of the kubelet's message.
const WAIT_MESSAGE: usize = 300;
/// Reasons of a container that is about to start.
const STARTING: [&str; 2] = ["ContainerCreating", "PodInitializing"];

/// How long the pods of a Job that ended are still waited for: none if it has not ended, if the end
/// of its last pod is known, or if that is missing for too long. `quiet`: time since the last watch
/// event for the Job.
pub(super) fn pod_wait(job: &Job, pods: &[Arc<Pod>], quiet: Duration) -> Option<Duration> {
    let is_complete = end(job)?.type_ == "Complete";
    let left = POD_WAIT.checked_sub(quiet).filter(|left| !left.is_zero())?;
    last_terminated(pods, is_complete).is_none().then_some(left)
}

/// The phase of a Job. It is `Running` while [`pod_wait`] waits for its pods.
pub(super) fn job_phase(job: &Job, pods: &[Arc<Pod>], quiet: Duration) -> JobPhase {
    let Some(end) = end(job) else {
        return JobPhase::Running;
    };
    if pod_wait(job, pods, quiet).is_some() {
        return JobPhase::Running;
    }
    let last = last_terminated(pods, end.type_ == "Complete");
    let text = last.and_then(|last| last.message.as_deref());
    let report = text.map(NodeReport::parse);
    let at = end.last_transition_time.clone();
    match (end.type_.as_str(), report) {
        ("Complete", Some(Ok(report))) => JobPhase::Succeeded(Box::new(report)),
        ("Complete", report) => {
            let why = match report {
                Some(Err(why)) => why,
                Some(Ok(_)) | None => NO_POD.to_owned(),
            };
            let message = format!("the Job ended without a report: {why}");
            JobPhase::Failed { exit_code: Some(0), report: None, message, at }
        }
        (_, report) => {
            let report = report.and_then(Result::ok);
            let error = report.as_ref().and_then(|report| report.error.as_ref());
            let message = match (error, last) {
                (Some(error), _) => format!("{}: {}", error.code, error.message),
                (None, last) => {
                    let reason = end.reason.as_deref().unwrap_or("Failed");
                    let why = end.message.as_deref().unwrap_or_default();
                    let more = last.map_or_else(
                        || format!("; {NO_POD}"),
                        |last| format!(", exit code {}", last.exit_code),
                    );
                    format!("{reason}: {why}{more}")
                }
            };
            JobPhase::Failed {
                exit_code: last.map(|last| last.exit_code),
                report: report.map(Box::new),
                message: message.chars().take(MESSAGE).collect(),
                at,
            }
        }
    }
}

/// The condition with which it ended.
fn end(job: &Job) -> Option<&JobCondition> {
    let conditions = job.status.as_ref()?.conditions.as_ref()?;
    let is_end = |one: &&JobCondition| {
        one.status == "True" && ["Complete", "Failed"].contains(&one.type_.as_str())
    };
    conditions.iter().find(is_end)
}

/// How the container of the newest pod ended; of a complete Job, of the newest that ended well.
fn last_terminated(pods: &[Arc<Pod>], is_complete: bool) -> Option<&ContainerStateTerminated> {
    let ended = pods.iter().filter_map(|pod| Some((pod, terminated(pod)?)));
    let ended = ended.filter(|(_, state)| !is_complete || state.exit_code == 0);
    let newest = ended.max_by_key(|(pod, _)| pod.metadata.creation_timestamp.clone());
    newest.map(|(_, state)| state)
}

fn terminated(pod: &Pod) -> Option<&ContainerStateTerminated> {
    let container = pod.status.as_ref()?.container_statuses.as_ref()?.first()?;
    container.state.as_ref()?.terminated.as_ref()
}

/// Why the newest pod does not start, for people; none if it starts, runs or has ended.
pub(super) fn pod_waiting(pods: &[Arc<Pod>]) -> Option<String> {
    let pods = pods.iter().filter(|pod| pod.metadata.deletion_timestamp.is_none());
    let pod = pods.max_by_key(|pod| pod.metadata.creation_timestamp.clone())?;
    let status = pod.status.as_ref()?;
    let name = pod.metadata.name.as_deref().unwrap_or_default();
    let (reason, message) = not_scheduled(status).or_else(|| not_started(status))?;
    let message: String = message.chars().take(WAIT_MESSAGE).collect();
    let remedy = if reason.contains("Image") {
        "check that the machine can pull mosb's image, and the pull secrets of the ServiceAccount"
    } else {
        "correct that; kubectl describe pod has its events"
    };
    Some(format!("pod {ROLLOUT_NAMESPACE}/{name} does not start: {reason}: {message}; {remedy}"))
}

fn not_scheduled(status: &PodStatus) -> Option<(&str, &str)> {
    let mut conditions = status.conditions.iter().flatten();
    let one = conditions.find(|one| one.type_ == "PodScheduled" && one.status == "False")?;
    Some((
        one.reason.as_deref().unwrap_or("Unschedulable"),
        one.message.as_deref().unwrap_or_default(),
    ))
}

fn not_started(status: &PodStatus) -> Option<(&str, &str)> {
    let containers = status.container_statuses.iter().flatten();
    let waiting = containers.filter_map(|one| one.state.as_ref()?.waiting.as_ref());
    let mut waiting = waiting.filter_map(|one| {
        Some((one.reason.as_deref()?, one.message.as_deref().unwrap_or_default()))
    });
    waiting.find(|(reason, _)| !STARTING.contains(reason))
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn job(condition: Value) -> Job {
        serde_json::from_value(json!({ "status": { "conditions": [condition] } })).unwrap()
    }

    fn pod(second: u32, exit_code: i32, message: &str) -> Arc<Pod> {
        let state = json!({ "terminated": { "exitCode": exit_code, "message": message } });
        let pod = json!({
            "metadata": { "creationTimestamp": format!("2026-01-01T00:00:0{second}Z") },
            "status": { "containerStatuses": [{
                "name": "apply", "image": "", "imageID": "", "ready": false, "restartCount": 0,
                "state": state,
            }] },
        });
        Arc::new(serde_json::from_value(pod).unwrap())
    }

    fn condition(kind: &str) -> Value {
        json!({ "type": kind, "status": "True", "reason": "PodFailurePolicy", "message": "by rule 0" })
    }

    #[test]
    fn the_last_pod_of_a_job_that_ended_has_its_report() {
        let report = |boot: &str| format!(r#"{{"bootID":"{boot}"}}"#);
        let failed = r#"{"bootID":"b","error":{"code":"x","message":"no space"}}"#;
        let complete = job(condition("Complete"));
        let failed_job = job(condition("Failed"));
        let old = Duration::from_secs(60);
        // A pod that the reboot ended has no report.
        let rebooted = pod(1, 255, "");
        for (what, job, pods, quiet, want) in [
            ("no condition", &Job::default(), vec![pod(1, 0, &report("a"))], old, "running"),
            (
                "not ended yet",
                &job(condition("FailureTarget")),
                vec![pod(1, 42, failed)],
                old,
                "running",
            ),
            ("complete", &complete, vec![rebooted.clone(), pod(2, 0, &report("b"))], old, "boot b"),
            (
                "its pod is not seen yet",
                &complete,
                vec![rebooted.clone()],
                Duration::ZERO,
                "running",
            ),
            (
                "its pod was deleted",
                &complete,
                vec![],
                old,
                "Some(0) the Job ended without a report: its pod was deleted before its end was seen",
            ),
            (
                "no report",
                &complete,
                vec![pod(2, 0, "hello")],
                old,
                "Some(0) the Job ended without a report: no report: expected value at line 1 column 1",
            ),
            (
                "failed",
                &failed_job,
                vec![rebooted.clone(), pod(2, 42, failed)],
                old,
                "Some(42) x: no space",
            ),
            (
                "killed",
                &failed_job,
                vec![pod(1, 1, "")],
                old,
                "Some(1) PodFailurePolicy: by rule 0, exit code 1",
            ),
            ("failed, its pod is not seen yet", &failed_job, vec![], Duration::ZERO, "running"),
            (
                "failed, its pod was deleted",
                &failed_job,
                vec![],
                old,
                "None PodFailurePolicy: by rule 0; its pod was deleted before its end was seen",
            ),
        ] {
            let waits = pod_wait(job, &pods, quiet);
            assert_eq!(waits, what.contains("not seen yet").then_some(POD_WAIT), "{what}");
            let found = match job_phase(job, &pods, quiet) {
                JobPhase::Running => "running".to_owned(),
                JobPhase::Succeeded(report) => format!("boot {}", report.boot_id),
                JobPhase::Failed { exit_code, message, .. } => format!("{exit_code:?} {message}"),
            };
            assert_eq!(found, want, "{what}");
        }
    }

    fn named_pod(second: u32, status: Value) -> Arc<Pod> {
        let pod = json!({
            "metadata": {
                "name": format!("p{second}"),
                "creationTimestamp": format!("2026-01-01T00:00:0{second}Z"),
            },
            "status": status,
        });
        Arc::new(serde_json::from_value(pod).unwrap())
    }

    fn container(state: Value) -> Value {
        json!({ "containerStatuses": [{
            "name": "stage", "image": "", "imageID": "", "ready": false, "restartCount": 0,
            "state": state,
        }] })
    }

    #[test]
    fn only_a_pod_that_does_not_start_has_a_reason() {
        let waiting =
            |reason: &str| container(json!({ "waiting": { "reason": reason, "message": "why" } }));
        let unschedulable = json!({ "conditions": [
            { "type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "why" },
        ] });
        let running = || container(json!({ "running": {} }));
        for (what, pods, want) in [
            ("no pod", vec![], None),
            ("it starts", vec![named_pod(1, waiting("ContainerCreating"))], None),
            ("it runs", vec![named_pod(1, running())], None),
            (
                "an older one",
                vec![named_pod(1, waiting("ImagePullBackOff")), named_pod(2, running())],
                None,
            ),
            (
                "no image",
                vec![named_pod(1, waiting("ImagePullBackOff"))],
                Some("p1 does not start: ImagePullBackOff: why; check that the machine can pull"),
            ),
            (
                "no place",
                vec![named_pod(1, unschedulable)],
                Some("p1 does not start: Unschedulable: why; correct that"),
            ),
            (
                "its config",
                vec![named_pod(1, running()), named_pod(2, waiting("CreateContainerConfigError"))],
                Some("p2 does not start: CreateContainerConfigError: why"),
            ),
        ] {
            let found = pod_waiting(&pods);
            assert_eq!(found.is_some(), want.is_some(), "{what}: {found:?}");
            let found = found.unwrap_or_default();
            assert!(found.contains(want.unwrap_or_default()), "{what}: {found}");
        }
    }
}
