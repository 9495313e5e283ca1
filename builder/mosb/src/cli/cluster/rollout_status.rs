//! `mosb rollout status`: how far the roll-out of a pool is.

use std::time::Duration;

use clap::Args;
use jiff::Timestamp;
use kube::Client;
use schemars::JsonSchema;
use serde::Serialize;
use tokio::sync::mpsc;
use tokio::time::{Instant, timeout_at};

use super::Cluster;
use super::nodes::nodes_table;
use super::rollout::snapshot;
use mosb_commands::context::Session;
use mosb_commands::error::Error;
use mosb_commands::output::Object;
use mosb_commands::page::Page;
use mosb_commands::progress::Progress;
use mosb_commands::{ExitCode, Result, arguments};
use mosb_controller::rollout::{self, RolloutPhase, RolloutView};
use mosb_controller::{ClusterCache, Namespaces};

/// How long a stop must last that the pool's conditions show: they may be of the decision before.
const STOP_CONFIRMED: Duration = Duration::from_secs(15);

#[derive(Debug, Args)]
pub struct RolloutWatch {
    /// The pool
    pub pool: String,
    /// Follow it until it is done, or stopped
    #[arg(short, long)]
    pub watch: bool,
    /// The time limit of --watch: seconds, or with s, m, h
    #[arg(long, value_name = "TIME", default_value = "1h", requires = "watch", value_parser = arguments::duration("--timeout"))]
    pub timeout: Duration,
    #[command(flatten)]
    pub cluster: Cluster,
}

impl RolloutWatch {
    pub async fn run(&self, session: &Session) -> Result<ExitCode> {
        let (client, namespaces) = self.cluster.connect().await?;
        let (pool, progress) = (&self.pool, &session.progress);
        if self.watch {
            let (status, code) = watch(&client, &namespaces, pool, self.timeout, progress).await?;
            session.print(&RolloutStatus(status))?;
            return Ok(code);
        }
        let cache = ClusterCache::read_machines(&client, &namespaces).await?;
        let view = rollout::rollout_view(&snapshot(&cache, pool)?, Timestamp::now());
        session.print(&RolloutStatus(view))
    }
}

/// Follows a roll-out until it is done or stopped, or the time is over.
async fn watch(
    client: &Client,
    namespaces: &Namespaces,
    pool: &str,
    limit: Duration,
    progress: &Progress,
) -> Result<(RolloutView, ExitCode)> {
    let end = Instant::now() + limit;
    let (changes, mut changed) = mpsc::unbounded_channel();
    let (cache, _watches) = ClusterCache::watch_machines(client, namespaces, changes);
    let over = || Error::RolloutTimedOut {
        pool: pool.to_owned(),
        seconds: limit.as_secs(),
        missing: cache.watch_health.not_synced(),
    };
    timeout_at(end, cache.watch_health.wait_for_sync()).await.map_err(|_| over())?;
    let mut before = String::new();
    let mut stopped = None;
    loop {
        let view = rollout::rollout_view(&snapshot(&cache, pool)?, Timestamp::now());
        if view.message != before {
            before.clone_from(&view.message);
            progress.step(&format!("{pool}: {before}"));
        }
        let (code, must_last) = match view.phase {
            RolloutPhase::Updated | RolloutPhase::Staged => return Ok((view, 0)),
            RolloutPhase::Off | RolloutPhase::Paused => return Ok((view, 2)),
            RolloutPhase::Blocked => (2, true),
            RolloutPhase::Failed => (1, true),
            RolloutPhase::Progressing => (0, false),
        };
        let mut until = end;
        if must_last {
            let since = *stopped.get_or_insert_with(Instant::now);
            if since.elapsed() >= STOP_CONFIRMED {
                return Ok((view, code));
            }
            until = end.min(since + STOP_CONFIRMED);
        } else {
            stopped = None;
        }
        if timeout_at(until, changed.recv()).await.is_err() && Instant::now() >= end {
            return Err(over().into());
        }
        while changed.try_recv().is_ok() {}
    }
}

#[derive(Debug, Serialize, JsonSchema)]
#[serde(transparent)]
pub struct RolloutStatus(pub RolloutView);

impl Object for RolloutStatus {
    const KIND: &'static str = "RolloutStatus";

    fn text(&self) -> String {
        let Self(shown) = self;
        let mut page = Page::default();
        page.line(&format!("{}: {}", shown.pool, shown.message));
        let target = shown.target.as_ref().map(|target| {
            let newer = target.newer.as_ref().map(|newer| format!("; {newer} is newer"));
            let pinned = if target.is_pinned { " (pinned)" } else { "" };
            let once = if target.is_once { " (once)" } else { "" };
            format!("{}{pinned}{once}{}", target.build, newer.unwrap_or_default())
        });
        let paused = if shown.paused { " (paused)" } else { "" };
        let mode = format!("{}{paused}", shown.mode.as_str());
        let counts = &shown.machines;
        let live = if counts.live > 0 { format!(" ({} live)", counts.live) } else { String::new() };
        let machines = format!(
            "{} machines: {} updated{live}, {} ready, {} staged, {} unavailable, {} degraded",
            counts.all,
            counts.updated,
            counts.ready,
            counts.staged,
            counts.unavailable,
            counts.degraded
        );
        let soft = shown.soft_reboots.as_ref().map(|soft| {
            let causes: Vec<&str> = soft.causes.iter().map(String::as_str).collect();
            let causes =
                if causes.is_empty() { String::new() } else { format!(": {}", causes.join("; ")) };
            format!("{} machines; {} booted the kernel{causes}", soft.used, soft.not_used)
        });
        page.pairs(&[
            ("mode", Some(&mode)),
            ("target", target.as_deref()),
            ("machines", Some(&machines)),
            ("soft reboots", soft.as_deref()),
        ]);
        if !shown.conditions.is_empty() {
            page.section("Conditions");
            let rows = shown.conditions.iter().map(|one| {
                let texts = [one.reason.as_str(), one.message.as_str()];
                let texts: Vec<&str> = texts.into_iter().filter(|text| !text.is_empty()).collect();
                vec![one.kind.clone(), one.status.clone(), texts.join(": ")]
            });
            page.table(&[], &rows.collect::<Vec<_>>());
        }
        if !shown.behind.is_empty() {
            page.section("Not updated");
            nodes_table(&mut page, &shown.behind, shown.now);
        }
        page.into_text()
    }
}
