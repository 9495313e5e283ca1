//! A Pod without a Job.

use super::*;

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
