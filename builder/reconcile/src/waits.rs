//! The waits until something is tried or looked at again that several modules have, or that a person
//! may look for. Time limits, and waits of one loop, are where they are used.

use std::hash::{DefaultHasher, Hash, Hasher as _};
use std::time::Duration;

use mosb_types::ErrorClass;

/// Waits that double with each failure in a row.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Backoff {
    pub first: Duration,
    pub max: Duration,
    /// Whether each wait is shortened by up to a quarter.
    has_jitter: bool,
}

impl Backoff {
    pub const fn doubling(first: Duration, max: Duration) -> Self {
        Self { first, max, has_jitter: false }
    }

    /// Shortens each wait by up to a quarter.
    #[must_use]
    pub const fn with_jitter(self) -> Self {
        Self { has_jitter: true, ..self }
    }

    /// The longest wait after this many failures in a row, from 1.
    pub fn wait(&self, failures: u32) -> Duration {
        let times = 1 << failures.saturating_sub(1).min(20);
        self.first.saturating_mul(times).min(self.max)
    }

    /// The wait for `of`: keys that failed together, for example because a registry was down, are
    /// not retried together.
    pub fn wait_for(&self, failures: u32, of: &impl Hash) -> Duration {
        let wait = self.wait(failures);
        if !self.has_jitter {
            return wait;
        }
        let mut hasher = DefaultHasher::new();
        of.hash(&mut hasher);
        let parts = u32::try_from(hasher.finish() % 256).expect("less than 256");
        wait - wait * parts / 1024
    }

    /// The wait that follows this one.
    pub fn next(&self, wait: Duration) -> Duration {
        wait.saturating_mul(2).min(self.max)
    }
}

const fn millis(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

const fn seconds(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

// === keys of every controller ===

/// After a conflict. The next watch event updates the cache and enqueues the key anyway; the wait
/// only bounds the load if that event never comes.
pub const CONFLICT: Backoff = Backoff::doubling(millis(20), seconds(10));
pub const TRANSIENT: Backoff = Backoff::doubling(millis(500), seconds(60)).with_jitter();
/// What a user changes outside of the cluster, such as a permission or an image, sends no event.
pub const REJECTED: Backoff = Backoff::doubling(seconds(5), seconds(120)).with_jitter();
/// An internal error does not go away by itself, but the cache may be stale.
pub const INTERNAL: Backoff = Backoff::doubling(seconds(5), seconds(300)).with_jitter();

/// The pause of a key after an error of this class.
pub const fn after_error(class: ErrorClass) -> Backoff {
    match class {
        ErrorClass::Transient => TRANSIENT,
        ErrorClass::Rejected | ErrorClass::InvalidInput => REJECTED,
        ErrorClass::Internal => INTERNAL,
    }
}

/// While a watch is not synced.
pub const CACHE_SYNC: Duration = seconds(1);
/// How often the inputs are compared while a lookup runs.
pub const INPUT_CHECK: Duration = seconds(1);

// === watches ===

/// After a watch broke.
pub const WATCH: Backoff = Backoff::doubling(millis(200), seconds(30));
/// For an optional kind that the cluster doesn't serve. It comes with an operator, which is rarely
/// installed.
pub const UNSERVED_KIND: Backoff = Backoff::doubling(millis(200), seconds(300));
/// How often the API server is asked for its versions. Kinds come and go with operators.
pub const DISCOVERY: Duration = seconds(30);
pub const FAILED_DISCOVERY: Duration = seconds(2);
/// How often the capabilities of nodes are probed again: an updated node keeps its UID.
pub const NODE_PROBE: Duration = seconds(1800);
/// After a failed probe: the next change of nodes may be far away.
pub const FAILED_NODE_PROBE: Duration = seconds(30);

// === builds ===

/// Between two attempts at a build, the longest.
pub const BUILD_ATTEMPT_MAX: Duration = seconds(600);
/// After checks kept an image out of service: what they compare it with, as the version of the API
/// server, changes without an event.
pub const IMAGE_RECHECK: Duration = seconds(600);
/// Between two requests for the log of a container that began, until the kubelet serves it.
pub const KUBELET_LOG: Duration = millis(200);
/// After the result of a build pod could not be written to its ConfigMap.
pub const RESULT_DELIVERY: Backoff = Backoff::doubling(millis(100), seconds(5));

// === images in registries ===

/// Between the record that an image is deleted and its deletion: longer than a watch is behind, and
/// than a command takes between its look at the builds and its write.
pub const IMAGE_DELETION_DELAY: Duration = seconds(15);
/// How often old images are looked for: they get older, and nothing else shows that.
pub const IMAGE_RETENTION: Duration = seconds(24 * 3600);
/// After a pass that deleted as many as a pass does.
pub const IMAGE_RETENTION_NEXT: Duration = seconds(1);
/// While nothing may be deleted.
pub const IMAGE_RETENTION_HELD: Duration = seconds(3600);
/// After a failed pass.
pub const IMAGE_RETENTION_FAILED: Backoff = Backoff::doubling(seconds(60), seconds(3600));

// === roll-outs ===

/// Between tries of `stage` and `report`, by the number of failed tries; then the last one.
pub const NODE_JOB: [Duration; 4] =
    [seconds(60), seconds(2 * 60), seconds(5 * 60), seconds(10 * 60)];
/// Between tries of `apply`.
pub const SLOT: Backoff = Backoff::doubling(seconds(5 * 60), seconds(60 * 60));
/// While something is wrong that no event ends.
pub const ROLLOUT_PROBLEM: Duration = seconds(60);
/// How often what a policy asks for is asked again while a machine waits for it.
pub const POLICY_CHECK: Duration = seconds(30);
/// How often a watch that failed is checked.
pub const ROLLOUT_WATCH: Duration = seconds(15);

// === Secrets of new machines ===

/// No watch shows them.
pub const SECRET_RECHECK: Duration = seconds(600);
pub const SECRET_REFUSED: Duration = seconds(60);

// === boot images ===

pub const BOOT_IMAGE_RECHECK: Duration = seconds(600);
/// The same while a set needs its stub, or a kind can't be listed: no watch shows a stub, or a
/// right, or that it has recovered.
pub const BOOT_IMAGE_RIGHTS: Duration = seconds(60);
pub const BOOT_IMAGE_REFUSED: Duration = seconds(300);
/// After a write that failed otherwise.
pub const BOOT_IMAGE_FAILED: Duration = seconds(30);
/// After a write that another writer undid.
pub const BOOT_IMAGE_UNDONE: Duration = seconds(3600);
/// When a stub is read again to see when its CA expires.
pub const STUB_EXPIRY: Duration = seconds(3600);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_grow_to_their_end() {
        let doubling = Backoff::doubling(seconds(5), seconds(60));
        let waits = [0, 1, 2, 3, 4, 5, u32::MAX].map(|failures| doubling.wait(failures).as_secs());
        assert_eq!(waits, [5, 5, 10, 20, 40, 60, 60]);
        assert_eq!(doubling.next(seconds(40)), seconds(60));
        assert_eq!(doubling.wait_for(1, &"a"), seconds(5), "no jitter");
        let jittered = doubling.with_jitter();
        let all: Vec<Duration> = (0..99).map(|key| jittered.wait_for(5, &key)).collect();
        assert!(all.iter().all(|wait| (seconds(45)..=seconds(60)).contains(wait)), "{all:?}");
        assert!(all.iter().any(|wait| *wait != all[0]));
    }
}
