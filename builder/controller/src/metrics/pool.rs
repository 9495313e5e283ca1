//! Metrics of one pool: gauges from the snapshot, counters from the actions that were applied.

use std::time::Duration;

use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::jiff::Timestamp;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;

use super::{Metrics, Pool, PoolState};
use crate::action::{Action, NewObject, NewStatus};
use crate::snapshot::{SeenWorkload, Snapshot};
use crate::workload::Workload;
use mosb_build::result::{JobResult, Outcome, Step as Container};
use mosb_plan::api::{BuildCondition, MachineOsBuild, MachineOsBuildStatus, labels};

/// Values of the label `state`.
const STATES: [&str; 5] = ["pending", "building", "succeeded", "failed", "interrupted"];
const JOB_STATES: [&str; 3] = ["active", "succeeded", "failed"];
const PUSH_STATES: [&str; 3] = ["pushing", "succeeded", "failed"];

impl Metrics {
    /// Sets the gauges of a pool.
    pub fn observe(&self, snapshot: &Snapshot) {
        let (Some(config), Some(pool)) = (&snapshot.config, &snapshot.pool) else {
            self.forget(&snapshot.name);
            return;
        };
        let name = pool.metadata.name.clone();
        let of = |state| PoolState { pool: name.clone(), state };
        let only =
            |family: &Family<PoolState, Gauge>, states: &[&'static str], is: Option<&str>| {
                for state in states {
                    let value = i64::from(is == Some(*state));
                    family.get_or_create(&of(state)).set(value);
                }
            };
        let build = current(snapshot, config.metadata.annotation(labels::CURRENT_MACHINE_OS_BUILD));
        only(&self.build_state, &STATES, build.map(|build| state(&build.status)));
        let job = build.and_then(|build| job_state(snapshot, build));
        only(&self.job_state, &JOB_STATES, job);
        only(&self.push_state, &PUSH_STATES, build.and_then(|build| push_state(snapshot, build)));
        let pool_label = Pool { pool: name.clone() };
        let active = snapshot.builds.iter().filter(|build| !build.status.is_terminal());
        let count = i64::try_from(active.count()).unwrap_or(i64::MAX);
        self.active.get_or_create(&pool_label).set(count);
        self.updated_nodes.get_or_create(&pool_label).set(pool.status.updated_machine_count);
        self.total_nodes.get_or_create(&pool_label).set(pool.status.machine_count);
        if let Some(status) = build.map(|build| &build.status) {
            if let Some(start) = &status.build_start {
                self.build_start.get_or_create(&pool_label).set(start.0.as_second());
            }
            if let Some(end) = &status.build_end {
                self.build_end.get_or_create(&of(state(status))).set(end.0.as_second());
            }
        }
    }

    /// Removes the gauges of a pool that is no longer built.
    pub fn forget(&self, pool: &str) {
        for (family, states) in [
            (&self.build_state, &STATES[..]),
            (&self.job_state, &JOB_STATES),
            (&self.push_state, &PUSH_STATES),
            (&self.build_end, &STATES),
        ] {
            for state in states {
                let pool = pool.to_owned();
                family.remove(&PoolState { pool, state });
            }
        }
        let pool = Pool { pool: pool.to_owned() };
        for family in [&self.build_start, &self.active, &self.updated_nodes, &self.total_nodes] {
            family.remove(&pool);
        }
    }

    /// Counts the actions that were applied.
    pub fn record_actions(&self, snapshot: &Snapshot, actions: &[Action]) {
        let Some(pool) = snapshot.pool.as_ref().map(|pool| pool.metadata.name.clone()) else {
            return;
        };
        for action in actions {
            let label = Pool { pool: pool.clone() };
            match action {
                Action::Create(NewObject::MachineOsBuild(build)) if !build.is_pre_built() => {
                    self.config_changes.get_or_create(&label).inc();
                }
                Action::CreateWorkload(attempt) if attempt.number > 1 => {
                    self.retries.get_or_create(&label).inc();
                }
                Action::ReplaceStatus(target, NewStatus::MachineOsBuild(status)) => {
                    let name = &target.name;
                    let before = snapshot.builds.iter().find(|build| build.metadata.name == *name);
                    if let Some(before) = before.filter(|build| !build.is_pre_built()) {
                        self.record_build_status(&pool, before, status, snapshot.results.get(name));
                    }
                }
                _ => {}
            }
        }
    }

    fn record_build_status(
        &self,
        pool: &str,
        before: &MachineOsBuild,
        after: &MachineOsBuildStatus,
        result: Option<&JobResult>,
    ) {
        let label = |state| PoolState { pool: pool.to_owned(), state };
        let since = |from: Timestamp, to: Timestamp| to.duration_since(from).as_secs_f64();
        if let (None, Some(start), Some(created)) =
            (&before.status.build_start, &after.build_start, &before.metadata.creation_timestamp)
        {
            let pool = pool.to_owned();
            let waited = since(created.0, start.0).max(0.0);
            self.queued.get_or_create(&Pool { pool }).observe(waited);
        }
        if before.status.is_terminal() || !after.is_terminal() {
            return;
        }
        let state = state(after);
        self.builds.get_or_create(&label(state)).inc();
        if let (Some(start), Some(end)) = (&after.build_start, &after.build_end) {
            let took = since(start.0, end.0);
            self.build_duration.get_or_create(&label(state)).observe(took);
        }
        let push = match result.map(|result| &result.outcome) {
            Some(Outcome::Succeeded { phases, .. }) => Some(("succeeded", phases.push)),
            Some(Outcome::Failed { push, .. }) => push.map(|took| ("failed", took)),
            Some(Outcome::NeedsContainerfile { .. }) | None => None,
        };
        if let Some((state, took)) = push {
            self.pushes.get_or_create(&label(state)).inc();
            let seconds = Duration::from_millis(took).as_secs_f64();
            self.push_duration.get_or_create(&label(state)).observe(seconds);
        }
    }
}

/// The build in use or in progress: the annotated one, else the newest.
fn current<'a>(snapshot: &'a Snapshot, annotated: Option<&str>) -> Option<&'a MachineOsBuild> {
    let named = |build: &&MachineOsBuild| Some(build.metadata.name.as_str()) == annotated;
    let newest =
        |build: &&MachineOsBuild| build.metadata.creation_timestamp.as_ref().map(|at| at.0);
    let mut builds = snapshot.builds.iter();
    builds.find(named).or_else(|| snapshot.builds.iter().max_by_key(newest))
}

fn state(status: &MachineOsBuildStatus) -> &'static str {
    match status.state() {
        None | Some(BuildCondition::Prepared) => "pending",
        Some(BuildCondition::Building) => "building",
        Some(BuildCondition::Succeeded) => "succeeded",
        Some(BuildCondition::Failed) => "failed",
        Some(BuildCondition::Interrupted) => "interrupted",
    }
}

fn workload_of<'a>(snapshot: &'a Snapshot, build: &MachineOsBuild) -> Option<&'a SeenWorkload> {
    let owned = |seen: &&SeenWorkload| {
        let owners = seen.workload.metadata().owner_references.iter().flatten();
        let mut owners = owners.map(|owner| &owner.uid);
        owners.any(|uid| uid == build.metadata.uid())
    };
    snapshot.workloads.iter().find(owned)
}

/// The state of the push alone. Before it starts there is none: `RUN` lines may run for an hour. A
/// direct build pushes while it builds.
fn push_state(snapshot: &Snapshot, build: &MachineOsBuild) -> Option<&'static str> {
    let seen = workload_of(snapshot, build)?;
    if let Workload::Build(build) = &seen.workload {
        let status = build.status.as_ref()?;
        return match (&*status.phase, &*status.reason) {
            ("Complete", _) => Some("succeeded"),
            (_, "PushImageToRegistryFailed") => Some("failed"),
            // OpenShift does not report when the push starts.
            _ => None,
        };
    }
    let result = snapshot.results.get(&build.metadata.name);
    let result = result.filter(|result| result.job_uid == seen.workload.uid());
    match result.map(|result| &result.outcome) {
        Some(Outcome::Succeeded { .. }) => Some("succeeded"),
        Some(Outcome::Failed { push, .. }) => push.map(|_| "failed"),
        Some(Outcome::NeedsContainerfile { .. }) => None,
        None => seen.pods().any(is_pushing).then_some("pushing"),
    }
}

/// Whether the container with the push credentials runs; `RUN` lines run in an init container.
fn is_pushing(pod: &Pod) -> bool {
    let pushes = [Container::ImageBuild, Container::ImagePush].map(Container::as_str);
    let status = pod.status.iter();
    let mut main = status.flat_map(|status| status.container_statuses.iter().flatten());
    main.any(|container| {
        let state = container.state.as_ref();
        pushes.contains(&&*container.name) && state.is_some_and(|state| state.running.is_some())
    })
}

/// The state of a Job, or of the Pod or Build in its place.
fn job_state(snapshot: &Snapshot, build: &MachineOsBuild) -> Option<&'static str> {
    match &workload_of(snapshot, build)?.workload {
        Workload::Job(job) => {
            let status = job.status.as_ref()?;
            let is = |kind: &str| {
                let mut conditions = status.conditions.iter().flatten();
                conditions.any(|condition| condition.type_ == kind && condition.status == "True")
            };
            match (is("Complete"), is("Failed"), status.active) {
                (true, _, _) => Some("succeeded"),
                (_, true, _) => Some("failed"),
                (_, _, Some(1..)) => Some("active"),
                _ => None,
            }
        }
        Workload::Pod(pod) => match pod.status.as_ref()?.phase.as_deref()? {
            "Succeeded" => Some("succeeded"),
            "Failed" => Some("failed"),
            "Running" => Some("active"),
            _ => None,
        },
        Workload::Build(build) => match &*build.status.as_ref()?.phase {
            "Complete" => Some("succeeded"),
            "Failed" | "Error" | "Cancelled" => Some("failed"),
            "Running" => Some("active"),
            _ => None,
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kinds::Kind;
    use crate::target::Target;
    use serde_json::{Value, json};

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

    fn read_config(value: Value) -> mosb_plan::api::MachineOsConfig {
        serde_json::from_value(value).unwrap()
    }

    fn build(condition: &str) -> Value {
        json!({ "metadata": { "name": "worker-b", "creationTimestamp": "2026-01-01T00:00:00Z" }, "status": {
            "conditions": [{ "type": condition, "status": "True" }],
            "buildStart": "2026-01-01T00:00:01Z", "buildEnd": "2026-01-01T00:00:03Z" } })
    }

    #[test]
    fn gauges_follow_what_is_seen_and_go_with_it() {
        let metrics = Metrics::default();
        metrics.observe(&snapshot(build("Building")));
        let text = metrics.text();
        for line in [
            "ocl_build_state{pool=\"worker\",state=\"building\"} 1",
            "ocl_build_state{pool=\"worker\",state=\"failed\"} 0",
            "ocl_active_builds{pool=\"worker\"} 1",
            "ocl_rollout_total_nodes{pool=\"worker\"} 3",
        ] {
            assert!(text.contains(line), "{line}\n{text}");
        }
        metrics.observe(&Snapshot { name: "worker".to_owned(), ..Snapshot::default() });
        assert!(!metrics.text().contains("pool=\"worker\""));
    }

    fn replace_status(build: MachineOsBuild) -> Action {
        let target = Target::of(Kind::MachineOsBuild, &build.metadata);
        Action::ReplaceStatus(target, NewStatus::MachineOsBuild(Box::new(build.status)))
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
            let metrics = Metrics::default();
            let condition = match outcome["outcome"].as_str() {
                Some("Succeeded") => "Succeeded",
                _ => "Failed",
            };
            let ended: MachineOsBuild = serde_json::from_value(build(condition)).unwrap();
            let mut before = snapshot(build("Building"));
            let name = ended.metadata.name.clone();
            before.results.insert(name, result(outcome));
            metrics.record_actions(&before, &[replace_status(ended)]);
            let text = metrics.text();
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
            let metrics = Metrics::default();
            metrics.observe(&seen);
            let text = metrics.text();
            for state in PUSH_STATES {
                let value = u8::from(want == Some(state));
                let line =
                    format!("ocl_image_push_state{{pool=\"worker\",state=\"{state}\"}} {value}");
                assert!(text.contains(&line), "{what}: {line}");
            }
        }
    }

    #[test]
    fn an_end_is_counted_when_it_is_written_and_not_when_it_is_seen() {
        let metrics = Metrics::default();
        let ended: MachineOsBuild = serde_json::from_value(build("Succeeded")).unwrap();
        let action = replace_status(ended);
        metrics.record_actions(&snapshot(build("Building")), std::slice::from_ref(&action));
        metrics.record_actions(&snapshot(build("Succeeded")), &[action]);
        let text = metrics.text();
        for line in [
            "ocl_build_total{pool=\"worker\",state=\"succeeded\"} 1",
            "ocl_build_duration_seconds_sum{pool=\"worker\",state=\"succeeded\"} 2.0",
        ] {
            assert!(text.contains(line), "{line}\n{text}");
        }
    }
}
