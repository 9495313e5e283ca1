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
use crate::cli::arguments;
use crate::cli::context::Session;
use crate::cli::error::Error;
use crate::cli::output::Object;
use crate::cli::page::Page;
use crate::cli::progress::Progress;
use crate::cli::{ExitCode, Result};
use mosb_controller::rollout::{self, MachineCounts, NodeView, RolloutPhase, RolloutView};
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
            session.print(&status)?;
            return Ok(code);
        }
        let cache = ClusterCache::read_machines(&client, &namespaces).await?;
        let status = RolloutStatus::from(rollout::rollout_view(&snapshot(&cache, pool)?));
        session.print(&status)
    }
}

/// Follows a roll-out until it is done or stopped, or the time is over.
async fn watch(
    client: &Client,
    namespaces: &Namespaces,
    pool: &str,
    limit: Duration,
    progress: &Progress,
) -> Result<(RolloutStatus, ExitCode)> {
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
        let view = rollout::rollout_view(&snapshot(&cache, pool)?);
        if view.message != before {
            before.clone_from(&view.message);
            progress.step(&format!("{pool}: {before}"));
        }
        let (code, must_last) = match view.phase {
            RolloutPhase::Updated | RolloutPhase::Staged => return Ok((view.into(), 0)),
            RolloutPhase::Off | RolloutPhase::Paused => return Ok((view.into(), 2)),
            RolloutPhase::Blocked => (2, true),
            RolloutPhase::Failed => (1, true),
            RolloutPhase::Progressing => (0, false),
        };
        let mut until = end;
        if must_last {
            let since = *stopped.get_or_insert_with(Instant::now);
            if since.elapsed() >= STOP_CONFIRMED {
                return Ok((view.into(), code));
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

/// How far the roll-out of a pool is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct RolloutStatus {
    /// The pool.
    pub pool: String,
    /// The MachineOSConfig of the pool.
    #[serde(rename = "machineOSConfig", skip_serializing_if = "Option::is_none")]
    pub machine_os_config: Option<String>,
    /// `none`, `stage` or `automatic`.
    pub mode: String,
    /// Whether the pool is paused.
    pub paused: bool,
    /// `updated`, `staged`, `off`, `progressing`, `paused`, `blocked` or `failed`.
    pub phase: String,
    /// One sentence.
    pub message: String,
    /// What the machines should run.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub target: Option<RolloutTarget>,
    /// How many machines there are.
    pub machines: MachineCounts,
    /// Conditions of the pool.
    pub conditions: Vec<PoolCondition>,
    /// The machines that are not updated.
    pub behind: Vec<NodeView>,
    /// What ages are counted from.
    #[serde(skip)]
    pub now: Timestamp,
}

/// What the machines of a pool should run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct RolloutTarget {
    /// `NAME@sha256:…`.
    pub build: String,
    /// The build in service, if the pool is pinned to another one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub newer: Option<String>,
    /// Whether the pool is pinned to it.
    pub pinned: bool,
    /// Whether it is rolled out once, whatever the mode is.
    pub once: bool,
}

/// A condition of a pool.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct PoolCondition {
    /// For example `Updated`.
    #[serde(rename = "type")]
    pub kind: String,
    /// `True`, `False` or `Unknown`.
    pub status: String,
    /// One word.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// A text for people.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
}

impl From<RolloutView> for RolloutStatus {
    fn from(view: RolloutView) -> Self {
        let conditions = view.conditions.into_iter().map(|one| PoolCondition {
            kind: one.kind,
            status: one.status,
            reason: Some(one.reason).filter(|reason| !reason.is_empty()),
            message: Some(one.message).filter(|message| !message.is_empty()),
        });
        Self {
            pool: view.pool,
            machine_os_config: view.config,
            mode: view.mode.as_str().to_owned(),
            paused: view.paused,
            phase: view.phase.as_str().to_owned(),
            message: view.message,
            target: view.target.map(|target| RolloutTarget {
                build: target.build.to_string(),
                newer: target.newer.map(|newer| newer.to_string()),
                pinned: target.is_pinned,
                once: target.is_once,
            }),
            machines: view.machines,
            conditions: conditions.collect(),
            behind: view.behind,
            now: Timestamp::now(),
        }
    }
}

impl Object for RolloutStatus {
    const KIND: &'static str = "RolloutStatus";

    fn text(&self) -> String {
        let mut page = Page::default();
        page.line(&format!("{}: {}", self.pool, self.message));
        let target = self.target.as_ref().map(|target| {
            let newer = target.newer.as_ref().map(|newer| format!("; {newer} is newer"));
            let pinned = if target.pinned { " (pinned)" } else { "" };
            let once = if target.once { " (once)" } else { "" };
            format!("{}{pinned}{once}{}", target.build, newer.unwrap_or_default())
        });
        let paused = if self.paused { " (paused)" } else { "" };
        let mode = format!("{}{paused}", self.mode);
        let counts = &self.machines;
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
        page.pairs(&[
            ("mode", Some(&mode)),
            ("target", target.as_deref()),
            ("machines", Some(&machines)),
        ]);
        if !self.conditions.is_empty() {
            page.section("Conditions");
            let rows = self.conditions.iter().map(|one| {
                let texts = [one.reason.as_deref(), one.message.as_deref()];
                let texts: Vec<&str> = texts.into_iter().flatten().collect();
                vec![one.kind.clone(), one.status.clone(), texts.join(": ")]
            });
            page.table(&[], &rows.collect::<Vec<_>>());
        }
        if !self.behind.is_empty() {
            page.section("Not updated");
            nodes_table(&mut page, &self.behind, self.now);
        }
        page.into_text()
    }
}
