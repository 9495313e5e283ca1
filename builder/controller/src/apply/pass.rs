//! The state of one pass over a key, shared by its actions.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use crate::lookups::CachedPlan;
use crate::observe::Facts;
use crate::rollout::{JobSecretContent, NodeEvictions};
use crate::target::Target;
use mosb_reconcile::driver::Worker;

/// State that the actions of one decision share.
#[derive(Debug, Default)]
pub struct ReconcilePass {
    pub worker: Worker,
    /// The name of the MachineOSConfig; empty for other keys.
    pub config: String,
    /// The plan of this decision, if there is one.
    pub plan: Option<Arc<CachedPlan>>,
    pub facts: Facts,
    /// What the Secret of a Job on a machine has, which the next action creates.
    pub(crate) job_secret: Option<JobSecretContent>,
    /// Evictions by node.
    pub evictions: BTreeMap<String, NodeEvictions>,
    /// When to decide again at the latest, because of what was not applied.
    pub requeue_after: Option<Duration>,
    /// resourceVersions after our writes, by UID.
    versions: BTreeMap<String, String>,
}

impl ReconcilePass {
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
