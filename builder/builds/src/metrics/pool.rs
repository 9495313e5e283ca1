//! Metrics of the builds of one pool: gauges from the snapshot, counters from the actions that were
//! applied.

use std::time::Duration;

use k8s_openapi::jiff::Timestamp;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use serde::Deserialize as _;

use super::BuildMetrics;
use super::build_state::{JOB_STATES, PUSH_STATES, STATES, current, job_state, push_state, state};
use crate::action::{Action, BuildEffect};
use crate::snapshot::Snapshot;
use mosb_api::{MachineOsBuild, MachineOsBuildStatus, condition, labels};
use mosb_build::result::{JobResult, Outcome};
use mosb_cluster::gate::Gate;
use mosb_cluster::kinds;
use mosb_cluster::metrics::{Pool, PoolState};
use mosb_cluster::status::IMAGE_IN_SERVICE;
use mosb_reconcile::write::{NewObject, NewStatus};

impl BuildMetrics {
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
        let in_service = condition(&config.status.conditions, IMAGE_IN_SERVICE);
        let held = in_service.filter(|condition| condition.status == "False");
        let held = held.and_then(|held| Gate::HELD.into_iter().find(|one| *one == held.reason));
        self.held.set(&snapshot.name, &name, held);
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
        self.held.forget(pool);
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
                Action::Create(new) if is_own_build(new) => {
                    self.config_changes.get_or_create(&label).inc();
                }
                Action::Effect(BuildEffect::CreateWorkload(attempt)) if attempt.number > 1 => {
                    self.retries.get_or_create(&label).inc();
                }
                Action::ReplaceStatus(target, NewStatus::Whole(status))
                    if target.kind == kinds::MACHINE_OS_BUILD =>
                {
                    let name = &target.name;
                    let before = snapshot.builds.iter().find(|build| build.metadata.name == *name);
                    if let Some(before) = before.filter(|build| !build.is_pre_built()) {
                        let status = MachineOsBuildStatus::deserialize(status)
                            .expect("the decision serialized it from this type");
                        let result = snapshot.results.get(name);
                        self.record_build_status(&pool, before, &status, result);
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
            Some(Outcome::Prepared { .. } | Outcome::NeedsContainerfile { .. }) | None => None,
        };
        if let Some((state, took)) = push {
            self.pushes.get_or_create(&label(state)).inc();
            let seconds = Duration::from_millis(took).as_secs_f64();
            self.push_duration.get_or_create(&label(state)).observe(seconds);
        }
    }
}

/// Whether it is a MachineOSBuild, and not of an image that was built elsewhere.
fn is_own_build(new: &NewObject) -> bool {
    let label = &new.body["metadata"]["labels"][labels::PRE_BUILT_IMAGE];
    new.kind == kinds::MACHINE_OS_BUILD && label != "true"
}
