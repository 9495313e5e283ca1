//! The least speed of an upload: what ends a peer that does not read, or does not answer.

use std::future::Future;
use std::pin::pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use futures_util::stream::{BoxStream, try_unfold};
use futures_util::{StreamExt as _, TryStreamExt as _};
use tokio::time::Instant;

use super::request_error::RequestError;
use super::retry::AttemptOutcome;
use super::speed::{LeastSpeed, SpeedMeter};

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
    async fn a_peer_that_does_not_read_or_answer_is_given_up_and_a_slow_source_of_ours_is_not() {
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
