//! An answer that failed, and how long nobody asks again.

use std::time::Duration;

use tokio::time::Instant;

use mosb_reconcile::Problem;
use mosb_reconcile::waits::after_error;

#[derive(Debug, Clone)]
pub struct Failure {
    at: Instant,
    count: u32,
    pub problem: Problem,
}

impl Failure {
    /// Now, after an earlier one.
    pub fn after(before: Option<&Self>, problem: &Problem) -> Self {
        let count = before.map_or(1, |failure| failure.count.saturating_add(1));
        Self { at: Instant::now(), count, problem: problem.clone() }
    }

    /// How long nobody asks again, at most an interval; none if that has passed.
    pub fn left(&self, interval: Duration) -> Option<Duration> {
        let pause = after_error(self.problem.class).wait(self.count).min(interval);
        pause.checked_sub(self.at.elapsed())
    }
}
