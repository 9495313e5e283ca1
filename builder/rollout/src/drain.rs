//! Which pods are evicted from a machine, as by `kubectl drain` with `--ignore-daemonsets`,
//! `--delete-emptydir-data` and `--force`; what is remembered of its drain from one pass to the next,
//! and when its pods are listed again. Pure.
//!
//! Invariant: a drain that nothing holds goes on at once, and one that is held lists pods less and
//! less often, at least once a minute. All times are of this process: those of pods are of the API
//! server's clock.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use jiff::Timestamp;

use super::elapsed::elapsed;
use super::lookup::SeenPod;

/// The shortest time between two lists, while evicted pods end.
const ENDING: Duration = Duration::from_secs(1);
/// The shortest time between two lists, while evictions are refused or lists fail: that of
/// `kubectl drain`.
const REFUSED: Duration = Duration::from_secs(5);
/// The longest time between two lists.
const LONGEST: Duration = Duration::from_secs(60);
/// Which part of the time without progress the next list may be late.
const PART: u32 = 4;
/// How long after its grace period a pod may take to end.
const KILL_TIME: Duration = Duration::from_secs(30);
/// After how long without progress a drain that nothing holds names what it waits for.
const NAMED_AFTER: Duration = Duration::from_secs(60);
/// The most evictions of one pass: the other machines wait for it.
const MAX_EVICTIONS: usize = 100;

/// What is left to do until a machine is drained.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Drain<'a> {
    /// Pods that have to be evicted.
    pub evict: Vec<&'a SeenPod>,
    /// Pods that have been evicted and are still there.
    pub terminating: Vec<&'a SeenPod>,
}

impl<'a> Drain<'a> {
    /// `pods`: those of a machine that don't [stay](SeenPod::stays). `record`: of its drain until now.
    pub fn of(pods: &'a [SeenPod], record: Option<&DrainRecord>) -> Self {
        let counts = |pod: &&SeenPod| record.is_none_or(|record| record.waits_for(pod));
        let (terminating, evict) = pods.iter().filter(counts).partition(|pod| pod.deleting);
        Self { evict, terminating }
    }

    /// Those that are evicted in this pass.
    pub fn evictions(&self) -> impl Iterator<Item = &'a SeenPod> {
        self.evict.iter().copied().take(MAX_EVICTIONS)
    }

    pub fn is_done(&self) -> bool {
        self.evict.is_empty() && self.terminating.is_empty()
    }
}

/// The drains that have begun, by node.
pub type DrainRecords = BTreeMap<String, DrainRecord>;

/// What is remembered of a drain.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DrainRecord {
    /// When the pods were listed last.
    pub listed: Timestamp,
    /// When an eviction of one of the first pods was accepted last; before that, when the pods were
    /// first listed.
    pub progress: Timestamp,
    /// The UIDs of the pods that were there when the cordon was seen first; none before a list.
    pub first: Option<BTreeSet<String>>,
    /// When pods that are being deleted were seen first, by UID.
    pub ending: BTreeMap<String, Timestamp>,
    /// Nothing was left to evict or to wait for.
    pub is_done: bool,
    /// Evictions that the API server refused when they were last tried.
    pub refused: Vec<Refusal>,
    /// What else is waited for.
    pub waits_for: Option<String>,
    /// Why the pods could not be listed when that was last tried.
    pub unlisted: Option<String>,
}

impl DrainRecord {
    /// A drain whose pods are listed for the first time.
    pub(super) fn new(now: Timestamp) -> Self {
        Self {
            listed: now,
            progress: now,
            first: None,
            ending: BTreeMap::new(),
            is_done: false,
            refused: Vec::new(),
            waits_for: None,
            unlisted: None,
        }
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
            let all = drain.evict.iter().chain(&drain.terminating);
            record.first.get_or_insert_with(|| all.map(|pod| pod.uid.clone()).collect());
            let ending = drain.terminating.iter().map(|pod| {
                let since = record.ending.get(&pod.uid).copied().unwrap_or(now);
                (pod.uid.clone(), since)
            });
            record.ending = ending.collect();
            record.is_done = drain.is_done();
            record.waits_for = record.cause(drain, now);
            if drain.evict.is_empty() {
                record.refused.clear();
            }
        }
        record
    }

    /// Whether the drain waits for a pod. One that was put on the machine after it was cordoned, and
    /// tolerates that, would come again each time it is evicted.
    pub(super) fn waits_for(&self, pod: &SeenPod) -> bool {
        !pod.tolerates_cordon || self.first.is_none() || self.is_first(&pod.uid)
    }

    /// Whether this pod was there when the cordon was seen first.
    pub(super) fn is_first(&self, uid: &str) -> bool {
        self.first.as_ref().is_some_and(|first| first.contains(uid))
    }

    /// What the drain waits for, if no eviction is refused; none if it goes on.
    fn cause(&self, drain: &Drain<'_>, now: Timestamp) -> Option<String> {
        let name = |pod: &SeenPod| format!("pod {}/{}", pod.namespace, pod.name);
        let over = |pod: &SeenPod| self.ending.get(&pod.uid).copied().unwrap_or(now) + pod.grace;
        if let Some(pod) = drain.terminating.iter().min_by_key(|pod| over(pod))
            && elapsed(over(pod), now) > KILL_TIME
        {
            return Some(format!(
                "{} is terminating, and its grace period is over since {}; remove its finalizers, or check the kubelet",
                name(pod),
                over(pod)
            ));
        }
        if elapsed(self.progress, now) <= NAMED_AFTER {
            return None;
        }
        if let Some(pod) = drain.evict.iter().find(|pod| !self.is_first(&pod.uid)) {
            return Some(format!(
                "{} came after the machine was cordoned, and others may come again; find out what puts pods on this node, and stop that",
                name(pod)
            ));
        }
        let pod = drain.terminating.iter().max_by_key(|pod| over(pod))?;
        Some(format!(
            "{} has a grace period of {} s to end; shorten it, or wait",
            name(pod),
            pod.grace.as_secs()
        ))
    }

    /// How long the next list of pods still waits; none if it is due.
    pub(super) fn wait(&self, now: Timestamp) -> Option<Duration> {
        let left = self.interval().checked_sub(elapsed(self.listed, now));
        // Pods may have come meanwhile.
        left.filter(|left| !self.is_done && !left.is_zero())
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
        refused.or_else(|| self.waits_for.clone()).map(|cause| format!("draining: {cause}"))
    }
}

/// The evictions of a pass on one node.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct NodeEvictions {
    /// UIDs of pods that are evicted, or do not exist any more.
    pub accepted: Vec<String>,
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
