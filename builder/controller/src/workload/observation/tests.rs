use super::*;
use mosb_build::JobMethod;
use mosb_build::result::{Phases, Step};
use mosb_image::Digest;
use mosb_types::ErrorClass;
use serde_json::{Value, json};

const NOW: &str = "2026-01-01T00:01:00Z";
const UID: &str = "job-1";
const RUNNER: &str = "build-worker-0123456789abcdef0123456789abcdef";
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
        class: ErrorClass::InvalidInput,
        reason: "x".to_owned(),
        message: "y".to_owned(),
        last_lines: Vec::new(),
        push: None,
    };
    result(uid, outcome)
}

fn job(spec: Value, condition: Option<(&str, &str, &str)>) -> Job {
    let conditions = condition.map(|(kind, reason, time)| {
        json!([{ "type": kind, "status": "True", "reason": reason, "message": "the Job's words", "lastTransitionTime": time }])
    });
    // Counters are arbitrary.
    serde_json::from_value(json!({
        "metadata": { "uid": UID, "name": RUNNER }, "spec": spec,
        "status": { "conditions": conditions, "failed": 7, "succeeded": 9, "active": 3 },
    }))
    .unwrap()
}

fn pod(status: Value) -> Pod {
    serde_json::from_value(json!({
        "metadata": { "name": "p", "ownerReferences": [{ "apiVersion": "batch/v1", "kind": "Job", "name": RUNNER, "uid": UID }] },
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

/// The state once no result can arrive any more.
fn settled(workload: &Workload, pods: &[Pod], result: Option<&JobResult>) -> Observation {
    observe(workload, pods, result, Duration::MAX, NOW.parse().unwrap())
}

/// Independent of the end time that the cluster reports.
#[test]
fn a_result_may_arrive_shortly_after_the_end_of_the_pod() {
    for time in ["2026-01-01T00:00:58Z", "2025-12-31T00:00:00Z", "2026-01-02T00:00:00Z"] {
        let mut last = ends("image-push", 1, "Error", "");
        last["state"]["terminated"]["finishedAt"] = json!(time);
        let of_phase = |phase: &str| {
            let mut pod = pod(json!({ "phase": phase, "containerStatuses": [last.clone()] }));
            pod.metadata.uid = Some(UID.to_owned());
            pod.metadata.name = Some(RUNNER.to_owned());
            Workload::from(pod)
        };
        let evicted = || {
            let mut pod =
                pod(json!({ "phase": "Failed", "reason": "Evicted", "message": "low on memory" }));
            pod.metadata.uid = Some(UID.to_owned());
            pod.metadata.name = Some(RUNNER.to_owned());
            pod
        };
        let mut apply_error = evicted();
        apply_error.status.as_mut().unwrap().reason = Some("DeadlineExceeded".to_owned());
        let mut going = job(json!({ "suspend": false }), None);
        let deletion: Timestamp = time.parse().unwrap();
        going.metadata.deletion_timestamp = Some(deletion.into());
        let mut leaving = evicted();
        leaving.metadata.deletion_timestamp = Some(deletion.into());
        let failed = |reason| Workload::from(job(json!({}), Some(("Failed", reason, time))));
        for (workload, pods) in [
            (job(json!({}), Some(("Complete", "", time))).into(), vec![]),
            (failed(""), vec![]),
            (failed("BackoffLimitExceeded"), vec![evicted()]),
            (failed("DeadlineExceeded"), vec![]),
            (failed("DeadlineExceeded"), vec![evicted()]),
            (going.into(), vec![]),
            (of_phase("Succeeded"), vec![]),
            (of_phase("Failed"), vec![]),
            (evicted().into(), vec![]),
            (apply_error.into(), vec![]),
            (leaving.into(), vec![]),
        ] {
            let after = |seconds, result: Option<&JobResult>| {
                let quiet = Duration::from_secs(seconds);
                observe(&workload, &pods, result, quiet, NOW.parse().unwrap())
            };
            let until = |time: &str| Observation::Ending { until: time.parse().unwrap() };
            assert_eq!(after(0, None), until("2026-01-01T00:01:05Z"), "{workload}");
            assert_eq!(after(3, None), until("2026-01-01T00:01:02Z"), "{workload}");
            assert!(matches!(after(5, None), Observation::NoResult(_)), "{workload}");
            let reported = Observation::Finished(good(UID));
            assert_eq!(after(3, Some(&good(UID))), reported, "{workload}");
        }
    }
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
    let deleted_at = |time: &str, status: Value| {
        let mut pod = pod(status);
        pod.metadata.deletion_timestamp = Some(time.parse::<Timestamp>().unwrap().into());
        pod
    };
    let mut stranger = pod(
        json!({ "containerStatuses": [ends("image-push", 0, "", &good(UID).to_termination_message())] }),
    );
    stranger.metadata.owner_references = None;
    let reported = good(UID).to_termination_message();
    let of_another_build =
        JobResult { build: "infra-0123456789abcdef0123456789abcdef".parse().unwrap(), ..good(UID) };
    let reported_failure = bad(UID).to_termination_message();
    let pending = |why: Option<&str>| Observation::Pending { why: why.map(str::to_owned) };
    let lost = Observation::NoResult;
    let text = |text: &str| NoResultCause::Failed(text.to_owned());
    let until = |time: &str| Observation::Ending { until: time.parse().unwrap() };

    type Row = (&'static str, Job, Vec<Pod>, Option<JobResult>, Observation);
    let rows: Vec<Row> = vec![
        ("suspended", job(json!({ "suspend": true }), None), vec![], None, Observation::Waiting),
        ("no pod yet", job(free.clone(), None), vec![], None, pending(None)),
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
            Observation::Unscheduled { why: "0/3 nodes".to_owned() },
        ),
        (
            "its pod took longer than the pod itself may",
            failed("BackoffLimitExceeded"),
            vec![pod(
                json!({ "phase": "Failed", "reason": "DeadlineExceeded", "containerStatuses": [ends("image-push", 137, "Error", "")] }),
            )],
            None,
            lost(NoResultCause::DeadlineExceeded),
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
            "its node died, and its object stays",
            job(free.clone(), None),
            vec![deleted_at(
                LONG_AGO,
                json!({ "phase": "Running", "initContainerStatuses": [runs("image-build")],
                "conditions": [{ "type": "DisruptionTarget", "status": "True", "reason": "DeletionByTaintManager", "message": "why" }] }),
            )],
            None,
            lost(NoResultCause::NodeLost("why".to_owned())),
        ),
        (
            "deleted, and its node says nothing",
            job(free.clone(), None),
            vec![deleted_at(LONG_AGO, json!({ "phase": "Running" }))],
            None,
            lost(NoResultCause::NodeLost(
                "its pod was deleted, and its node does not report its end".to_owned(),
            )),
        ),
        (
            "deleted by a clock that is wrong",
            job(free.clone(), None),
            vec![deleted_at("2026-01-01T01:00:00Z", json!({ "phase": "Running" }))],
            None,
            lost(NoResultCause::NodeLost(
                "its pod was deleted, and its node does not report its end".to_owned(),
            )),
        ),
        (
            "on its way out",
            job(free.clone(), None),
            vec![deleted_at("2026-01-01T00:01:20Z", json!({ "phase": "Running" }))],
            None,
            until("2026-01-01T00:02:20Z"),
        ),
        (
            "too long, as its node was lost",
            failed("DeadlineExceeded"),
            vec![disrupted("DeletionByTaintManager")],
            None,
            lost(NoResultCause::NodeLost("why".to_owned())),
        ),
        ("another Job's pod", job(free.clone(), None), vec![stranger], None, pending(None)),
        (
            "reported while it runs",
            job(free.clone(), None),
            vec![],
            Some(good(UID)),
            Observation::Finished(good(UID)),
        ),
        (
            "reported by another Job",
            job(free.clone(), None),
            vec![],
            Some(good("job-0")),
            pending(None),
        ),
        (
            "in the termination message",
            job(json!({}), Some(("Complete", "", LONG_AGO))),
            vec![pod(
                json!({ "containerStatuses": [ends("image-push", 0, "Completed", &reported)] }),
            )],
            None,
            Observation::Finished(good(UID)),
        ),
        (
            "forged by image-build",
            failed("BackoffLimitExceeded"),
            vec![pod(
                json!({ "initContainerStatuses": [ends("image-build", 1, "Error", &reported)] }),
            )],
            None,
            lost(text("container image-build ended with code 1 and reported nothing")),
        ),
        (
            "failed in the last words",
            failed("BackoffLimitExceeded"),
            vec![pod(
                json!({ "containerStatuses": [ends("image-build", 1, "Error", &reported_failure)] }),
            )],
            None,
            Observation::Finished(bad(UID)),
        ),
        (
            "complete and silent",
            job(json!({}), Some(("Complete", "", LONG_AGO))),
            vec![],
            None,
            lost(text("it succeeded, but its result can't be found; was its ConfigMap deleted?")),
        ),
        (
            "too long",
            failed("DeadlineExceeded"),
            vec![],
            Some(bad(UID)),
            lost(NoResultCause::DeadlineExceeded),
        ),
        (
            "too long, but done",
            failed("DeadlineExceeded"),
            vec![],
            Some(good(UID)),
            Observation::Finished(good(UID)),
        ),
        ("the Job is going away", deleted.clone(), vec![], None, lost(NoResultCause::Deleted)),
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
            lost(NoResultCause::Deleted),
        ),
        (
            "the pod is going away",
            failed("BackoffLimitExceeded"),
            vec![gone],
            None,
            lost(NoResultCause::Deleted),
        ),
        (
            "evicted",
            failed("BackoffLimitExceeded"),
            vec![by("Evicted", "low on memory")],
            None,
            lost(NoResultCause::Evicted("low on memory".to_owned())),
        ),
        (
            "no room",
            failed("BackoffLimitExceeded"),
            vec![by("OutOfcpu", "")],
            None,
            lost(NoResultCause::Evicted("OutOfcpu".to_owned())),
        ),
        (
            "evicted for its own appetite",
            failed("BackoffLimitExceeded"),
            vec![by("Evicted", "usage exceeds the total limit")],
            None,
            lost(NoResultCause::OutOfDisk("usage exceeds the total limit".to_owned())),
        ),
        (
            "evicted for a container's own appetite",
            failed("BackoffLimitExceeded"),
            vec![by("Evicted", "Container x exceeded its local limit")],
            None,
            lost(NoResultCause::OutOfDisk("Container x exceeded its local limit".to_owned())),
        ),
        (
            "evicted as the node has too little",
            failed("BackoffLimitExceeded"),
            vec![by("Evicted", SHORT)],
            None,
            lost(NoResultCause::Evicted(SHORT.to_owned())),
        ),
        (
            "evicted by the API",
            failed("BackoffLimitExceeded"),
            vec![disrupted("EvictionByEvictionAPI")],
            None,
            lost(NoResultCause::Evicted("why".to_owned())),
        ),
        (
            "node lost",
            failed("BackoffLimitExceeded"),
            vec![disrupted("DeletionByTaintManager")],
            None,
            lost(NoResultCause::NodeLost("why".to_owned())),
        ),
        (
            "collected",
            failed("BackoffLimitExceeded"),
            vec![disrupted("DeletionByPodGC")],
            None,
            lost(NoResultCause::NodeLost("why".to_owned())),
        ),
        (
            "out of memory",
            failed("BackoffLimitExceeded"),
            vec![pod(
                json!({ "initContainerStatuses": [ends("image-build", 137, "OOMKilled", "")] }),
            )],
            None,
            lost(NoResultCause::OutOfMemory("image-build".to_owned())),
        ),
        (
            "a result of another build",
            job(free.clone(), None),
            vec![pod(
                json!({ "containerStatuses": [ends("image-push", 0, "", &of_another_build.to_termination_message())] }),
            )],
            Some(of_another_build.clone()),
            Observation::Running,
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
        let found = settled(&job.into(), &pods, result.as_ref());
        assert_eq!(found, want, "{what}");
    }
}

#[test]
fn the_state_of_a_pod_without_a_job_follows_its_own_status() {
    const LONG_AGO: &str = "2026-01-01T00:00:00Z";
    let alone = |status: Value, spec: Value, gone: bool| -> Pod {
        serde_json::from_value(json!({
            "metadata": { "name": RUNNER, "uid": UID, "deletionTimestamp": gone.then_some(LONG_AGO) },
            "spec": spec, "status": status,
        }))
        .unwrap()
    };
    let pod = |status: Value| alone(status, json!({ "containers": [] }), false);
    let going = |status: Value| alone(status, json!({ "containers": [] }), true);
    let gate = |name: &str| json!({ "containers": [], "schedulingGates": [{ "name": name }] });
    let gated = json!({ "phase": "Pending", "conditions": [{ "type": "PodScheduled", "status": "False",
        "reason": "SchedulingGated", "message": "Scheduling is blocked due to non-empty scheduling gates" }] });
    let silent = "it succeeded, but its result can't be found; was its ConfigMap deleted?";
    let text = |text: &str| Observation::NoResult(NoResultCause::Failed(text.to_owned()));
    let reported = good(UID).to_termination_message();
    let disrupted = json!([{ "type": "DisruptionTarget", "status": "True", "reason": "EvictionByEvictionAPI", "message": "drained" }]);
    let rows: Vec<(&str, Pod, Option<JobResult>, Observation)> = vec![
        (
            "held back",
            alone(gated.clone(), gate("mosb.dev/inputs"), false),
            None,
            Observation::Waiting,
        ),
        (
            "held back by others",
            alone(gated, gate("example.com/quota"), false),
            None,
            Observation::Pending {
                why: Some("Scheduling is blocked due to non-empty scheduling gates".to_owned()),
            },
        ),
        (
            "just let go",
            pod(json!({ "phase": "Pending" })),
            None,
            Observation::Pending { why: None },
        ),
        (
            "it runs",
            pod(json!({ "phase": "Running", "containerStatuses": [runs("image-build")] })),
            None,
            Observation::Running,
        ),
        ("reported", pod(json!({})), Some(good(UID)), Observation::Finished(good(UID))),
        (
            "reported by another",
            pod(json!({})),
            Some(good("job-0")),
            Observation::Pending { why: None },
        ),
        (
            "in the termination message",
            pod(
                json!({ "phase": "Succeeded", "containerStatuses": [ends("image-push", 0, "Completed", &reported)] }),
            ),
            None,
            Observation::Finished(good(UID)),
        ),
        (
            "too long",
            pod(json!({ "phase": "Failed", "reason": "DeadlineExceeded" })),
            Some(bad(UID)),
            Observation::NoResult(NoResultCause::DeadlineExceeded),
        ),
        (
            "silent",
            pod(
                json!({ "phase": "Succeeded", "containerStatuses": [ends("image-push", 0, "", "")] }),
            ),
            None,
            text(silent),
        ),
        (
            "out of memory",
            pod(
                json!({ "phase": "Failed", "initContainerStatuses": [ends("image-build", 137, "OOMKilled", "")] }),
            ),
            None,
            Observation::NoResult(NoResultCause::OutOfMemory("image-build".to_owned())),
        ),
        (
            "evicted",
            pod(json!({ "phase": "Failed", "reason": "Evicted", "message": "low on memory" })),
            None,
            Observation::NoResult(NoResultCause::Evicted("low on memory".to_owned())),
        ),
        (
            "being deleted, and may still report",
            {
                let mut pod =
                    pod(json!({ "phase": "Running", "containerStatuses": [runs("image-push")] }));
                pod.metadata.deletion_timestamp = Some(NOW.parse::<Timestamp>().unwrap().into());
                pod
            },
            None,
            Observation::Ending { until: "2026-01-01T00:02:00Z".parse().unwrap() },
        ),
        (
            "its node died, and its object stays",
            going(
                json!({ "phase": "Running", "containerStatuses": [runs("image-push")], "conditions": disrupted.clone() }),
            ),
            None,
            Observation::NoResult(NoResultCause::Evicted("drained".to_owned())),
        ),
        (
            "going away before it ran",
            going(json!({ "phase": "Pending" })),
            None,
            Observation::NoResult(NoResultCause::Deleted),
        ),
        (
            "drained before it ran",
            going(json!({ "phase": "Pending", "conditions": disrupted.clone() })),
            None,
            Observation::NoResult(NoResultCause::Evicted("drained".to_owned())),
        ),
        (
            "drained",
            going(json!({ "phase": "Failed", "conditions": disrupted })),
            None,
            Observation::NoResult(NoResultCause::Evicted("drained".to_owned())),
        ),
        (
            "deleted by somebody",
            going(
                json!({ "phase": "Failed", "containerStatuses": [ends("image-push", 143, "Error", "")] }),
            ),
            None,
            Observation::NoResult(NoResultCause::Deleted),
        ),
    ];
    for (what, pod, result, want) in rows {
        let found = settled(&pod.into(), &[], result.as_ref());
        assert_eq!(found, want, "{what}");
    }
}

#[test]
fn the_state_of_a_build_follows_its_status() {
    let build = |status: Value, gone: bool| -> Workload {
        let build: mosb_plan::api::openshift_build::OpenShiftBuild = serde_json::from_value(json!({
            "metadata": { "name": RUNNER, "uid": UID, "deletionTimestamp": gone.then_some("2026-01-01T00:00:00Z"),
                "ownerReferences": [{ "apiVersion": "machineconfiguration.openshift.io/v1", "kind": "MachineOSBuild",
                    "name": "worker-0123456789abcdef0123456789abcdef", "uid": "b" }] },
            "spec": { "completionDeadlineSeconds": 60 }, "status": status,
        }))
        .unwrap();
        build.into()
    };
    let failed = |reason: &str| json!({ "phase": "Failed", "reason": reason, "message": "so it is", "logSnippet": "STEP 5\nno package\n" });
    let pending = |why: Option<&str>| Observation::Pending { why: why.map(str::to_owned) };
    let lost = Observation::NoResult;
    let digest = Digest::of(b"image");
    let complete = |digest: &str| json!({ "phase": "Complete", "output": { "to": { "imageDigest": digest } } });
    let text = |text: &str| NoResultCause::Failed(text.to_owned());
    let refused = |reason: &str| {
        Observation::Finished(result(
            UID,
            Outcome::Failed {
                step: Step::ImageBuild,
                class: ErrorClass::Rejected,
                reason: "program-failed".to_owned(),
                message: format!("{reason}: so it is"),
                last_lines: vec!["STEP 5".to_owned(), "no package".to_owned()],
                push: None,
            },
        ))
    };
    let mut too_long = failed("GenericBuildFailed");
    too_long["startTimestamp"] = json!("2026-01-01T00:00:00Z");
    too_long["completionTimestamp"] = json!("2026-01-01T00:01:00Z");
    let mut in_time = too_long.clone();
    in_time["completionTimestamp"] = json!("2026-01-01T00:00:59Z");
    for (what, status, gone, want) in [
        ("not looked at", json!(null), false, pending(None)),
        ("new", json!({ "phase": "New" }), false, pending(None)),
        (
            "waiting",
            json!({ "phase": "New", "reason": "MissingPushSecret", "message": "no such secret" }),
            false,
            pending(Some("MissingPushSecret: no such secret")),
        ),
        ("running", json!({ "phase": "Running" }), false, Observation::Running),
        ("going away", json!({ "phase": "Running" }), true, lost(NoResultCause::Deleted)),
        ("cancelled", json!({ "phase": "Cancelled" }), false, lost(NoResultCause::Deleted)),
        (
            "evicted",
            failed("BuildPodEvicted"),
            false,
            lost(NoResultCause::Evicted("BuildPodEvicted: so it is".to_owned())),
        ),
        ("its pod deleted", failed("BuildPodDeleted"), false, lost(NoResultCause::Deleted)),
        (
            "out of memory",
            failed("OutOfMemoryKilled"),
            false,
            lost(NoResultCause::OutOfMemory("of the Build".to_owned())),
        ),
        ("a failing instruction", failed("DockerBuildFailed"), false, refused("DockerBuildFailed")),
        ("a bad name", failed("InvalidOutputReference"), false, refused("InvalidOutputReference")),
        (
            "a push that failed",
            failed("PushImageToRegistryFailed"),
            false,
            lost(text("PushImageToRegistryFailed: so it is: no package")),
        ),
        ("too long", too_long, false, lost(NoResultCause::DeadlineExceeded)),
        ("in time", in_time, false, lost(text("GenericBuildFailed: so it is: no package"))),
        (
            "without a digest",
            complete(""),
            false,
            lost(text(
                "the Build is complete, and its status names no imageDigest; does the registry return digests?",
            )),
        ),
    ] {
        let found = settled(&build(status, gone), &[], None);
        assert_eq!(found, want, "{what}");
    }
    let done = settled(&build(complete(&digest.to_string()), true), &[], None);
    let Observation::Finished(reported) = done else {
        panic!("{done:?}");
    };
    assert_eq!(reported.job_uid, UID);
    assert!(
        matches!(reported.outcome, Outcome::Succeeded { digest: found, .. } if found == digest)
    );
}
