//! What a Job has come to: from the Job, its pods and the result that its pod told.

use jiff::Timestamp;
use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::core::v1::Pod;

use super::JobResult;

/// What a Job has come to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Observation {
    /// It is suspended.
    Waiting,
    /// Its pod does not run yet.
    Pending {
        /// Why not, if the cluster says so.
        why: Option<String>,
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

/// Why a Job won't tell how it ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Lost {
    /// The pod was moved away, by whom or why.
    Evicted(String),
    /// The pod's node is gone.
    NodeLost(String),
    /// Somebody deleted the Job or its pod.
    Deleted,
    /// It took longer than it may.
    DeadlineExceeded,
    /// A container needed more memory than it may have.
    OutOfMemory(String),
    /// A container ended with an error: which one, and what it said.
    Failed(String),
}

/// What a Job has come to. A result of another Job is ignored, and the Job's counters always are.
pub fn observe(job: &Job, pods: &[Pod], result: Option<&JobResult>, now: Timestamp) -> Observation {
    let _ = (job, pods, result, now);
    Observation::Waiting
}
