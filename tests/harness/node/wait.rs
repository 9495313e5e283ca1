//! Waiting for a condition.

use std::thread;
use std::time::{Duration, Instant};

/// Between two questions, of which each may be a program to start.
pub const PAUSE: Duration = Duration::from_millis(100);

/// Asks until the condition gives a value. Past the limit the test ends, with `what` it waited for.
/// For an object in the cluster, [`Node::wait`](super::Node::wait) and
/// [`Namespace::wait`](super::Namespace::wait) cost less.
#[track_caller]
pub fn wait<T>(what: &str, limit: Duration, mut condition: impl FnMut() -> Option<T>) -> T {
    let end = Instant::now() + limit;
    loop {
        if let Some(value) = condition() {
            return value;
        }
        assert!(Instant::now() < end, "waited {} s in vain: {what}", limit.as_secs());
        thread::sleep(PAUSE);
    }
}
