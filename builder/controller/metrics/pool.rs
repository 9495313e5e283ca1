//! What is measured of one pool: gauges from what is seen, counters from what was written.

use std::time::Duration;

use k8s_openapi::jiff::Timestamp;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;

use super::super::snapshot::{SeenRunner, Snapshot};
use super::super::step::Step;
use super::{Metrics, Pool, PoolState};
use crate::api::{BuildCondition, MachineOsBuild, MachineOsBuildStatus, labels};
use crate::backend::job::Runner;
use crate::backend::job::result::{JobResult, Outcome, Step as Container};

/// The states of a build, as the labels spell them.
const STATES: [&str; 5] = ["pending", "building", "succeeded", "failed", "interrupted"];
const JOB_STATES: [&str; 3] = ["active", "succeeded", "failed"];
const PUSH_STATES: [&str; 3] = ["pushing", "succeeded", "failed"];

impl Metrics {
    /// The gauges of a pool, from what is seen.
    pub fn observe(&self, world: &Snapshot) {
        let (Some(config), Some(pool)) = (&world.config, &world.pool) else {
            self.forget(&world.name);
            return;
        };
        let name = pool.metadata.name.clone();
        let of = |state| PoolState {
            pool: name.clone(),
            state,
        };
        let only =
            |family: &Family<PoolState, Gauge>, states: &[&'static str], is: Option<&str>| {
                for state in states {
                    let value = i64::from(is == Some(*state));
                    family.get_or_create(&of(state)).set(value);
                }
            };
        let build = current(
            world,
            config.metadata.annotation(labels::CURRENT_MACHINE_OS_BUILD),
        );
        only(
            &self.build_state,
            &STATES,
            build.map(|build| state(&build.status)),
        );
        let job = build.and_then(|build| job_state(world, build));
        only(&self.job_state, &JOB_STATES, job);
        only(
            &self.push_state,
            &PUSH_STATES,
            job.map(|state| match state {
                "active" => "pushing",
                other => other,
            }),
        );
        let pool_label = Pool { pool: name.clone() };
        let active = world
            .builds
            .iter()
            .filter(|build| !build.status.is_terminal());
        let count = i64::try_from(active.count()).unwrap_or(i64::MAX);
        self.active.get_or_create(&pool_label).set(count);
        self.updated_nodes
            .get_or_create(&pool_label)
            .set(pool.status.updated_machine_count);
        self.total_nodes
            .get_or_create(&pool_label)
            .set(pool.status.machine_count);
        if let Some(status) = build.map(|build| &build.status) {
            if let Some(start) = &status.build_start {
                self.build_start
                    .get_or_create(&pool_label)
                    .set(start.0.as_second());
            }
            if let Some(end) = &status.build_end {
                self.build_end
                    .get_or_create(&of(state(status)))
                    .set(end.0.as_second());
            }
        }
    }

    /// The pool of this name is not looked at any more.
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
        let pool = Pool {
            pool: pool.to_owned(),
        };
        for family in [
            &self.build_start,
            &self.active,
            &self.updated_nodes,
            &self.total_nodes,
        ] {
            family.remove(&pool);
        }
    }

    /// Counts what was just written.
    pub fn wrote(&self, world: &Snapshot, steps: &[Step]) {
        let Some(pool) = world.pool.as_ref().map(|pool| pool.metadata.name.clone()) else {
            return;
        };
        for step in steps {
            let label = Pool { pool: pool.clone() };
            match step {
                Step::CreateBuild { build } if !build.is_pre_built() => {
                    self.config_changes.get_or_create(&label).inc();
                }
                Step::CreateRunner { attempt, .. } if *attempt > 1 => {
                    self.retries.get_or_create(&label).inc();
                }
                Step::WriteBuildStatus { name, status, .. } => {
                    let before = world
                        .builds
                        .iter()
                        .find(|build| build.metadata.name == *name);
                    if let Some(before) = before.filter(|build| !build.is_pre_built()) {
                        self.build_wrote(&pool, before, status, world.results.get(name));
                    }
                }
                _ => {}
            }
        }
    }

    fn build_wrote(
        &self,
        pool: &str,
        before: &MachineOsBuild,
        after: &MachineOsBuildStatus,
        result: Option<&JobResult>,
    ) {
        let label = |state| PoolState {
            pool: pool.to_owned(),
            state,
        };
        let since = |from: Timestamp, to: Timestamp| to.duration_since(from).as_secs_f64();
        if let (None, Some(start), Some(created)) = (
            &before.status.build_start,
            &after.build_start,
            &before.metadata.creation_timestamp,
        ) {
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
            self.build_duration
                .get_or_create(&label(state))
                .observe(took);
        }
        match result.map(|result| &result.outcome) {
            Some(Outcome::Succeeded { phases, .. }) => {
                self.pushes.get_or_create(&label("succeeded")).inc();
                let seconds = Duration::from_millis(phases.push).as_secs_f64();
                self.push_duration
                    .get_or_create(&label("succeeded"))
                    .observe(seconds);
            }
            Some(Outcome::Failed { step, .. }) if *step == Container::ImagePush => {
                self.pushes.get_or_create(&label("failed")).inc();
            }
            _ => {}
        }
    }
}

/// The build in use or on its way: the annotated one, else the newest.
fn current<'a>(world: &'a Snapshot, annotated: Option<&str>) -> Option<&'a MachineOsBuild> {
    let named = |build: &&MachineOsBuild| Some(build.metadata.name.as_str()) == annotated;
    let newest =
        |build: &&MachineOsBuild| build.metadata.creation_timestamp.as_ref().map(|at| at.0);
    let mut builds = world.builds.iter();
    builds
        .find(named)
        .or_else(|| world.builds.iter().max_by_key(newest))
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

/// Of a Pod too: what counts is what runs the build.
fn job_state(world: &Snapshot, build: &MachineOsBuild) -> Option<&'static str> {
    let owned = |seen: &&SeenRunner| {
        let owners = seen.runner.metadata().owner_references.iter().flatten();
        let mut owners = owners.map(|owner| &owner.uid);
        owners.any(|uid| uid == build.metadata.uid())
    };
    match &world.runners.iter().find(owned)?.runner {
        Runner::Job(job) => {
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
        Runner::Pod(pod) => match pod.status.as_ref()?.phase.as_deref()? {
            "Succeeded" => Some("succeeded"),
            "Failed" => Some("failed"),
            "Running" => Some("active"),
            _ => None,
        },
        Runner::Build(build) => match &*build.status.as_ref()?.phase {
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
    use serde_json::{Value, json};

    fn world(build: Value) -> Snapshot {
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

    fn read_config(value: Value) -> crate::api::MachineOsConfig {
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
        metrics.observe(&world(build("Building")));
        let text = metrics.text();
        for line in [
            "ocl_build_state{pool=\"worker\",state=\"building\"} 1",
            "ocl_build_state{pool=\"worker\",state=\"failed\"} 0",
            "ocl_active_builds{pool=\"worker\"} 1",
            "ocl_rollout_total_nodes{pool=\"worker\"} 3",
        ] {
            assert!(text.contains(line), "{line}\n{text}");
        }
        metrics.observe(&Snapshot {
            name: "worker".to_owned(),
            ..Snapshot::default()
        });
        assert!(!metrics.text().contains("pool=\"worker\""));
    }

    #[test]
    fn an_end_is_counted_when_it_is_written_and_not_when_it_is_seen() {
        let metrics = Metrics::default();
        let ended: MachineOsBuild = serde_json::from_value(build("Succeeded")).unwrap();
        let step = Step::WriteBuildStatus {
            name: "worker-b".to_owned(),
            uid: String::new(),
            resource_version: String::new(),
            status: Box::new(ended.status),
        };
        metrics.wrote(&world(build("Building")), std::slice::from_ref(&step));
        metrics.wrote(&world(build("Succeeded")), &[step]);
        let text = metrics.text();
        for line in [
            "ocl_build_total{pool=\"worker\",state=\"succeeded\"} 1",
            "ocl_build_duration_seconds_sum{pool=\"worker\",state=\"succeeded\"} 2.0",
        ] {
            assert!(text.contains(line), "{line}\n{text}");
        }
    }
}
