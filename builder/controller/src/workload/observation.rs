//! What a build's runner has come to: from the runner, its pods and the result that was told.

mod openshift;

use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::batch::v1::{Job, JobCondition};
use k8s_openapi::api::core::v1::{ContainerState, ContainerStatus, Pod};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

use super::Runner;
use super::pod::is_held_back;
use mosb_build::JobResult;
use mosb_build::result::Outcome;
use mosb_plan::api::job_name;

/// What a runner has come to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Observation {
    /// It is suspended, or held back.
    Waiting,
    /// Its pod does not run yet.
    Pending {
        /// Why not, if the cluster says so.
        why: Option<String>,
    },
    /// No node takes its pod.
    Unscheduled {
        /// What the scheduler says.
        why: String,
    },
    /// Its pod runs.
    Running,
    /// It has ended, and what its pod told is not seen yet: look again at this time.
    Ending {
        /// When it counts as having told nothing.
        until: Timestamp,
    },
    /// Its pod told how it ended.
    Finished(JobResult),
    /// It won't tell.
    Lost(Lost),
}

/// Why a runner won't tell how it ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Lost {
    /// The pod was moved away, by whom or why.
    Evicted(String),
    /// The pod's node is gone.
    NodeLost(String),
    /// Somebody deleted it or its pod.
    Deleted,
    /// It took longer than it may.
    DeadlineExceeded,
    /// A container needed more memory than it may have.
    OutOfMemory(String),
    /// The pod used more disk than it may have: what the kubelet said.
    OutOfDisk(String),
    /// A container ended with an error: which one, and what it said.
    Failed(String),
}

/// How long after we saw its end a runner's result may still be on its way to us: Jobs, pods and ConfigMaps are watched each for
/// itself. No clock of a cluster is asked for it.
const GRACE: Duration = Duration::from_secs(5);
/// How long after its time a pod that is being deleted may still be there: where its node is dead, its kubelet says nothing any
/// more, and as long as the node's object stays, as on bare metal, nobody else takes the pod away.
const UNANSWERED: SignedDuration = SignedDuration::from_secs(60);
/// What is waited for a pod to end at most: its grace period, and that.
const LAST_WORDS: SignedDuration = SignedDuration::from_secs(120);
/// The cluster's clock may be ahead of ours by so much; if it is by more, one of them is wrong, and not waited for.
const SKEW: SignedDuration = SignedDuration::from_secs(60);

/// What a build's runner has come to. A result of another runner or another build is ignored, and a Job's counters always are.
///
/// A result counts as soon as it is there: the container that tells it does nothing after. Without one, the runner itself
/// says whether it has ended, and its pods why. The pods are those of a Job; a Pod is its own. `quiet` is for how long nothing new
/// was seen of them.
pub fn observe(
    runner: &Runner,
    pods: &[Pod],
    result: Option<&JobResult>,
    quiet: Duration,
    now: Timestamp,
) -> Observation {
    let uid = runner.uid();
    let told = result.filter(|result| is_of(result, runner.metadata()));
    match runner {
        Runner::Job(job) => {
            let pods: Vec<&Pod> = pods.iter().filter(|pod| is_owned_by(pod, uid)).collect();
            of_job(job, &pods, told, quiet, now)
        }
        Runner::Pod(pod) => of_pod(pod, told, quiet, now),
        Runner::Build(build) => openshift::of_build(build),
    }
}

fn of_job(
    job: &Job,
    pods: &[&Pod],
    told: Option<&JobResult>,
    quiet: Duration,
    now: Timestamp,
) -> Observation {
    let told = told.cloned().or_else(|| pods.iter().find_map(|pod| last_words(pod, &job.metadata)));
    let failed = ended(job, "Failed");
    let too_long = failed.is_some_and(|end| end.reason.as_deref() == Some(TOO_LONG))
        || pods.iter().any(|pod| reason(pod) == Some(TOO_LONG));
    if let Some(end) = finished(told, too_long) {
        return end;
    }
    let taken = || pods.iter().find_map(|pod| taken(pod));
    if too_long {
        return without_result(quiet, now, || taken().unwrap_or(Lost::DeadlineExceeded));
    }
    if job.metadata.deletion_timestamp.is_some() {
        return without_result(quiet, now, || Lost::Deleted);
    }
    if let Some(end) = failed {
        let died = || died(pods, end.message.as_deref());
        return without_result(quiet, now, || taken().unwrap_or_else(died));
    }
    if ended(job, "Complete").is_some() {
        return without_result(quiet, now, || Lost::Failed(SILENT.to_owned()));
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
        (None, Some(going)) => until_it_is_gone(going, now),
        (Some(pod), _) => on_its_way(pod),
    }
}

fn of_pod(pod: &Pod, told: Option<&JobResult>, quiet: Duration, now: Timestamp) -> Observation {
    let told = told.cloned().or_else(|| last_words(pod, &pod.metadata));
    let status = pod.status.clone().unwrap_or_default();
    let too_long = status.reason.as_deref() == Some(TOO_LONG);
    if let Some(end) = finished(told, too_long) {
        return end;
    }
    let taken = || taken(pod);
    match status.phase.as_deref() {
        Some("Failed") if too_long => without_result(quiet, now, || Lost::DeadlineExceeded),
        Some("Failed") => {
            let died = || died(&[pod], status.message.as_deref());
            without_result(quiet, now, || taken().unwrap_or_else(died))
        }
        Some("Succeeded") => without_result(quiet, now, || Lost::Failed(SILENT.to_owned())),
        // Its containers may still tell until they have ended.
        _ if pod.metadata.deletion_timestamp.is_some() => {
            match containers(pod).any(|one| state(one).running.is_some()) {
                true => until_it_is_gone(pod, now),
                false => without_result(quiet, now, || taken().unwrap_or(Lost::Deleted)),
            }
        }
        _ if is_held_back(pod) => Observation::Waiting,
        _ => on_its_way(pod),
    }
}

/// Why a Job or a pod ended that took longer than it may.
const TOO_LONG: &str = "DeadlineExceeded";

/// What there is to say of something that ended without an error and without a result.
const SILENT: &str = "it ended well, and its result can't be found; was its ConfigMap deleted?";

/// What was told counts, but for a failure of something that was stopped for taking too long.
fn finished(told: Option<JobResult>, too_long: bool) -> Option<Observation> {
    match told {
        Some(told) if matches!(told.outcome, Outcome::Succeeded { .. }) => {
            Some(Observation::Finished(told))
        }
        Some(_) if too_long => Some(Observation::Lost(Lost::DeadlineExceeded)),
        Some(told) => Some(Observation::Finished(told)),
        None => None,
    }
}

fn on_its_way(pod: &Pod) -> Observation {
    if let Some(("Unschedulable", why)) = unscheduled(pod) {
        return Observation::Unscheduled { why: why.to_owned() };
    }
    match hindered(pod) {
        Some(why) => Observation::Pending { why: Some(why) },
        None if containers(pod).any(has_begun) => Observation::Running,
        None => Observation::Pending { why: None },
    }
}

/// Of a pod that is being deleted: something may still be told until it should be gone, if that is no further away than it can be
/// by a right clock.
fn until_it_is_gone(pod: &Pod, now: Timestamp) -> Observation {
    let until = pod.metadata.deletion_timestamp.as_ref();
    let until = until.and_then(|time| time.0.checked_add(UNANSWERED).ok());
    match until {
        Some(until) if now < until && until.duration_since(now) <= LAST_WORDS + SKEW => {
            Observation::Ending { until }
        }
        _ => {
            let silent = "its pod was deleted, and its node does not say that it ended";
            Observation::Lost(taken(pod).unwrap_or_else(|| Lost::NodeLost(silent.to_owned())))
        }
    }
}

fn without_result(quiet: Duration, now: Timestamp, lost: impl FnOnce() -> Lost) -> Observation {
    let left = GRACE.checked_sub(quiet).filter(|left| !left.is_zero());
    match left.and_then(|left| now.checked_add(left).ok()) {
        Some(until) => Observation::Ending { until },
        None => Observation::Lost(lost()),
    }
}

fn ended<'a>(job: &'a Job, kind: &str) -> Option<&'a JobCondition> {
    let conditions = job.status.as_ref()?.conditions.as_ref()?;
    conditions.iter().find(|condition| condition.type_ == kind && condition.status == "True")
}

fn is_owned_by(pod: &Pod, job_uid: &str) -> bool {
    let mut owners = pod.metadata.owner_references.iter().flatten();
    owners.any(|owner| owner.uid == job_uid)
}

/// The containers that come after the init containers: the only ones that hold the push credentials and run nothing of the administrator's.
fn main_containers(pod: &Pod) -> impl Iterator<Item = &ContainerStatus> {
    let status = pod.status.iter();
    status.flat_map(|status| status.container_statuses.iter().flatten())
}

fn containers(pod: &Pod) -> impl Iterator<Item = &ContainerStatus> {
    let status = pod.status.iter();
    let first = status.flat_map(|status| status.init_container_statuses.iter().flatten());
    first.chain(main_containers(pod))
}

fn state(container: &ContainerStatus) -> ContainerState {
    container.state.clone().unwrap_or_default()
}

fn has_begun(container: &ContainerStatus) -> bool {
    let state = state(container);
    state.running.is_some() || state.terminated.is_some()
}

/// The result in a main container's termination message.
fn last_words(pod: &Pod, runner: &ObjectMeta) -> Option<JobResult> {
    let messages = main_containers(pod).filter_map(|one| state(one).terminated?.message);
    let mut results = messages.filter_map(|text| JobResult::from_termination_message(&text));
    results.find(|result| is_of(result, runner))
}

/// Whether a result is of this runner: of its UID, and of the build that it runs.
fn is_of(result: &JobResult, runner: &ObjectMeta) -> bool {
    !result.job_uid.is_empty()
        && runner.uid.as_ref() == Some(&result.job_uid)
        && runner.name.as_ref() == Some(&job_name(&result.build))
}

/// Whether somebody took the pod away, which says nothing about the build.
fn taken(pod: &Pod) -> Option<Lost> {
    let status = pod.status.as_ref()?;
    let message = status.message.clone().unwrap_or_default();
    let disruption = status
        .conditions
        .iter()
        .flatten()
        .find(|condition| condition.type_ == "DisruptionTarget" && condition.status == "True");
    let reason = status.reason.as_deref().unwrap_or_default();
    let text = |more: &str| match message.is_empty() {
        true => more.to_owned(),
        false => message.clone(),
    };
    // A pod that used more than its own limit will do so again. "Which exceeds its request" is said where the node ran short.
    let is_short = message.starts_with("The node was low on resource");
    if reason == "Evicted" && message.contains("exceed") && !is_short {
        return Some(Lost::OutOfDisk(message));
    }
    if let Some(disruption) = disruption {
        let told = disruption.message.clone().unwrap_or_default();
        let told = if told.is_empty() { text(reason) } else { told };
        return Some(match disruption.reason.as_deref() {
            Some("DeletionByTaintManager" | "DeletionByPodGC") => Lost::NodeLost(told),
            _ => Lost::Evicted(told),
        });
    }
    match reason {
        "NodeLost" => Some(Lost::NodeLost(text("its node does not answer"))),
        "Evicted"
        | "Terminated"
        | "NodeShutdown"
        | "Shutdown"
        | "Preempting"
        | "NodeAffinity"
        | "UnexpectedAdmissionError" => Some(Lost::Evicted(text(reason))),
        reason if reason.starts_with("OutOf") => Some(Lost::Evicted(text(reason))),
        _ => None,
    }
}

/// Why a runner without a result failed, as far as its pods tell.
fn died(pods: &[&Pod], message: Option<&str>) -> Lost {
    if pods.iter().all(|pod| pod.metadata.deletion_timestamp.is_some()) {
        return Lost::Deleted;
    }
    let ends = pods
        .iter()
        .flat_map(|pod| containers(pod))
        .filter_map(|one| Some((&one.name, state(one).terminated?)));
    let bad: Vec<_> = ends.filter(|(_, end)| end.exit_code != 0).collect();
    if let Some((name, _)) = bad.iter().find(|(_, end)| end.reason.as_deref() == Some("OOMKilled"))
    {
        return Lost::OutOfMemory((*name).clone());
    }
    match bad.first() {
        Some((name, end)) => Lost::Failed(format!(
            "container {name} ended with code {} and told nothing{}",
            end.exit_code,
            match end.reason.as_deref() {
                None | Some("" | "Error") => String::new(),
                Some(reason) => format!(" ({reason})"),
            }
        )),
        None => Lost::Failed(
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

/// Why no node takes a pod, or why none is looked for, by the scheduler's word for it.
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
fn hindered(pod: &Pod) -> Option<String> {
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
