//! Waiting for a condition.

use std::thread;
use std::time::{Duration, Instant};

/// How often a condition is asked about.
const PAUSE: Duration = Duration::from_millis(100);

/// Asks until the condition gives a value. Past the limit the test ends, with `what` it waited for.
#[track_caller]
pub fn wait<T>(what: &str, limit: Duration, mut condition: impl FnMut() -> Option<T>) -> T {
    let end = Instant::now() + limit;
    loop {
        if let Some(value) = condition() {
            return value;
        }
        assert!(
            Instant::now() < end,
            "waited {} s in vain: {what}",
            limit.as_secs()
        );
        thread::sleep(PAUSE);
    }
}
