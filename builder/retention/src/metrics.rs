//! Metrics of old images, by pool.

use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::registry::Registry;

use mosb_cluster::metrics::Pool;

#[derive(Debug, Default)]
pub struct RetentionMetrics {
    deleted: Family<Pool, Counter>,
}

impl RetentionMetrics {
    pub fn register(&self, registry: &mut Registry) {
        registry.register(
            "mosb_images_deleted",
            "Images of the pool that were deleted from its registry",
            self.deleted.clone(),
        );
    }

    pub fn add(&self, pool: &str, deleted: usize) {
        let pool = Pool { pool: pool.to_owned() };
        self.deleted.get_or_create(&pool).inc_by(deleted as u64);
    }
}
