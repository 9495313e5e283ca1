//! A least speed: what ends a peer that sends or reads so little that it would never come to an
//! end.
//!
//! Only the time that we wait for the peer counts. A consumer of ours that is slow makes no peer
//! slow.

use std::future::Future;
use std::pin::pin;
use std::time::Duration;

use tokio::time::Instant;

use super::request_error::RequestError;
use super::retry::AttemptOutcome;

/// The least that a peer must send or read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LeastSpeed {
    /// Bytes in a second, on average over `window`.
    pub bytes_per_second: u64,
    /// The time of waiting over which it is measured.
    pub window: Duration,
}

impl Default for LeastSpeed {
    fn default() -> Self {
        Self { bytes_per_second: 10 << 10, window: Duration::from_secs(30) }
    }
}

impl LeastSpeed {
    /// Bytes that must move in one window.
    pub fn bytes(&self) -> u64 {
        let millis = u64::try_from(self.window.as_millis()).unwrap_or(u64::MAX);
        self.bytes_per_second.saturating_mul(millis) / 1000
    }
}

/// Measures one transfer, window by window.
#[derive(Debug)]
pub struct SpeedMeter {
    pub(super) least: LeastSpeed,
    /// Of this window.
    waited: Duration,
    bytes: u64,
}

impl SpeedMeter {
    pub fn new(least: LeastSpeed) -> Self {
        Self { least, waited: Duration::ZERO, bytes: 0 }
    }

    /// Counts bytes that moved.
    pub fn add(&mut self, bytes: usize) {
        self.bytes += bytes as u64;
    }

    /// Waits for the peer: what it sent, or that it moved too little in a whole window.
    pub async fn wait<T>(&mut self, peer: impl Future<Output = T>) -> Result<T, RequestError> {
        let mut peer = pin!(peer);
        loop {
            let began = Instant::now();
            let left = self.least.window.saturating_sub(self.waited);
            let done = tokio::time::timeout(left, &mut peer).await;
            self.count(began.elapsed());
            match done {
                Ok(done) => return Ok(done),
                Err(_) => self.judge()?,
            }
        }
    }

    pub(super) fn count(&mut self, waited: Duration) {
        self.waited += waited;
    }

    /// At the end of a window: begins the next one, or says that this one moved too little.
    pub(super) fn judge(&mut self) -> Result<(), RequestError> {
        if self.waited < self.least.window {
            return Ok(());
        }
        if self.bytes < self.least.bytes() {
            let cause = format!(
                "less than {} bytes/s over {} s",
                self.least.bytes_per_second,
                self.least.window.as_secs_f32()
            );
            return Err(RequestError::new(AttemptOutcome::TooSlow, cause));
        }
        *self = Self::new(self.least);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LEAST: LeastSpeed =
        LeastSpeed { bytes_per_second: 1000, window: Duration::from_secs(10) };

    /// Chunks of so many bytes, each after this many milliseconds of waiting and before as many of
    /// our own work.
    async fn transfer(
        chunk: usize,
        wait: u64,
        work: u64,
    ) -> (Duration, Result<(), AttemptOutcome>) {
        let began = Instant::now();
        let mut meter = SpeedMeter::new(LEAST);
        for _ in 0..100 {
            let peer = tokio::time::sleep(Duration::from_millis(wait));
            if let Err(broken) = meter.wait(peer).await {
                return (began.elapsed(), Err(broken.outcome));
            }
            meter.add(chunk);
            tokio::time::sleep(Duration::from_millis(work)).await;
        }
        (began.elapsed(), Ok(()))
    }

    #[tokio::test(start_paused = true)]
    async fn a_peer_is_too_slow_by_the_time_that_we_wait_for_it_alone() {
        let slow = Err(AttemptOutcome::TooSlow);
        for (what, chunk, wait, work, want) in [
            ("fast", 5000, 10, 0, Ok(())),
            ("fast, and our own work is slow", 1, 10, 60_000, Ok(())),
            ("just fast enough", 1000, 1000, 0, Ok(())),
            ("in bursts", 12_000, 9000, 0, Ok(())),
            ("dripping", 1, 200, 0, slow),
            ("dripping, and our own work is slow", 1, 200, 5000, slow),
            ("a little too slow", 990, 1000, 0, slow),
            ("silent", 1, 100_000, 0, slow),
        ] {
            let (took, got) = transfer(chunk, wait, work).await;
            assert_eq!(got, want, "{what}");
            if got.is_err() && work == 0 {
                let windows = took.as_millis().div_ceil(10_000);
                assert!(windows <= 2, "{what}: {took:?}");
            }
        }
    }

    #[tokio::test(start_paused = true)]
    async fn short_waits_are_not_too_slow() {
        let mut meter = SpeedMeter::new(LEAST);
        for _ in 0..9 {
            meter.wait(tokio::time::sleep(Duration::from_secs(1))).await.unwrap();
            meter.add(1);
        }
    }

    #[test]
    fn the_default_is_ten_kib_a_second_over_half_a_minute() {
        assert_eq!(LeastSpeed::default().bytes(), 300 << 10);
    }
}
