//! `mosb wait`.

use std::time::Duration;

use clap::Args;
use tokio::sync::mpsc;
use tokio::time::{Instant, timeout_at};

use super::status::PoolStatus;
use super::{Cluster, no_pool};
use crate::cli::context::Session;
use crate::cli::error::Error;
use crate::cli::{ExitCode, Result, arguments};
use mosb_controller::{self as controller, ClusterCache, PoolPhase};

/// Waits until the image of a pool is up to date
///
/// Exit codes: 0 it is; 1 the build failed; 2 somebody must change something first; 3 timed out.
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
        let mut before = String::new();
        loop {
            let mut pool_views = controller::pool_views(&cache, Some(pool));
            let view = pool_views.pop().ok_or_else(|| no_pool(pool))?;
            let status = PoolStatus::from(&view);
            match view.phase() {
                PoolPhase::Ready => return Ok((status, 0)),
                PoolPhase::Failed => return Ok((status, 1)),
                PoolPhase::Blocked => return Ok((status, 2)),
                PoolPhase::Progressing => {}
            }
            if status.reason.message != before {
                before.clone_from(&status.reason.message);
                tracing::info!("{pool}: {before}");
            }
            timeout_at(end, changed.recv()).await.map_err(|_| over())?;
            while changed.try_recv().is_ok() {}
        }
    }
}
