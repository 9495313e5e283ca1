//! What is remembered of the drain of a machine from one pass to the next, and when its pods are
//! listed again. Pure.
//!
//! Invariant: a drain that nothing holds goes on at once, and one that is held lists pods less and
//! less often, at least once a minute.

use std::collections::BTreeMap;
use std::time::Duration;

use jiff::Timestamp;

use super::drain::Drain;
use super::elapsed::elapsed;

/// The shortest time between two lists, while evicted pods end.
const ENDING: Duration = Duration::from_secs(1);
/// The shortest time between two lists, while evictions are refused or lists fail: that of
/// `kubectl drain`.
const REFUSED: Duration = Duration::from_secs(5);
/// The longest time between two lists.
const LONGEST: Duration = Duration::from_secs(60);
/// Which part of the time without progress the next list may be late.
const PART: u32 = 4;

/// The drains that have begun and not ended, by node.
pub type DrainRecords = BTreeMap<String, DrainRecord>;

/// What is remembered of a drain.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DrainRecord {
    /// When the pods were listed last.
    pub listed: Timestamp,
    /// When an eviction was accepted last; before the first one, when the pods were first listed.
    pub progress: Timestamp,
    /// Evictions that the API server refused when they were last tried.
    pub refused: Vec<Refusal>,
    /// A pod that does not end.
    pub stuck: Option<String>,
    /// Why the pods could not be listed when that was last tried.
    pub unlisted: Option<String>,
}

impl DrainRecord {
    /// A drain whose pods are listed for the first time.
    pub(super) fn new(now: Timestamp) -> Self {
        Self { listed: now, progress: now, refused: Vec::new(), stuck: None, unlisted: None }
    }

    /// The record after a list of pods, or after one that failed for this reason.
    pub(super) fn after_list(
        earlier: Option<&Self>,
        drain: Result<&Drain<'_>, &str>,
        now: Timestamp,
    ) -> Self {
        let mut record = earlier.cloned().unwrap_or_else(|| Self::new(now));
        record.listed = now;
        record.unlisted = drain.err().map(str::to_owned);
        if let Ok(drain) = drain {
            record.stuck = drain.stuck(now);
            if drain.evict.is_empty() {
                record.refused.clear();
            }
        }
        record
    }

    /// How long the next list of pods still waits; none if it is due.
    pub(super) fn wait(&self, now: Timestamp) -> Option<Duration> {
        self.interval().checked_sub(elapsed(self.listed, now)).filter(|left| !left.is_zero())
    }

    /// The time from the last list to the next one.
    pub(super) fn interval(&self) -> Duration {
        let is_ending = self.refused.is_empty() && self.unlisted.is_none();
        let least = if is_ending { ENDING } else { REFUSED };
        (elapsed(self.progress, self.listed) / PART).clamp(least, LONGEST)
    }

    /// What the machine waits for: what holds the drain, or why that is not known.
    pub(super) fn waiting(&self) -> Option<String> {
        self.unlisted.clone().or_else(|| self.held())
    }

    /// What holds the drain, as far as is known.
    pub(super) fn held(&self) -> Option<String> {
        let refused = self.refused.first().map(|refusal| {
            format!("pod {}/{}: {}", refusal.namespace, refusal.pod, refusal.message)
        });
        refused.or_else(|| self.stuck.clone()).map(|cause| format!("draining: {cause}"))
    }
}

/// The evictions of a pass on one node.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct NodeEvictions {
    /// Pods that are evicted, or do not exist any more.
    pub accepted: usize,
    pub refused: Vec<Refusal>,
}

/// An eviction that the API server refused.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refusal {
    pub namespace: String,
    pub pod: String,
    /// The API server's message, which names the PodDisruptionBudget.
    pub message: String,
}
