mod build;
mod job;
mod pod_alone;

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
        prepared: None,
        os_summary: None,
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
