//! The state of one pass over a key, shared by its actions.

use std::collections::BTreeMap;
use std::time::Duration;

use super::Target;
use crate::driver::Worker;

/// State that the actions of one decision share; `S` is that of one controller.
#[derive(Debug, Default)]
pub struct ReconcilePass<S> {
    pub worker: Worker,
    pub state: S,
    /// When to decide again at the latest, because of what was not applied.
    pub requeue_after: Option<Duration>,
    /// resourceVersions after our writes, by UID.
    versions: BTreeMap<String, String>,
}

impl<S> ReconcilePass<S> {
    /// The version that a write expects: as seen, or after our last write.
    pub(super) fn version(&self, target: &Target) -> Option<String> {
        let seen = target.version.as_ref()?;
        Some(self.versions.get(&target.uid).unwrap_or(seen).clone())
    }

    /// The version after our last write, if there was one.
    pub fn written_version(&self, uid: &str) -> Option<&str> {
        self.versions.get(uid).map(String::as_str)
    }

    pub(super) fn record_write(&mut self, uid: String, version: String) {
        self.versions.insert(uid, version);
    }
}
