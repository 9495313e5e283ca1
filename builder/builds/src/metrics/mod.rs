//! The metrics of the Machine Config Operator's builder, under the same names, and of our builds. Gauges
//! follow the observed state; counters and durations follow our own writes of an end, so that
//! nothing is counted twice.

mod build_state;
mod pool;

#[cfg(test)]
mod tests;

use std::time::Duration;

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::Registry;

use mosb_cluster::metrics::{Durations, Pool, PoolReasons, PoolState};

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Reason {
    reason: String,
}

/// The metrics of builds.
#[derive(Debug)]
pub struct BuildMetrics {
    build_state: Family<PoolState, Gauge>,
    build_duration: Durations<PoolState>,
    build_start: Family<Pool, Gauge>,
    build_end: Family<PoolState, Gauge>,
    builds: Family<PoolState, Counter>,
    job_state: Family<PoolState, Gauge>,
    config_changes: Family<Pool, Counter>,
    retries: Family<Pool, Counter>,
    push_state: Family<PoolState, Gauge>,
    pushes: Family<PoolState, Counter>,
    push_duration: Durations<PoolState>,
    updated_nodes: Family<Pool, Gauge>,
    total_nodes: Family<Pool, Gauge>,
    queued: Durations<Pool>,
    active: Family<Pool, Gauge>,
    configs: Gauge,
    reconciles: Histogram,
    errors: Family<Reason, Counter>,
    held: PoolReasons,
}

impl Default for BuildMetrics {
    fn default() -> Self {
        fn builds() -> Histogram {
            // A direct build takes seconds, one with a Containerfile minutes.
            Histogram::new([
                1.0, 2.0, 5.0, 10.0, 30.0, 60.0, 120.0, 300.0, 600.0, 1200.0, 1800.0, 3600.0,
            ])
        }
        fn pushes() -> Histogram {
            Histogram::new([0.1, 0.5, 1.0, 5.0, 10.0, 30.0, 60.0, 120.0, 300.0, 600.0])
        }
        fn queued() -> Histogram {
            Histogram::new([0.1, 0.5, 1.0, 5.0, 10.0, 30.0, 60.0, 120.0, 300.0, 600.0])
        }
        Self {
            build_state: Family::default(),
            build_duration: Family::new_with_constructor(builds),
            build_start: Family::default(),
            build_end: Family::default(),
            builds: Family::default(),
            job_state: Family::default(),
            config_changes: Family::default(),
            retries: Family::default(),
            push_state: Family::default(),
            pushes: Family::default(),
            push_duration: Family::new_with_constructor(pushes),
            updated_nodes: Family::default(),
            total_nodes: Family::default(),
            queued: Family::new_with_constructor(queued),
            active: Family::default(),
            configs: Gauge::default(),
            reconciles: Histogram::new([0.001, 0.005, 0.01, 0.05, 0.1, 0.5, 1.0, 5.0, 30.0]),
            errors: Family::default(),
            held: PoolReasons::default(),
        }
    }
}

impl BuildMetrics {
    pub fn register(&self, registry: &mut Registry) {
        registry.register(
            "ocl_build_state",
            "The state of the pool's build: 1 for the one that it is in",
            self.build_state.clone(),
        );
        registry.register(
            "ocl_build_duration_seconds",
            "From the start of a build to its end",
            self.build_duration.clone(),
        );
        registry.register(
            "ocl_build_start_timestamp_seconds",
            "When the pool's build began",
            self.build_start.clone(),
        );
        registry.register(
            "ocl_build_end_timestamp_seconds",
            "When the pool's build ended",
            self.build_end.clone(),
        );
        registry.register("ocl_build", "Builds that ended", self.builds.clone());
        registry.register(
            "ocl_build_job_state",
            "The state of the Job of the pool's build: 1 for the one that it is in",
            self.job_state.clone(),
        );
        registry.register(
            "ocl_config_change",
            "Builds that were started because something changed",
            self.config_changes.clone(),
        );
        registry.register(
            "ocl_build_retries",
            "Jobs that retried a failed one",
            self.retries.clone(),
        );
        registry.register(
            "ocl_image_push_state",
            "The state of the push of the pool's build: 1 for the one that it is in",
            self.push_state.clone(),
        );
        registry.register("ocl_image_push", "Pushes that ended", self.pushes.clone());
        registry.register(
            "ocl_image_push_duration_seconds",
            "How long a push took, as the build pod measured it",
            self.push_duration.clone(),
        );
        registry.register(
            "ocl_rollout_updated_nodes",
            "Nodes of the pool that have its config and image",
            self.updated_nodes.clone(),
        );
        registry.register("ocl_rollout_total_nodes", "Nodes of the pool", self.total_nodes.clone());
        registry.register(
            "ocl_build_queue_duration_seconds",
            "From the creation of a build to its start",
            self.queued.clone(),
        );
        registry.register(
            "ocl_active_builds",
            "Builds of the pool that are running",
            self.active.clone(),
        );
        registry.register("mco_mosc_count", "MachineOSConfigs", self.configs.clone());
        registry.register(
            "mosb_round_duration_seconds",
            "Duration of a reconcile of one MachineOSConfig",
            self.reconciles.clone(),
        );
        registry.register(
            "mosb_errors",
            "Reconciles that ended with an error",
            self.errors.clone(),
        );
        registry.register(
            "mosb_image_held",
            "1 while the newest image of the pool is kept out of service",
            self.held.family.clone(),
        );
    }

    pub fn configs(&self, count: usize) {
        self.configs.set(i64::try_from(count).unwrap_or(i64::MAX));
    }

    /// Records a reconcile, and the code of its error.
    pub fn reconciled(&self, took: Duration, error: Option<&str>) {
        self.reconciles.observe(took.as_secs_f64());
        if let Some(reason) = error {
            let reason = reason.to_owned();
            self.errors.get_or_create(&Reason { reason }).inc();
        }
    }
}
