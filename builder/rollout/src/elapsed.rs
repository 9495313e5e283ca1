//! The time between two moments. Pure.

use std::time::Duration;

use jiff::Timestamp;

/// The time between two moments; zero if the second one is earlier.
pub(super) fn elapsed(since: Timestamp, now: Timestamp) -> Duration {
    Duration::try_from(now.duration_since(since)).unwrap_or_default()
}
