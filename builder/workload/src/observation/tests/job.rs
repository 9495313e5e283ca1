//! A Job, with its pods and its result.

use super::*;

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
