//! A least speed: ends a transfer whose peer sends or reads so little that it would never end.
//!
//! Only the time that we wait for the peer counts. A slow consumer of ours does not make
//! the peer slow.

use std::future::Future;
use std::pin::pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use futures_util::stream::{BoxStream, try_unfold};
use futures_util::{StreamExt as _, TryStreamExt as _};
use tokio::time::Instant;

use super::client::RequestError;
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

/// A body on its way to a peer, measured from outside of it: the time from handing over a chunk
/// until the next one is asked for is the peer's, the time until it is there is ours.
#[derive(Debug, Clone)]
pub struct UploadMeter(Arc<Mutex<Upload>>);

#[derive(Debug)]
struct Upload {
    meter: SpeedMeter,
    /// Since when the peer has been waited for.
    waiting: Option<Instant>,
    /// Bytes that were not handed over yet; without any, the peer is to answer.
    left: u64,
}

impl UploadMeter {
    /// For a body of so many bytes.
    pub fn new(least: LeastSpeed, length: u64) -> Self {
        Self(Arc::new(Mutex::new(Upload {
            meter: SpeedMeter::new(least),
            waiting: Some(Instant::now()),
            left: length,
        })))
    }

    /// The same body, measured.
    pub fn measure<E: Send + 'static>(
        &self,
        body: BoxStream<'static, Result<Bytes, E>>,
    ) -> BoxStream<'static, Result<Bytes, E>> {
        let meter = self.clone();
        try_unfold(body, move |mut body| {
            let meter = meter.clone();
            async move {
                meter.lock().is_asked();
                let chunk = body.try_next().await?;
                meter.lock().hands_over(chunk.as_ref().map_or(0, Bytes::len));
                Ok(chunk.map(|chunk| (chunk, body)))
            }
        })
        .boxed()
    }

    /// Waits for the peer's answer; `idle` is the longest that it may take after the last byte.
    pub async fn answer<T>(
        &self,
        idle: Duration,
        answer: impl Future<Output = T>,
    ) -> Result<T, RequestError> {
        let mut answer = pin!(answer);
        let tick = (idle.min(self.lock().meter.least.window) / 8).max(Duration::from_millis(10));
        loop {
            if let Ok(answer) = tokio::time::timeout(tick, &mut answer).await {
                return Ok(answer);
            }
            self.lock().check(idle)?;
        }
    }

    fn lock(&self) -> MutexGuard<'_, Upload> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Upload {
    fn is_asked(&mut self) {
        if let Some(since) = self.waiting.take() {
            self.meter.count(since.elapsed());
        }
    }

    fn hands_over(&mut self, bytes: usize) {
        self.waiting = Some(Instant::now());
        self.left = self.left.saturating_sub(bytes as u64);
        self.meter.add(bytes);
    }

    fn check(&mut self, idle: Duration) -> Result<(), RequestError> {
        let Some(since) = self.waiting else {
            return Ok(());
        };
        if self.left == 0 {
            return if since.elapsed() > idle {
                Err(RequestError::new(AttemptOutcome::TimedOut, "no answer to an upload"))
            } else {
                Ok(())
            };
        }
        self.waiting = Some(Instant::now());
        self.meter.count(since.elapsed());
        self.meter.judge()
    }
}

#[cfg(test)]
mod tests {
    use futures_util::stream;

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
    async fn only_waiting_for_the_peer_counts() {
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
    fn default_is_ten_kib_a_second_over_30s() {
        assert_eq!(LeastSpeed::default().bytes(), 300 << 10);
    }

    const IDLE: Duration = Duration::from_secs(60);

    /// A body of 20 chunks of 1000 bytes that each take `source` seconds to come, sent to a peer
    /// that reads one in `reads` seconds and answers in `answers`.
    async fn send(source: u64, reads: u64, answers: u64) -> Result<(), AttemptOutcome> {
        let meter = UploadMeter::new(LEAST, 20_000);
        let chunks = stream::iter(0..20).then(move |_| async move {
            tokio::time::sleep(Duration::from_secs(source)).await;
            Ok::<_, ()>(Bytes::from_static(&[0; 1000]))
        });
        let mut body = meter.measure(chunks.boxed());
        let peer = async move {
            while let Some(Ok(_)) = body.next().await {
                tokio::time::sleep(Duration::from_secs(reads)).await;
            }
            tokio::time::sleep(Duration::from_secs(answers)).await;
        };
        meter.answer(IDLE, peer).await.map_err(|broken| broken.outcome)
    }

    #[tokio::test(start_paused = true)]
    async fn slow_peers_are_given_up_slow_sources_not() {
        for (what, source, reads, answers, want) in [
            ("fast", 0, 0, 0, Ok(())),
            ("just fast enough", 0, 1, 0, Ok(())),
            ("our source is slow", 300, 0, 0, Ok(())),
            ("reads slowly", 0, 5, 0, Err(AttemptOutcome::TooSlow)),
            ("reads nothing", 0, 100_000, 0, Err(AttemptOutcome::TooSlow)),
            ("both are slow", 30, 5, 0, Err(AttemptOutcome::TooSlow)),
            ("answers slowly", 0, 0, 50, Ok(())),
            ("never answers", 0, 0, 100_000, Err(AttemptOutcome::TimedOut)),
        ] {
            assert_eq!(send(source, reads, answers).await, want, "{what}");
        }
    }
}
