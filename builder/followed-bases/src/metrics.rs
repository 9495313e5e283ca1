//! Metrics of bases, by pool.

use jiff::Timestamp;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;

use mosb_cluster::metrics::{Pool, PoolReasons};

#[derive(Debug, Default)]
pub struct BaseMetrics {
    age: Family<Pool, Gauge>,
    newer: Family<Pool, Gauge>,
    /// Pools whose OS image a MachineConfig sets.
    pub overridden: PoolReasons,
}

impl BaseMetrics {
    pub fn register(&self, registry: &mut Registry) {
        registry.register(
            "mosb_base_age_seconds",
            "Since when the base of the pool's image in service exists",
            self.age.clone(),
        );
        registry.register(
            "mosb_base_newer",
            "1 if the tag of the pool's base names a newer image, else 0",
            self.newer.clone(),
        );
        registry.register(
            "mosb_os_overridden",
            "1 while a MachineConfig sets the OS image of the pool; the reason says whether it is older than the release's",
            self.overridden.family.clone(),
        );
    }

    /// `created`: when the base of the image in service was made, if that is known.
    pub fn set_age(&self, pool: &str, created: Option<Timestamp>, now: Timestamp) {
        let pool = Pool { pool: pool.to_owned() };
        match created {
            Some(created) => {
                let age = now.duration_since(created).as_secs().max(0);
                self.age.get_or_create(&pool).set(age);
            }
            None => drop(self.age.remove(&pool)),
        }
    }

    /// None if the pool does not follow its base.
    pub fn set_newer(&self, pool: &str, is_newer: Option<bool>) {
        let pool = Pool { pool: pool.to_owned() };
        match is_newer {
            Some(is_newer) => drop(self.newer.get_or_create(&pool).set(is_newer.into())),
            None => drop(self.newer.remove(&pool)),
        }
    }

    pub fn forget(&self, pool: &str) {
        let pool = Pool { pool: pool.to_owned() };
        self.age.remove(&pool);
        self.newer.remove(&pool);
    }
}
