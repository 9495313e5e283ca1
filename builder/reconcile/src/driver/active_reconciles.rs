//! The reconciles that are running, and for how long: for a gauge, and for `/healthz` to detect a
//! hang.
//!
//! Each reconcile is cancelled at its deadline. One that outlives that blocks its thread, which is
//! a bug that only a restart ends. A slow registry or API server is never the cause.

use std::collections::BTreeMap;
use std::future::Future;
use std::sync::{Mutex, MutexGuard};
use std::time::Duration;

use tokio::time::{Instant, timeout};

use crate::queue::Requeue;
use mosb_types::ErrorClass;

/// How long a reconcile may outlive its deadline before the program counts as hanging.
const OVERDUE_GRACE: Duration = Duration::from_secs(60);

#[derive(Debug)]
pub struct ActiveReconciles {
    deadline: Duration,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    next: u64,
    begun: BTreeMap<u64, (String, Instant)>,
}

impl ActiveReconciles {
    /// A new set; each reconcile is cancelled after this time.
    pub fn new(deadline: Duration) -> Self {
        Self { deadline, state: Mutex::default() }
    }

    /// Runs a reconcile of this object to its end, or to the deadline.
    pub async fn run(&self, what: &str, reconcile: impl Future<Output = Requeue>) -> Requeue {
        let _active = self.begin(what);
        match timeout(self.deadline, reconcile).await {
            Ok(requeue) => requeue,
            Err(_) => {
                let seconds = self.deadline.as_secs();
                tracing::warn!(
                    reason = "reconcile-timeout",
                    "{what}: cancelled after {seconds} s; retrying"
                );
                Requeue::Error(ErrorClass::Transient)
            }
        }
    }

    /// For how long the oldest one has been running.
    pub fn oldest(&self) -> Duration {
        let state = self.lock();
        let ages = state.begun.values().map(|(_, since)| since.elapsed());
        ages.max().unwrap_or_default()
    }

    /// Those that outlived their deadline, one line each.
    pub fn overdue(&self) -> Vec<String> {
        let state = self.lock();
        let overdue = state
            .begun
            .values()
            .filter(|(_, since)| since.elapsed() > self.deadline + OVERDUE_GRACE);
        let line = |(what, since): &(String, Instant)| {
            let (age, deadline) = (since.elapsed().as_secs(), self.deadline.as_secs());
            format!("{what}: running for {age} s, with a deadline of {deadline} s")
        };
        overdue.map(line).collect()
    }

    fn begin(&self, what: &str) -> Active<'_> {
        let mut state = self.lock();
        let number = state.next;
        state.next += 1;
        state.begun.insert(number, (what.to_owned(), Instant::now()));
        Active { of: self, number }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().expect("it is not poisoned: maps and clocks don't panic")
    }
}

/// Removed from the set when it is dropped.
struct Active<'a> {
    of: &'a ActiveReconciles,
    number: u64,
}

impl Drop for Active<'_> {
    fn drop(&mut self) {
        self.of.lock().begun.remove(&self.number);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    #[tokio::test(start_paused = true)]
    async fn one_that_is_slow_is_ended_and_one_that_outlives_its_end_is_overdue() {
        let active = ActiveReconciles::new(10 * SECOND);
        assert_eq!(active.oldest(), Duration::ZERO);
        let slow = active.run("pool a", std::future::pending());
        let watching = async {
            tokio::time::sleep(9 * SECOND).await;
            assert_eq!(active.oldest(), 9 * SECOND);
        };
        let (requeue, ()) = tokio::join!(slow, watching);
        assert_eq!(requeue, Requeue::Error(ErrorClass::Transient));
        assert_eq!(active.oldest(), Duration::ZERO);

        // A reconcile that blocks its thread can't be cancelled.
        let _blocked = active.begin("pool b");
        tokio::time::advance(70 * SECOND).await;
        assert_eq!(active.overdue(), Vec::<String>::new());
        tokio::time::advance(SECOND).await;
        assert_eq!(active.overdue(), ["pool b: running for 71 s, with a deadline of 10 s"]);
    }
}
