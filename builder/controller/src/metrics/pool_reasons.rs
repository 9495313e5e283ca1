//! A gauge that is 1 for the reason why something about a pool does not go on, and has no series
//! otherwise.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard};

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(super) struct PoolReason {
    pub pool: String,
    pub reason: &'static str,
}

/// At most one series for each key.
#[derive(Debug, Default)]
pub(super) struct PoolReasons {
    pub family: Family<PoolReason, Gauge>,
    /// The series that a key has.
    current: Mutex<BTreeMap<String, PoolReason>>,
}

impl PoolReasons {
    /// The key has this reason and no other.
    pub fn set(&self, key: &str, reason: Option<PoolReason>) {
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

    fn current(&self) -> MutexGuard<'_, BTreeMap<String, PoolReason>> {
        self.current.lock().expect("it is not poisoned: maps don't panic")
    }
}
