use super::super::JobMethod;
use super::super::result::{Phases, Step};
use super::*;
use crate::image::Digest;
use crate::report::Class;
use serde_json::{Value, json};

const NOW: &str = "2026-01-01T00:01:00Z";
const UID: &str = "job-1";
const SHORT: &str = "The node was low on resource: ephemeral-storage. Container x was using 1Gi, which exceeds its request of 0. ";

fn result(uid: &str, outcome: Outcome) -> JobResult {
    JobResult {
        job_uid: uid.to_owned(),
        build: "worker-0123456789abcdef0123456789abcdef".parse().unwrap(),
        outcome,
    }
}

fn good(uid: &str) -> JobResult {
    let outcome = Outcome::Succeeded {
        digest: Digest::of(b"image"),
        method: JobMethod::Direct,
        bytes_pulled: 0,
        bytes_pushed: 0,
        phases: Phases::default(),
        base_tree: None,
        warnings: Vec::new(),
    };
    result(uid, outcome)
}

fn bad(uid: &str) -> JobResult {
    let outcome = Outcome::Failed {
        step: Step::ImageBuild,
        class: Class::UserInput,
        reason: "x".to_owned(),
        message: "y".to_owned(),
        last_lines: Vec::new(),
    };
    result(uid, outcome)
}

fn job(spec: Value, condition: Option<(&str, &str, &str)>) -> Job {
    let conditions = condition.map(|(kind, reason, time)| {
        json!([{ "type": kind, "status": "True", "reason": reason, "message": "the Job's words", "lastTransitionTime": time }])
    });
    // The counters say anything.
    serde_json::from_value(json!({
        "metadata": { "uid": UID, "name": "build-x" }, "spec": spec,
        "status": { "conditions": conditions, "failed": 7, "succeeded": 9, "active": 3 },
    }))
    .unwrap()
}

fn pod(status: Value) -> Pod {
    serde_json::from_value(json!({
        "metadata": { "name": "p", "ownerReferences": [{ "apiVersion": "batch/v1", "kind": "Job", "name": "build-x", "uid": UID }] },
        "status": status,
    }))
    .unwrap()
}

fn ends(name: &str, code: i32, reason: &str, message: &str) -> Value {
    json!({ "name": name, "image": "", "imageID": "", "ready": false, "restartCount": 0,
        "state": { "terminated": { "exitCode": code, "reason": reason, "message": message } } })
}

fn waits(name: &str, reason: &str, message: &str) -> Value {
    json!({ "name": name, "image": "", "imageID": "", "ready": false, "restartCount": 0,
        "state": { "waiting": { "reason": reason, "message": message } } })
}

fn runs(name: &str) -> Value {
    json!({ "name": name, "image": "", "imageID": "", "ready": true, "restartCount": 0, "state": { "running": {} } })
}

#[test]
fn a_job_is_what_its_conditions_pods_and_result_say() {
    const LONG_AGO: &str = "2026-01-01T00:00:00Z";
    let free = json!({ "suspend": false });
    let failed = |reason| job(json!({}), Some(("Failed", reason, LONG_AGO)));
    let disrupted = |reason: &str| {
        pod(
            json!({ "phase": "Failed", "conditions": [{ "type": "DisruptionTarget", "status": "True", "reason": reason, "message": "why" }] }),
        )
    };
    let by = |reason: &str, message: &str| {
        pod(json!({ "phase": "Failed", "reason": reason, "message": message }))
    };
    let mut deleted = job(free.clone(), None);
    deleted.metadata.deletion_timestamp = Some(LONG_AGO.parse::<Timestamp>().unwrap().into());
    let mut gone = pod(
        json!({ "phase": "Failed", "containerStatuses": [ends("image-build", 137, "Error", "")] }),
    );
    gone.metadata.deletion_timestamp = deleted.metadata.deletion_timestamp.clone();
    let mut stranger = pod(
        json!({ "containerStatuses": [ends("image-push", 0, "", &good(UID).to_termination_message())] }),
    );
    stranger.metadata.owner_references = None;
    let told = good(UID).to_termination_message();
    let failed_told = bad(UID).to_termination_message();
    let pending = |why: Option<&str>| Observation::Pending {
        why: why.map(str::to_owned),
    };
    let lost = Observation::Lost;
    let text = |text: &str| Lost::Failed(text.to_owned());
    let until = |time: &str| Observation::Ending {
        until: time.parse().unwrap(),
    };

    type Row = (&'static str, Job, Vec<Pod>, Option<JobResult>, Observation);
    let rows: Vec<Row> = vec![
        (
            "suspended",
            job(json!({ "suspend": true }), None),
            vec![],
            None,
            Observation::Waiting,
        ),
        (
            "no pod yet",
            job(free.clone(), None),
            vec![],
            None,
            pending(None),
        ),
        (
            "a pod that just came",
            job(free.clone(), None),
            vec![pod(json!({ "phase": "Pending" }))],
            None,
            pending(None),
        ),
        (
            "unschedulable",
            job(free.clone(), None),
            vec![pod(
                json!({ "conditions": [{ "type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "0/3 nodes" }] }),
            )],
            None,
            pending(Some("0/3 nodes")),
        ),
        (
            "the image can't be pulled",
            job(free.clone(), None),
            vec![pod(
                json!({ "initContainerStatuses": [runs("wait-for-done"), waits("image-build", "ImagePullBackOff", "no such image")], "containerStatuses": [waits("image-push", "PodInitializing", "")] }),
            )],
            None,
            pending(Some("image-build: ImagePullBackOff: no such image")),
        ),
        (
            "an init container runs",
            job(free.clone(), None),
            vec![pod(
                json!({ "phase": "Pending", "initContainerStatuses": [runs("image-build")], "containerStatuses": [waits("image-push", "PodInitializing", "")] }),
            )],
            None,
            Observation::Running,
        ),
        (
            "another Job's pod",
            job(free.clone(), None),
            vec![stranger],
            None,
            pending(None),
        ),
        (
            "told while it runs",
            job(free.clone(), None),
            vec![],
            Some(good(UID)),
            Observation::Finished(good(UID)),
        ),
        (
            "told by another Job",
            job(free.clone(), None),
            vec![],
            Some(good("job-0")),
            pending(None),
        ),
        (
            "told in the last words",
            job(json!({}), Some(("Complete", "", LONG_AGO))),
            vec![pod(
                json!({ "containerStatuses": [ends("image-push", 0, "Completed", &told)] }),
            )],
            None,
            Observation::Finished(good(UID)),
        ),
        (
            "forged by image-build",
            failed("BackoffLimitExceeded"),
            vec![pod(
                json!({ "initContainerStatuses": [ends("image-build", 1, "Error", &told)] }),
            )],
            None,
            lost(text(
                "container image-build ended with code 1 and told nothing",
            )),
        ),
        (
            "failed in the last words",
            failed("BackoffLimitExceeded"),
            vec![pod(
                json!({ "containerStatuses": [ends("image-build", 1, "Error", &failed_told)] }),
            )],
            None,
            Observation::Finished(bad(UID)),
        ),
        (
            "complete, silent, just now",
            job(json!({}), Some(("Complete", "", "2026-01-01T00:00:58Z"))),
            vec![],
            None,
            until("2026-01-01T00:01:03Z"),
        ),
        (
            "failed, silent, just now",
            job(json!({}), Some(("Failed", "", "2026-01-01T00:00:58Z"))),
            vec![],
            None,
            until("2026-01-01T00:01:03Z"),
        ),
        (
            "failed, silent, by a clock that is far ahead of ours",
            job(json!({}), Some(("Failed", "", "2026-01-01T01:00:58Z"))),
            vec![],
            None,
            lost(Lost::Deleted),
        ),
        (
            "complete and silent",
            job(json!({}), Some(("Complete", "", LONG_AGO))),
            vec![],
            None,
            lost(text(
                "it ended well, and its result can't be found; was its ConfigMap deleted?",
            )),
        ),
        (
            "too long",
            failed("DeadlineExceeded"),
            vec![],
            Some(bad(UID)),
            lost(Lost::DeadlineExceeded),
        ),
        (
            "too long, but done",
            failed("DeadlineExceeded"),
            vec![],
            Some(good(UID)),
            Observation::Finished(good(UID)),
        ),
        (
            "the Job is going away",
            deleted.clone(),
            vec![],
            None,
            lost(Lost::Deleted),
        ),
        (
            "the Job is going away, but done",
            deleted,
            vec![],
            Some(good(UID)),
            Observation::Finished(good(UID)),
        ),
        (
            "the pod is gone",
            failed("BackoffLimitExceeded"),
            vec![],
            None,
            lost(Lost::Deleted),
        ),
        (
            "the pod is going away",
            failed("BackoffLimitExceeded"),
            vec![gone],
            None,
            lost(Lost::Deleted),
        ),
        (
            "evicted",
            failed("BackoffLimitExceeded"),
            vec![by("Evicted", "low on memory")],
            None,
            lost(Lost::Evicted("low on memory".to_owned())),
        ),
        (
            "no room",
            failed("BackoffLimitExceeded"),
            vec![by("OutOfcpu", "")],
            None,
            lost(Lost::Evicted("OutOfcpu".to_owned())),
        ),
        (
            "evicted for its own appetite",
            failed("BackoffLimitExceeded"),
            vec![by("Evicted", "usage exceeds the total limit")],
            None,
            lost(Lost::OutOfDisk("usage exceeds the total limit".to_owned())),
        ),
        (
            "evicted for a container's own appetite",
            failed("BackoffLimitExceeded"),
            vec![by("Evicted", "Container x exceeded its local limit")],
            None,
            lost(Lost::OutOfDisk(
                "Container x exceeded its local limit".to_owned(),
            )),
        ),
        (
            "evicted as the node has too little",
            failed("BackoffLimitExceeded"),
            vec![by("Evicted", SHORT)],
            None,
            lost(Lost::Evicted(SHORT.to_owned())),
        ),
        (
            "evicted by the API",
            failed("BackoffLimitExceeded"),
            vec![disrupted("EvictionByEvictionAPI")],
            None,
            lost(Lost::Evicted("why".to_owned())),
        ),
        (
            "node lost",
            failed("BackoffLimitExceeded"),
            vec![disrupted("DeletionByTaintManager")],
            None,
            lost(Lost::NodeLost("why".to_owned())),
        ),
        (
            "collected",
            failed("BackoffLimitExceeded"),
            vec![disrupted("DeletionByPodGC")],
            None,
            lost(Lost::NodeLost("why".to_owned())),
        ),
        (
            "out of memory",
            failed("BackoffLimitExceeded"),
            vec![pod(
                json!({ "initContainerStatuses": [ends("image-build", 137, "OOMKilled", "")] }),
            )],
            None,
            lost(Lost::OutOfMemory("image-build".to_owned())),
        ),
        (
            "the Job's own words",
            failed("PodFailurePolicy"),
            vec![pod(json!({ "phase": "Failed" }))],
            None,
            lost(text("the Job's words")),
        ),
    ];
    for (what, job, pods, result, want) in rows {
        let found = observe(&job, &pods, result.as_ref(), NOW.parse().unwrap());
        assert_eq!(found, want, "{what}");
    }
}
