//! `mosb wait`.

use std::time::Duration;

use clap::Args;
use tokio::sync::mpsc;
use tokio::time::{Instant, timeout_at};

use super::status::PoolStatus;
use super::{Cluster, no_pool};
use mosb_commands::context::Session;
use mosb_commands::error::Error;
use mosb_commands::{ExitCode, Result, arguments};
use mosb_controller::{self as controller, ClusterCache, PoolPhase, REJECTED_RETRY};

/// Waits until the image of a pool is up to date
///
/// Exit codes: 0 it is; 1 the build failed; 2 somebody must change something first; 3 timed out. What a registry or a
/// policy rejects, such as a base without a signature, and what is missing or can't be used, is code 2 only after 150
/// seconds: the controller tries again.
///
/// Example:
///
///   mosb wait worker --timeout 30m
#[derive(Debug, Args)]
#[command(verbatim_doc_comment)]
pub struct Wait {
    /// The pool
    pub pool: String,
    /// The time limit: seconds, or with s, m, h
    #[arg(long, value_name = "TIME", default_value = "1h", value_parser = arguments::duration("--timeout"))]
    pub timeout: Duration,
    #[command(flatten)]
    pub cluster: Cluster,
}

impl Wait {
    pub async fn run(&self, session: &Session) -> Result<ExitCode> {
        let (status, code) = self.wait().await?;
        session.print(&status)?;
        Ok(code)
    }

    /// Waits until the pool is done or blocked, or the timeout is reached.
    async fn wait(&self) -> Result<(PoolStatus, ExitCode)> {
        let (pool, limit) = (&self.pool, self.timeout);
        let (client, namespaces) = self.cluster.connect().await?;
        let end = Instant::now() + limit;
        let (changes, mut changed) = mpsc::unbounded_channel();
        let (cache, _watches) =
            ClusterCache::watch(&client, &namespaces, controller::Tasks::default(), changes);
        let over = || Error::TimedOut {
            pool: pool.clone(),
            seconds: limit.as_secs(),
            missing: cache.watch_health.not_synced(),
        };
        timeout_at(end, cache.watch_health.wait_for_sync()).await.map_err(|_| over())?;
        let began = Instant::now();
        let mut before = String::new();
        loop {
            let mut pool_views = controller::pool_views(&cache, Some(pool));
            let view = pool_views.pop().ok_or_else(|| no_pool(pool))?;
            let status = PoolStatus::from(&view);
            let phase = view.phase();
            if let Some(code) = exit_code(phase, began.elapsed()) {
                return Ok((status, code));
            }
            if status.reason.message != before {
                before.clone_from(&status.reason.message);
                tracing::info!("{pool}: {before}");
            }
            // Nothing changes in the cluster when a lookup finds the same.
            let until = match phase {
                PoolPhase::Rejected => end.min(began + REJECTED_RETRY),
                _ => end,
            };
            match timeout_at(until, changed.recv()).await {
                Err(_) if until == end => return Err(over().into()),
                Err(_) | Ok(_) => {}
            }
            while changed.try_recv().is_ok() {}
        }
    }
}

/// The exit code for a pool in this phase after so much waiting; none while it may still change.
fn exit_code(phase: PoolPhase, waited: Duration) -> Option<ExitCode> {
    match phase {
        PoolPhase::Ready => Some(0),
        PoolPhase::Failed => Some(1),
        PoolPhase::Blocked => Some(2),
        // What was changed just before this command may not be known yet.
        PoolPhase::Rejected => (waited >= REJECTED_RETRY).then_some(2),
        PoolPhase::Progressing => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rejection_counts_once_it_was_repeated() {
        let (start, repeated) = (Duration::ZERO, REJECTED_RETRY);
        for (phase, waited, want) in [
            (PoolPhase::Ready, start, Some(0)),
            (PoolPhase::Failed, start, Some(1)),
            (PoolPhase::Blocked, start, Some(2)),
            (PoolPhase::Rejected, start, None),
            (PoolPhase::Rejected, repeated, Some(2)),
            (PoolPhase::Progressing, repeated, None),
        ] {
            assert_eq!(exit_code(phase, waited), want, "{phase:?} after {waited:?}");
        }
    }
}
