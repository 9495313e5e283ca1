//! The phases between the change of a pool and the image in its status.

use std::time::Duration;

use k8s_openapi::jiff::Timestamp;
use mosb_build::result::{JobResult, Outcome, RESULT_KEY};
use serde_json::Value;

use super::journal::{Journal, Seen};

/// The times of one build.
#[derive(Debug, Clone)]
pub struct Phases {
    /// The time of each of [`POINTS`].
    points: [Timestamp; POINTS.len()],
    /// The durations that the pod reported.
    pub build: mosb_build::result::Phases,
    pub pod: Value,
    /// From the image in the status to the end of the Job.
    pub cleared: Duration,
}

/// The events that separate the phases. The pod's start is between the two that belong to
/// Kubernetes.
pub const POINTS: [&str; 11] = [
    "the pool's change is seen",
    "MachineOSBuild created",
    "Job created, suspended",
    "everything that its pod needs created",
    "Job unsuspended",
    "pod created",
    "process of `wait-for-done` started",
    "process of `image-build` started",
    "result in the ConfigMap",
    "confirmed, in the MachineOSBuild's status",
    "image in the MachineOSConfig's status",
];
const UNSUSPENDED: usize = 4;
const BEGUN: usize = 7;

impl Phases {
    /// Reads the times from the journal, from the change of the pool on.
    pub fn read(journal: &Journal, after: Timestamp, pool: &str, rendered: &str) -> Self {
        let at = |what: &str, fits: &dyn Fn(&Seen) -> bool| journal.first(what, after, fits);
        let changed = at("the pool's change", &|seen| {
            seen.kind == "MachineConfigPool"
                && seen.object["spec"]["configuration"]["name"] == rendered
        });
        let made = at("a build", &|seen| {
            seen.kind == "MachineOSBuild"
                && seen.object["spec"]["machineConfig"]["name"] == rendered
        });
        let build = text(&made.object["metadata"]["name"]);
        let of_build = |seen: &Seen| {
            seen.object["metadata"]["labels"]["machineconfiguration.openshift.io/machine-os-build"]
                == build.as_str()
        };
        let succeeded = at("its status", &|seen| {
            let image = &seen.object["status"]["digestedImagePushSpec"];
            seen.kind == "MachineOSBuild"
                && seen.object["metadata"]["name"] == build.as_str()
                && image.as_str().is_some_and(|image| !image.is_empty())
        });
        let image = text(&succeeded.object["status"]["digestedImagePushSpec"]);
        let status = at("the image", &|seen| {
            seen.kind == "MachineOSConfig"
                && seen.object["metadata"]["name"] == pool
                && seen.object["status"]["currentImagePullSpec"] == image.as_str()
        });
        let job = at("its Job", &|seen| seen.kind == "Job" && of_build(seen));
        let free = at("its Job, unsuspended", &|seen| {
            seen.kind == "Job" && of_build(seen) && seen.object["spec"]["suspend"] == false
        });
        let inputs = journal.all(|seen| {
            (after..=free.at).contains(&seen.at)
                && of_build(seen)
                && ["ConfigMap", "Secret", "ServiceAccount", "Role", "RoleBinding"]
                    .contains(&seen.kind)
        });
        let inputs = inputs.last().expect("a pod needs something").at;
        let pod = at("its pod", &|seen| seen.kind == "Pod" && of_build(seen));
        let result_map = at("its result", &|seen| {
            seen.kind == "ConfigMap"
                && of_build(seen)
                && seen.object["data"][RESULT_KEY].is_string()
        });
        let result = text(&result_map.object["data"][RESULT_KEY]);
        let result = JobResult::from_json(result.as_bytes()).unwrap();
        let Outcome::Succeeded { phases, .. } = result.outcome else {
            panic!("{result:?}");
        };
        // The sandbox starts first, then the containers in their order.
        let starts_of_pod = journal.starts(pod.at, result_map.at, 3);
        let points = [
            changed.at,
            made.at,
            job.at,
            inputs,
            free.at,
            pod.at,
            starts_of_pod[1],
            starts_of_pod[2],
            result_map.at,
            succeeded.at,
            status.at,
        ];
        let end =
            at("the Job's end", &|seen| seen.kind == "Job" && of_build(seen) && seen.is_deleted);
        Self { points, build: phases, pod: pod.object, cleared: between(status.at, end.at) }
    }

    /// From the change to the image in the status.
    pub fn total(&self) -> Duration {
        between(self.points[0], self.points[POINTS.len() - 1])
    }

    /// The duration from the previous point to this one. Watches are independent, so two
    /// simultaneous events may seem reversed.
    pub fn step(&self, point: usize) -> Duration {
        between(self.points[point - 1], self.points[point])
    }

    /// The part of Kubernetes: from the start of the Job to the process of the build.
    pub fn pod_start(&self) -> Duration {
        between(self.points[UNSUSPENDED], self.points[BEGUN])
    }

    /// The pod's registry requests: for the manifest of the base, and for the push.
    pub fn registry(&self) -> Duration {
        Duration::from_millis(self.build.resolve + self.build.push)
    }

    /// The total without the pod's start and the pod's registry requests.
    pub fn ours(&self) -> Duration {
        self.total().saturating_sub(self.pod_start()).saturating_sub(self.registry())
    }
}

fn between(from: Timestamp, to: Timestamp) -> Duration {
    Duration::try_from(to.duration_since(from)).unwrap_or_default()
}

fn text(value: &Value) -> String {
    value.as_str().unwrap_or_else(|| panic!("{value}")).to_owned()
}
