//! How far the Job of an own check is, and what it found.

use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{ContainerStateTerminated, Pod};

use super::observation::{ended, main_containers, state};
use super::{NoResultCause, Observation, Workload, observe};

/// Characters of what a pod or the cluster says that the result of a check has.
const MAX_TEXT: usize = 280;

/// How far an own check is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CheckProgress {
    /// Why its pod does not run, if it does not.
    Running(Option<String>),
    /// The Job has ended, but why is not visible yet: look again at this time.
    Ending(Timestamp),
    Passed,
    /// The program found something: what it wrote last.
    Failed(String),
    /// It did not run to its end: why.
    NotEnded(String),
}

/// How far the Job of an own check is. `quiet`: time since the last watch event for it and its pods.
pub fn observe_check(
    workload: &Workload,
    pods: &[Pod],
    quiet: Duration,
    now: Timestamp,
) -> CheckProgress {
    if let Workload::Job(job) = workload
        && ended(job, "Complete").is_some()
    {
        return CheckProgress::Passed;
    }
    match observe(workload, pods, None, quiet, now) {
        Observation::Waiting | Observation::Running => CheckProgress::Running(None),
        Observation::Pending { why } => CheckProgress::Running(why.as_deref().map(in_one_line)),
        Observation::Unscheduled { why } => CheckProgress::Running(Some(in_one_line(&why))),
        Observation::Ending { until } => CheckProgress::Ending(until),
        Observation::Finished(_) => {
            CheckProgress::Failed("its pod reports the result of a build".to_owned())
        }
        Observation::NoResult(cause) => match (cause, workload.is_being_deleted()) {
            // Another one follows.
            (NoResultCause::Deleted, true) => {
                CheckProgress::Running(Some("its Job is being deleted".to_owned()))
            }
            (NoResultCause::Deleted, false) => {
                CheckProgress::NotEnded("its pod was deleted".to_owned())
            }
            (NoResultCause::Evicted(why), _) => {
                CheckProgress::NotEnded(format!("its pod was evicted: {}", in_one_line(&why)))
            }
            (NoResultCause::NodeLost(why), _) => {
                CheckProgress::NotEnded(format!("its node was lost: {}", in_one_line(&why)))
            }
            (NoResultCause::DeadlineExceeded, _) => {
                CheckProgress::NotEnded("it did not end in time".to_owned())
            }
            (NoResultCause::OutOfMemory(_), _) => {
                CheckProgress::NotEnded("it needed more memory than its limit".to_owned())
            }
            (NoResultCause::OutOfDisk(why), _) => CheckProgress::NotEnded(format!(
                "it used more disk than its limit: {}",
                in_one_line(&why)
            )),
            (NoResultCause::Failed(why), _) => match failed_end(pods) {
                Some(end) => CheckProgress::Failed(describe(end)),
                None => CheckProgress::NotEnded(in_one_line(&why)),
            },
        },
    }
}

fn failed_end(pods: &[Pod]) -> Option<ContainerStateTerminated> {
    let ends = pods.iter().flat_map(main_containers).filter_map(|one| state(one).terminated);
    ends.into_iter().find(|end| end.exit_code != 0)
}

fn describe(end: ContainerStateTerminated) -> String {
    let lines = in_one_line(&end.message.unwrap_or_default());
    let colon = if lines.is_empty() { "" } else { ": " };
    format!("it ended with exit code {}{colon}{lines}", end.exit_code)
}

/// The end of a text that a pod wrote, without control characters.
fn in_one_line(text: &str) -> String {
    let lines = text.lines().map(str::trim).filter(|line| !line.is_empty());
    let line = lines.collect::<Vec<_>>().join(" / ");
    let line: Vec<char> = line.chars().filter(|c| !c.is_control()).collect();
    line[line.len().saturating_sub(MAX_TEXT)..].iter().collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::template;
    use serde_json::json;

    #[test]
    fn progress_follows_from_job_and_pod() {
        let job = |condition: &str, reason: &str| -> Workload {
            let conditions = json!([{ "type": condition, "status": "True", "reason": reason }]);
            let mut job = template::check();
            job.metadata.name = Some("check-lint-0".to_owned());
            job.metadata.uid = Some("j".to_owned());
            job.status = serde_json::from_value(json!({ "conditions": conditions })).unwrap();
            job.into()
        };
        let pod = |state: serde_json::Value| -> Vec<Pod> {
            let status = json!({ "name": "lint", "image": "", "imageID": "", "ready": false, "restartCount": 0, "state": state });
            let owner = json!({ "apiVersion": "batch/v1", "kind": "Job", "name": "x", "uid": "j" });
            let pod = json!({ "metadata": { "name": "p", "ownerReferences": [owner] },
                "status": { "containerStatuses": [status] } });
            vec![serde_json::from_value(pod).unwrap()]
        };
        let ended = |code: i32, message: &str| {
            pod(json!({ "terminated": { "exitCode": code, "message": message } }))
        };
        let text = str::to_owned;
        let long = "x".repeat(1000);
        for (what, job, pods, want) in [
            ("new", job("", ""), vec![], CheckProgress::Running(None)),
            ("runs", job("", ""), pod(json!({ "running": {} })), CheckProgress::Running(None)),
            (
                "not pulled",
                job("", ""),
                pod(
                    json!({ "waiting": { "reason": "ErrImagePull", "message": "no\nsuch image" } }),
                ),
                CheckProgress::Running(Some(text("lint: ErrImagePull: no / such image"))),
            ),
            ("passed", job("Complete", ""), ended(0, ""), CheckProgress::Passed),
            ("passed, and its pod is deleted", job("Complete", ""), vec![], CheckProgress::Passed),
            (
                "failed",
                job("Failed", "BackoffLimitExceeded"),
                ended(1, "a\n\n b\u{1b}[0m\n"),
                CheckProgress::Failed(text("it ended with exit code 1: a / b[0m")),
            ),
            (
                "failed with much text",
                job("Failed", "BackoffLimitExceeded"),
                ended(1, &long),
                CheckProgress::Failed(format!("it ended with exit code 1: {}", &long[..MAX_TEXT])),
            ),
            (
                "failed, and its pod is deleted",
                job("Failed", "BackoffLimitExceeded"),
                vec![],
                CheckProgress::NotEnded(text("its pod was deleted")),
            ),
            (
                "too long",
                job("Failed", "DeadlineExceeded"),
                vec![],
                CheckProgress::NotEnded(text("it did not end in time")),
            ),
        ] {
            let found = observe_check(&job, &pods, Duration::MAX, Timestamp::UNIX_EPOCH);
            assert_eq!(found, want, "{what}");
            if let CheckProgress::Failed(_) = found {
                let early = observe_check(&job, &[], Duration::ZERO, Timestamp::UNIX_EPOCH);
                assert!(matches!(early, CheckProgress::Ending(_)), "{what}: its pod may follow");
            }
        }
    }
}
