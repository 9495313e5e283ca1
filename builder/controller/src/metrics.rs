//! All metrics of the process: those of the controllers, and its own.

use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use prometheus_client::encoding::text::encode;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;

use mosb_builds::BuildMetrics;
use mosb_cluster::metrics::PoolReasons;
use mosb_followed_bases::BaseMetrics;
use mosb_machine_sets::BootImageMetrics;
use mosb_retention::RetentionMetrics;
use mosb_rollout::RolloutMetrics;

/// All metrics of the controller.
#[derive(Debug)]
pub struct Metrics {
    registry: Mutex<Registry>,
    oldest: Gauge<f64, AtomicU64>,
    leader: Gauge,
    pub builds: Arc<BuildMetrics>,
    pub rollout: Arc<RolloutMetrics>,
    /// Why the Secrets with user data stay as they are.
    pub user_data: Arc<PoolReasons>,
    pub boot_images: Arc<BootImageMetrics>,
    pub bases: Arc<BaseMetrics>,
    pub retention: Arc<RetentionMetrics>,
}

impl Default for Metrics {
    fn default() -> Self {
        let mut all = Self {
            registry: Mutex::default(),
            oldest: Gauge::default(),
            leader: Gauge::default(),
            builds: Arc::default(),
            rollout: Arc::default(),
            user_data: Arc::default(),
            boot_images: Arc::default(),
            bases: Arc::default(),
            retention: Arc::default(),
        };
        let mut registry = Registry::default();
        all.builds.register(&mut registry);
        registry.register(
            "mosb_oldest_reconcile_seconds",
            "For how long the oldest reconcile has been running",
            all.oldest.clone(),
        );
        registry.register(
            "mosb_leader",
            "Whether this controller is the leader",
            all.leader.clone(),
        );
        registry.register(
            "mosb_user_data_refused",
            "1 for the reason why the user data of the pool's new machines stays as it is",
            all.user_data.family.clone(),
        );
        all.rollout.register(&mut registry);
        all.boot_images.register(&mut registry);
        all.bases.register(&mut registry);
        all.retention.register(&mut registry);
        all.registry = Mutex::new(registry);
        all
    }
}

impl Metrics {
    pub fn text(&self) -> String {
        let registry = self.registry.lock().expect("encoding does not panic");
        let mut text = String::new();
        encode(&mut text, &registry).expect("a String takes it");
        text
    }

    /// Sets for how long the oldest reconcile has been running.
    pub fn oldest_reconcile(&self, age: Duration) {
        self.oldest.set(age.as_secs_f64());
    }

    /// Sets whether this controller is the leader.
    pub fn leader(&self, is: bool) {
        self.leader.set(is.into());
    }
}
