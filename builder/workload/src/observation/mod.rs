//! The state of a workload, from the workload, its pods and the reported result.

mod openshift;

use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::batch::v1::{Job, JobCondition};
use k8s_openapi::api::core::v1::{ContainerState, ContainerStatus, Pod};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

use super::Workload;
use super::pod::is_held_back;
use mosb_api::job_name;
use mosb_build::JobResult;
use mosb_build::result::Outcome;

/// The state of a workload.
#[derive(Debug, Clone, PartialEq, Eq)]
#[expect(clippy::large_enum_variant, reason = "one at a time, for the length of a decision")]
pub enum Observation {
    /// Suspended, or held back by a gate.
    Waiting,
    Pending {
        why: Option<String>,
    },
    /// No node takes its pod.
    Unscheduled {
        why: String,
    },
    Running,
    /// It has ended, but no result is visible yet: check again at this time.
    Ending {
        /// From then on it counts as without a result.
        until: Timestamp,
    },
    /// Its pod reported a result.
    Finished(JobResult),
    NoResult(NoResultCause),
}

/// Why a workload ended without a result.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum NoResultCause {
    /// The pod was evicted, with the reason.
    Evicted(String),
    /// The pod's node was deleted.
    NodeLost(String),
    /// Somebody deleted it or its pod.
    Deleted,
    /// It took longer than it may.
    DeadlineExceeded,
    /// A container needed more memory than it may have.
    OutOfMemory(String),
    /// The pod exceeded its disk limit, with the kubelet's message.
    OutOfDisk(String),
    /// A container ended with an error: its name and message.
    Failed(String),
}

/// How long after a workload's end its result may still arrive: Jobs, pods and ConfigMaps have
/// separate watches. Measured with our own clock.
const RESULT_GRACE: Duration = Duration::from_secs(5);
/// How long after its deletion time a pod may still exist. If its node is dead, the kubelet reports
/// nothing, and while the Node object exists, as on bare metal, nothing deletes the pod.
const KUBELET_GRACE: SignedDuration = SignedDuration::from_secs(60);
/// Longest wait for a pod to terminate: its grace period, and that.
const MAX_TERMINATION: SignedDuration = SignedDuration::from_secs(120);
/// Tolerated clock skew. If the cluster's clock is further ahead, one clock is wrong and there is
/// no wait.
const MAX_CLOCK_SKEW: SignedDuration = SignedDuration::from_secs(60);

/// The state of a workload. A result of another workload or build is ignored; so are a Job's
/// counters.
///
/// A result counts at once: the container that reports it does nothing afterwards. Without one, the
/// workload says whether it has ended, and its pods why. `pods` are those of a Job; a Pod is its
/// own. `quiet`: time since the last watch event for them.
pub fn observe(
    workload: &Workload,
    pods: &[Pod],
    result: Option<&JobResult>,
    quiet: Duration,
    now: Timestamp,
) -> Observation {
    let uid = workload.uid();
    let reported = result.filter(|result| is_result_of(result, workload.metadata()));
    match workload {
        Workload::Job(job) => {
            let pods: Vec<&Pod> = pods.iter().filter(|pod| is_owned_by(pod, uid)).collect();
            of_job(job, &pods, reported, quiet, now)
        }
        Workload::Pod(pod) => of_pod(pod, reported, quiet, now),
        Workload::Build(build) => openshift::of_build(build),
    }
}

fn of_job(
    job: &Job,
    pods: &[&Pod],
    reported: Option<&JobResult>,
    quiet: Duration,
    now: Timestamp,
) -> Observation {
    let reported = reported
        .cloned()
        .or_else(|| pods.iter().find_map(|pod| termination_result(pod, &job.metadata)));
    let failed = ended(job, "Failed");
    let too_long = failed.is_some_and(|end| end.reason.as_deref() == Some(DEADLINE_EXCEEDED))
        || pods.iter().any(|pod| reason(pod) == Some(DEADLINE_EXCEEDED));
    if let Some(end) = from_result(reported, too_long) {
        return end;
    }
    let disruption = || pods.iter().find_map(|pod| disruption(pod));
    if too_long {
        return without_result(quiet, now, || {
            disruption().unwrap_or(NoResultCause::DeadlineExceeded)
        });
    }
    if job.metadata.deletion_timestamp.is_some() {
        return without_result(quiet, now, || NoResultCause::Deleted);
    }
    if let Some(end) = failed {
        let failure_cause = || failure_cause(pods, end.message.as_deref());
        return without_result(quiet, now, || disruption().unwrap_or_else(failure_cause));
    }
    if ended(job, "Complete").is_some() {
        return without_result(quiet, now, || NoResultCause::Failed(NO_RESULT_MESSAGE.to_owned()));
    }
    if job.spec.as_ref().and_then(|spec| spec.suspend) == Some(true) {
        return Observation::Waiting;
    }
    let newest = pods
        .iter()
        .filter(|pod| pod.metadata.deletion_timestamp.is_none())
        .max_by_key(|pod| pod.metadata.creation_timestamp.as_ref().map(|time| time.0));
    match (newest, pods.first()) {
        (None, None) => Observation::Pending { why: None },
        (None, Some(going)) => terminating(going, now),
        (Some(pod), _) => starting(pod),
    }
}

fn of_pod(pod: &Pod, reported: Option<&JobResult>, quiet: Duration, now: Timestamp) -> Observation {
    let reported = reported.cloned().or_else(|| termination_result(pod, &pod.metadata));
    let status = pod.status.clone().unwrap_or_default();
    let too_long = status.reason.as_deref() == Some(DEADLINE_EXCEEDED);
    if let Some(end) = from_result(reported, too_long) {
        return end;
    }
    let disruption = || disruption(pod);
    match status.phase.as_deref() {
        Some("Failed") if too_long => {
            without_result(quiet, now, || NoResultCause::DeadlineExceeded)
        }
        Some("Failed") => {
            let failure_cause = || failure_cause(&[pod], status.message.as_deref());
            without_result(quiet, now, || disruption().unwrap_or_else(failure_cause))
        }
        Some("Succeeded") => {
            without_result(quiet, now, || NoResultCause::Failed(NO_RESULT_MESSAGE.to_owned()))
        }
        // Running containers may still report a result.
        _ if pod.metadata.deletion_timestamp.is_some() => {
            if containers(pod).any(|one| state(one).running.is_some()) {
                terminating(pod, now)
            } else {
                without_result(quiet, now, || disruption().unwrap_or(NoResultCause::Deleted))
            }
        }
        _ if is_held_back(pod) => Observation::Waiting,
        _ => starting(pod),
    }
}

/// Reason of a Job or pod that exceeded its deadline.
const DEADLINE_EXCEEDED: &str = "DeadlineExceeded";

/// Message if the workload succeeded without a result.
const NO_RESULT_MESSAGE: &str =
    "it succeeded, but its result can't be found; was its ConfigMap deleted?";

/// A reported result counts, except a failure of a workload that was stopped at its deadline.
fn from_result(reported: Option<JobResult>, too_long: bool) -> Option<Observation> {
    match reported {
        Some(reported) if matches!(reported.outcome, Outcome::Succeeded { .. }) => {
            Some(Observation::Finished(reported))
        }
        Some(_) if too_long => Some(Observation::NoResult(NoResultCause::DeadlineExceeded)),
        Some(reported) => Some(Observation::Finished(reported)),
        None => None,
    }
}

fn starting(pod: &Pod) -> Observation {
    if let Some(("Unschedulable", why)) = unscheduled(pod) {
        return Observation::Unscheduled { why: why.to_owned() };
    }
    match waiting_reason(pod) {
        Some(why) => Observation::Pending { why: Some(why) },
        None if containers(pod).any(has_begun) => Observation::Running,
        None => Observation::Pending { why: None },
    }
}

/// A pod that is being deleted may still report a result until its deletion time, unless that is so
/// far away that a clock must be wrong.
fn terminating(pod: &Pod, now: Timestamp) -> Observation {
    let until = pod.metadata.deletion_timestamp.as_ref();
    let until = until.and_then(|time| time.0.checked_add(KUBELET_GRACE).ok());
    match until {
        Some(until)
            if now < until && until.duration_since(now) <= MAX_TERMINATION + MAX_CLOCK_SKEW =>
        {
            Observation::Ending { until }
        }
        _ => {
            let silent = "its pod was deleted, and its node does not report its end";
            Observation::NoResult(
                disruption(pod).unwrap_or_else(|| NoResultCause::NodeLost(silent.to_owned())),
            )
        }
    }
}

fn without_result(
    quiet: Duration,
    now: Timestamp,
    lost: impl FnOnce() -> NoResultCause,
) -> Observation {
    let left = RESULT_GRACE.checked_sub(quiet).filter(|left| !left.is_zero());
    match left.and_then(|left| now.checked_add(left).ok()) {
        Some(until) => Observation::Ending { until },
        None => Observation::NoResult(lost()),
    }
}

pub(super) fn ended<'a>(job: &'a Job, kind: &str) -> Option<&'a JobCondition> {
    let conditions = job.status.as_ref()?.conditions.as_ref()?;
    conditions.iter().find(|condition| condition.type_ == kind && condition.status == "True")
}

fn is_owned_by(pod: &Pod, job_uid: &str) -> bool {
    let mut owners = pod.metadata.owner_references.iter().flatten();
    owners.any(|owner| owner.uid == job_uid)
}

/// The containers after the init containers: only they hold push credentials, and they run nothing
/// of the administrator's.
pub(super) fn main_containers(pod: &Pod) -> impl Iterator<Item = &ContainerStatus> {
    let status = pod.status.iter();
    status.flat_map(|status| status.container_statuses.iter().flatten())
}

fn containers(pod: &Pod) -> impl Iterator<Item = &ContainerStatus> {
    let status = pod.status.iter();
    let first = status.flat_map(|status| status.init_container_statuses.iter().flatten());
    first.chain(main_containers(pod))
}

pub(super) fn state(container: &ContainerStatus) -> ContainerState {
    container.state.clone().unwrap_or_default()
}

fn has_begun(container: &ContainerStatus) -> bool {
    let state = state(container);
    state.running.is_some() || state.terminated.is_some()
}

/// The result in a main container's termination message.
fn termination_result(pod: &Pod, workload: &ObjectMeta) -> Option<JobResult> {
    let messages = main_containers(pod).filter_map(|one| state(one).terminated?.message);
    let mut results = messages.filter_map(|text| JobResult::from_termination_message(&text));
    results.find(|result| is_result_of(result, workload))
}

/// Whether a result belongs to this workload: same UID and build.
fn is_result_of(result: &JobResult, workload: &ObjectMeta) -> bool {
    !result.job_uid.is_empty()
        && workload.uid.as_ref() == Some(&result.job_uid)
        && workload.name.as_ref() == Some(&job_name(&result.build))
}

/// Why the pod was evicted or lost, which is unrelated to the build.
fn disruption(pod: &Pod) -> Option<NoResultCause> {
    let status = pod.status.as_ref()?;
    let message = status.message.clone().unwrap_or_default();
    let target = status
        .conditions
        .iter()
        .flatten()
        .find(|condition| condition.type_ == "DisruptionTarget" && condition.status == "True");
    let reason = status.reason.as_deref().unwrap_or_default();
    let text = |more: &str| if message.is_empty() { more.to_owned() } else { message.clone() };
    // A pod that exceeded its own limit will do so again. "Which exceeds its request" is used if
    // the node ran out of resources.
    let is_short = message.starts_with("The node was low on resource");
    if reason == "Evicted" && message.contains("exceed") && !is_short {
        return Some(NoResultCause::OutOfDisk(message));
    }
    if let Some(target) = target {
        let reported = target.message.clone().unwrap_or_default();
        let reported = if reported.is_empty() { text(reason) } else { reported };
        return Some(match target.reason.as_deref() {
            Some("DeletionByTaintManager" | "DeletionByPodGC") => NoResultCause::NodeLost(reported),
            _ => NoResultCause::Evicted(reported),
        });
    }
    match reason {
        "NodeLost" => Some(NoResultCause::NodeLost(text("its node does not answer"))),
        "Evicted"
        | "Terminated"
        | "NodeShutdown"
        | "Shutdown"
        | "Preempting"
        | "NodeAffinity"
        | "UnexpectedAdmissionError" => Some(NoResultCause::Evicted(text(reason))),
        reason if reason.starts_with("OutOf") => Some(NoResultCause::Evicted(text(reason))),
        _ => None,
    }
}

/// Why a workload without a result failed, from its pods.
fn failure_cause(pods: &[&Pod], message: Option<&str>) -> NoResultCause {
    if pods.iter().all(|pod| pod.metadata.deletion_timestamp.is_some()) {
        return NoResultCause::Deleted;
    }
    let ends = pods
        .iter()
        .flat_map(|pod| containers(pod))
        .filter_map(|one| Some((&one.name, state(one).terminated?)));
    let bad: Vec<_> = ends.filter(|(_, end)| end.exit_code != 0).collect();
    if let Some((name, _)) = bad.iter().find(|(_, end)| end.reason.as_deref() == Some("OOMKilled"))
    {
        return NoResultCause::OutOfMemory((*name).clone());
    }
    match bad.first() {
        Some((name, end)) => NoResultCause::Failed(format!(
            "container {name} ended with code {} and reported nothing{}",
            end.exit_code,
            match end.reason.as_deref() {
                None | Some("" | "Error") => String::new(),
                Some(reason) => format!(" ({reason})"),
            }
        )),
        None => NoResultCause::Failed(
            message
                .filter(|message| !message.is_empty())
                .unwrap_or("it failed without saying why")
                .to_owned(),
        ),
    }
}

fn reason(pod: &Pod) -> Option<&str> {
    pod.status.as_ref()?.reason.as_deref()
}

/// Reason and message of the scheduler for an unscheduled pod.
fn unscheduled(pod: &Pod) -> Option<(&str, &str)> {
    let conditions = pod.status.as_ref()?.conditions.iter().flatten();
    let mut unscheduled = conditions
        .filter(|condition| condition.type_ == "PodScheduled" && condition.status == "False");
    unscheduled.find_map(|condition| {
        let reason = condition.reason.as_deref().unwrap_or_default();
        Some((reason, condition.message.as_deref()?))
    })
}

/// Why a pod can't start.
fn waiting_reason(pod: &Pod) -> Option<String> {
    let waiting = || {
        containers(pod).find_map(|one| {
            let waiting = state(one).waiting?;
            let reason = waiting.reason.filter(|reason| {
                !matches!(&**reason, "" | "PodInitializing" | "ContainerCreating")
            })?;
            let message = waiting.message.unwrap_or_default();
            let colon = if message.is_empty() { "" } else { ": " };
            Some(format!("{}: {reason}{colon}{message}", one.name))
        })
    };
    unscheduled(pod).map(|(_, message)| message.to_owned()).or_else(waiting)
}

#[cfg(test)]
mod tests;
