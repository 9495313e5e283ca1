//! What metrics of several controllers have: labels of a pool, and a gauge that is 1 for the reason why
//! something about a pool does not go on, and has no series otherwise.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard};

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
pub struct Pool {
    pub pool: String,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
pub struct PoolState {
    pub pool: String,
    pub state: &'static str,
}

pub type Durations<L> = Family<L, Histogram, fn() -> Histogram>;

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
pub struct PoolReason {
    pub pool: String,
    pub reason: &'static str,
}

/// At most one series for each key.
#[derive(Debug, Default)]
pub struct PoolReasons {
    pub family: Family<PoolReason, Gauge>,
    /// The series that a key has.
    current: Mutex<BTreeMap<String, PoolReason>>,
}

impl PoolReasons {
    /// The key has this reason for the pool and no other.
    pub fn set(&self, key: &str, pool: &str, reason: Option<&'static str>) {
        let reason = reason.map(|reason| PoolReason { pool: pool.to_owned(), reason });
        let mut current = self.current();
        let old = match reason.clone() {
            Some(reason) => current.insert(key.to_owned(), reason),
            None => current.remove(key),
        };
        if let Some(old) = old.filter(|old| Some(old) != reason.as_ref()) {
            self.family.remove(&old);
        }
        if let Some(reason) = reason {
            self.family.get_or_create(&reason).set(1);
        }
    }

    /// Removes the series of a key.
    pub fn forget(&self, key: &str) {
        if let Some(old) = self.current().remove(key) {
            self.family.remove(&old);
        }
    }

    fn current(&self) -> MutexGuard<'_, BTreeMap<String, PoolReason>> {
        self.current.lock().expect("it is not poisoned: maps don't panic")
    }
}

#[cfg(test)]
mod tests {
    use prometheus_client::encoding::text::encode;
    use prometheus_client::registry::Registry;

    use super::*;

    #[test]
    fn a_reason_has_one_series_until_it_ends() {
        let reasons = PoolReasons::default();
        let mut registry = Registry::default();
        registry.register("refused", "Why", reasons.family.clone());
        let series = || -> Vec<String> {
            let mut text = String::new();
            encode(&mut text, &registry).unwrap();
            let lines = text.lines().filter(|line| line.starts_with("refused{"));
            lines.map(str::to_owned).collect()
        };
        let line = |reason: &str| format!("refused{{pool=\"worker\",reason=\"{reason}\"}} 1");
        for (reason, want) in [
            (Some("NoSecret"), vec![line("NoSecret")]),
            (Some("NoSecret"), vec![line("NoSecret")]),
            (Some("NotLabelled"), vec![line("NotLabelled")]),
            (None, Vec::new()),
        ] {
            reasons.set("config", "worker", reason);
            assert_eq!(series(), want, "{reason:?}");
        }
        reasons.set("config", "worker", Some("TooLarge"));
        reasons.forget("config");
        assert_eq!(series(), [""; 0]);
    }
}
