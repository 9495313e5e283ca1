//! How long a key of the queue waits after a conflict or an error. Pure.

use std::hash::{DefaultHasher, Hash, Hasher as _};
use std::time::Duration;

use mosb_types::ErrorClass;

/// The wait after a conflict. The next watch event updates the cache and enqueues the key anyway;
/// the wait only bounds the load if that event never comes.
pub fn conflict_backoff(failures: u32) -> Duration {
    exponential(Duration::from_millis(20), failures, Duration::from_secs(10))
}

/// The longest pause after this many failures in a row.
pub fn error_backoff(class: ErrorClass, failures: u32) -> Duration {
    let (first, most) = match class {
        ErrorClass::Transient => (Duration::from_millis(500), Duration::from_secs(60)),
        // A permission that is granted later sends no event.
        ErrorClass::Rejected => (Duration::from_secs(5), Duration::from_secs(120)),
        // Neither goes away by itself, but the cache may be stale.
        ErrorClass::InvalidInput | ErrorClass::Internal => {
            (Duration::from_secs(5), Duration::from_secs(300))
        }
    };
    exponential(first, failures, most)
}

/// Shortens a pause by up to a quarter, differently for each key and each time, so that keys that
/// failed together, for example because a registry was down, are not retried together.
pub(super) fn with_jitter(pause: Duration, of: &impl Hash) -> Duration {
    let mut hasher = DefaultHasher::new();
    of.hash(&mut hasher);
    let parts = u32::try_from(hasher.finish() % 256).expect("less than 256");
    pause - pause * parts / 1024
}

fn exponential(first: Duration, failures: u32, most: Duration) -> Duration {
    let doublings = failures.saturating_sub(1).min(16);
    first.saturating_mul(1 << doublings).min(most)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_waits_have_an_end() {
        for (class, most) in [
            (ErrorClass::Transient, 60),
            (ErrorClass::Rejected, 120),
            (ErrorClass::InvalidInput, 300),
            (ErrorClass::Internal, 300),
        ] {
            assert_eq!(error_backoff(class, u32::MAX), Duration::from_secs(most));
        }
        assert_eq!(conflict_backoff(u32::MAX), Duration::from_secs(10));
    }
}
