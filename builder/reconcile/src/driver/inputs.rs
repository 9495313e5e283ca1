//! Whether the inputs of a key are still the same.

use std::collections::BTreeMap;
use std::hash::{DefaultHasher, Hash, Hasher as _};
use std::sync::{Mutex, MutexGuard};
use std::time::{Duration, Instant};

/// A hash of everything that the result of a reconcile depends on. It is compared within one
/// process only.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct InputsHash(u64);

impl InputsHash {
    pub fn of(inputs: &impl Hash) -> Self {
        let mut hasher = DefaultHasher::new();
        inputs.hash(&mut hasher);
        Self(hasher.finish())
    }
}

/// The inputs of the last pass that found or made objects of a key as they should be. No watch shows
/// these objects: an event without a change of the inputs costs no request until the next check.
#[derive(Debug, Default)]
pub struct CheckedInputs(Mutex<BTreeMap<String, Check>>);

#[derive(Debug)]
struct Check {
    inputs: InputsHash,
    at: Instant,
}

impl CheckedInputs {
    /// Whether a key was checked with these inputs, within this time.
    pub fn has(&self, key: &str, inputs: InputsHash, within: Duration) -> bool {
        let checks = self.checks();
        checks.get(key).is_some_and(|check| check.inputs == inputs && check.at.elapsed() < within)
    }

    pub fn set(&self, key: &str, inputs: InputsHash) {
        self.checks().insert(key.to_owned(), Check { inputs, at: Instant::now() });
    }

    pub fn remove(&self, key: &str) {
        self.checks().remove(key);
    }

    fn checks(&self) -> MutexGuard<'_, BTreeMap<String, Check>> {
        self.0.lock().expect("it is not poisoned: maps don't panic")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_check_counts_for_its_key_and_inputs_and_for_a_time() {
        let checked = CheckedInputs::default();
        let (inputs, hour) = (InputsHash::of(&"a"), Duration::from_secs(3600));
        assert!(!checked.has("worker", inputs, hour));
        checked.set("worker", inputs);
        assert!(checked.has("worker", inputs, hour));
        assert!(!checked.has("worker", inputs, Duration::ZERO));
        assert!(!checked.has("worker", InputsHash::of(&"b"), hour));
        assert!(!checked.has("infra", inputs, hour));
        checked.remove("worker");
        assert!(!checked.has("worker", inputs, hour));
    }
}
