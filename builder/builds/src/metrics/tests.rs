//! Metrics of builds, as `/metrics` has them.

use std::time::Duration;

use k8s_openapi::api::core::v1::Pod;
use prometheus_client::encoding::text::encode;
use prometheus_client::registry::Registry;
use serde_json::{Value, json};

use super::BuildMetrics;
use super::build_state::PUSH_STATES;
use crate::action::Action;
use crate::snapshot::{SeenWorkload, Snapshot};
use mosb_api::MachineOsBuild;
use mosb_build::result::JobResult;
use mosb_cluster::kinds;
use mosb_cluster::object;

fn metrics_text(metrics: &BuildMetrics) -> String {
    let mut registry = Registry::default();
    metrics.register(&mut registry);
    let mut text = String::new();
    encode(&mut text, &registry).unwrap();
    text
}

fn snapshot(build: Value) -> Snapshot {
    let read = |value: Value| serde_json::from_value(value).unwrap();
    Snapshot {
        name: "worker".to_owned(),
        config: Some(read_config(json!({ "metadata": { "name": "worker" } }))),
        pool: Some(
            serde_json::from_value(
                json!({ "metadata": { "name": "worker" }, "status": { "machineCount": 3 } }),
            )
            .unwrap(),
        ),
        builds: vec![read(build)],
        ..Snapshot::default()
    }
}

fn read_config(value: Value) -> mosb_api::MachineOsConfig {
    serde_json::from_value(value).unwrap()
}

fn build(condition: &str) -> Value {
    json!({ "metadata": { "name": "worker-b", "creationTimestamp": "2026-01-01T00:00:00Z" }, "status": {
        "conditions": [{ "type": condition, "status": "True" }],
        "buildStart": "2026-01-01T00:00:01Z", "buildEnd": "2026-01-01T00:00:03Z" } })
}

#[test]
fn gauges_follow_what_is_seen_and_go_with_it() {
    let metrics = BuildMetrics::default();
    let mut seen = snapshot(build("Building"));
    let held = json!([{ "type": "ImageInService", "status": "False", "reason": "ChecksFailed" }]);
    let status = json!({ "metadata": { "name": "worker" }, "status": { "conditions": held } });
    seen.config = Some(read_config(status));
    metrics.observe(&seen);
    let text = metrics_text(&metrics);
    for line in [
        "ocl_build_state{pool=\"worker\",state=\"building\"} 1",
        "ocl_build_state{pool=\"worker\",state=\"failed\"} 0",
        "mosb_image_held{pool=\"worker\",reason=\"ChecksFailed\"} 1",
        "ocl_active_builds{pool=\"worker\"} 1",
        "ocl_rollout_total_nodes{pool=\"worker\"} 3",
    ] {
        assert!(text.contains(line), "{line}\n{text}");
    }
    metrics.observe(&Snapshot { name: "worker".to_owned(), ..Snapshot::default() });
    assert!(!metrics_text(&metrics).contains("pool=\"worker\""));
}

fn replace_status(build: MachineOsBuild) -> Action {
    object::replace_status(kinds::MACHINE_OS_BUILD, &build.metadata, &build.status)
}

const BUILD: &str = "worker-0123456789abcdef0123456789abcdef";

fn result(outcome: Value) -> JobResult {
    let mut result = json!({ "jobUid": "job-1", "build": BUILD });
    result.as_object_mut().unwrap().extend(outcome.as_object().unwrap().clone());
    serde_json::from_value(result).unwrap()
}

fn failed(action: &str, push: Option<u64>) -> Value {
    json!({ "outcome": "Failed", "step": action, "class": "refused", "reason": "x", "message": "m", "push": push })
}

fn succeeded() -> Value {
    let digest = format!("sha256:{}", "a".repeat(64));
    json!({ "outcome": "Succeeded", "digest": digest, "method": "direct", "phases": { "push": 2000 } })
}

#[test]
fn a_push_that_failed_is_counted_and_timed_whatever_container_it_ran_in() {
    for (what, outcome, state, seconds) in [
        ("of a direct build", failed("image-build", Some(1500)), Some("failed"), "1.5"),
        ("by Containerfile", failed("image-push", Some(1500)), Some("failed"), "1.5"),
        ("a RUN line", failed("image-build", None), None, ""),
        ("before it was sent", failed("image-push", None), None, ""),
        ("succeeded", succeeded(), Some("succeeded"), "2.0"),
    ] {
        let metrics = BuildMetrics::default();
        let condition = match outcome["outcome"].as_str() {
            Some("Succeeded") => "Succeeded",
            _ => "Failed",
        };
        let ended: MachineOsBuild = serde_json::from_value(build(condition)).unwrap();
        let mut before = snapshot(build("Building"));
        let name = ended.metadata.name.clone();
        before.results.insert(name, result(outcome));
        metrics.record_actions(&before, &[replace_status(ended)]);
        let text = metrics_text(&metrics);
        let lines: Vec<&str> = text
            .lines()
            .filter(|line| line.starts_with("ocl_image_push_"))
            .filter(|line| line.contains("_total") || line.contains("_sum"))
            .collect();
        let want = state.map(|state| {
            let labels = format!("{{pool=\"worker\",state=\"{state}\"}}");
            [
                format!("ocl_image_push_total{labels} 1"),
                format!("ocl_image_push_duration_seconds_sum{labels} {seconds}"),
            ]
        });
        assert_eq!(
            lines,
            want.as_ref().map_or(vec![], |two| two.iter().map(|one| &**one).collect()),
            "{what}"
        );
    }
}

#[test]
fn it_is_pushing_while_the_container_runs_that_pushes() {
    let container = |name: &str, state: &str| json!({ "name": name, "image": "", "imageID": "", "ready": false, "restartCount": 0, "state": { state: {} } });
    let by_containerfile = |build: &str, push: &str| {
        let build = match build {
            "terminated" => {
                json!({ "name": "image-build", "image": "", "imageID": "", "ready": false, "restartCount": 0, "state": { "terminated": { "exitCode": 0 } } })
            }
            other => container("image-build", other),
        };
        json!({ "initContainerStatuses": [container("wait-for-done", "running"), build],
            "containerStatuses": [container("image-push", push)] })
    };
    let direct = |state: &str| {
        json!({ "initContainerStatuses": [container("wait-for-done", "running")],
            "containerStatuses": [container("image-build", state), container("istio-proxy", "running")] })
    };
    for (what, status, outcome, want) in [
        ("RUN lines run", by_containerfile("running", "waiting"), None, None),
        ("buildah is done", by_containerfile("terminated", "waiting"), None, None),
        ("it pushes", by_containerfile("terminated", "running"), None, Some("pushing")),
        ("direct, not begun", direct("waiting"), None, None),
        ("direct", direct("running"), None, Some("pushing")),
        ("reported", direct("running"), Some(succeeded()), Some("succeeded")),
        (
            "a RUN line failed",
            by_containerfile("running", "waiting"),
            Some(failed("image-build", None)),
            None,
        ),
        ("it failed", direct("running"), Some(failed("image-build", Some(1))), Some("failed")),
        (
            "another's result",
            direct("running"),
            Some(failed("image-build", Some(1))),
            Some("pushing"),
        ),
    ] {
        let mut of = build("Building");
        of["metadata"]["uid"] = json!("build-1");
        let mut seen = snapshot(of);
        let owner = |kind: &str, uid: &str| json!([{ "apiVersion": "x/v1", "kind": kind, "name": "x", "uid": uid, "controller": true }]);
        let uid = if what == "another's result" { "job-2" } else { "job-1" };
        let job: k8s_openapi::api::batch::v1::Job = serde_json::from_value(
            json!({ "metadata": { "name": "build-x", "uid": uid, "ownerReferences": owner("MachineOSBuild", "build-1") }, "status": { "active": 1 } }),
        )
        .unwrap();
        let pod: Pod =
            serde_json::from_value(json!({ "metadata": { "name": "p" }, "status": status }))
                .unwrap();
        seen.workloads =
            vec![SeenWorkload { workload: job.into(), pods: vec![pod], quiet: Duration::MAX }];
        let result = outcome.map(|outcome| ("worker-b".to_owned(), result(outcome)));
        seen.results.extend(result);
        let metrics = BuildMetrics::default();
        metrics.observe(&seen);
        let text = metrics_text(&metrics);
        for state in PUSH_STATES {
            let value = u8::from(want == Some(state));
            let line = format!("ocl_image_push_state{{pool=\"worker\",state=\"{state}\"}} {value}");
            assert!(text.contains(&line), "{what}: {line}");
        }
    }
}

#[test]
fn an_end_is_counted_when_it_is_written_and_not_when_it_is_seen() {
    let metrics = BuildMetrics::default();
    let ended: MachineOsBuild = serde_json::from_value(build("Succeeded")).unwrap();
    let action = replace_status(ended);
    metrics.record_actions(&snapshot(build("Building")), std::slice::from_ref(&action));
    metrics.record_actions(&snapshot(build("Succeeded")), &[action]);
    let text = metrics_text(&metrics);
    for line in [
        "ocl_build_total{pool=\"worker\",state=\"succeeded\"} 1",
        "ocl_build_duration_seconds_sum{pool=\"worker\",state=\"succeeded\"} 2.0",
    ] {
        assert!(text.contains(line), "{line}\n{text}");
    }
}
