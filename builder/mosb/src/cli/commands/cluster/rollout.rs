//! `mosb builds`, `nodes` and `rollout`.

use std::time::Duration;

use k8s_openapi::jiff::Timestamp;
use kube::Client;
use tokio::sync::mpsc;
use tokio::time::{Instant, timeout_at};

use super::CONFLICT_TRIES;
use super::confirm::Consent;
use super::look::no_pool;
use crate::cli::error::Error;
use crate::cli::objects::{
    BuildList, NodeEtc, NodeEtcOf, NodeInfo, NodeList, PoolBuild, PoolCondition, PoolDrift,
    RolloutMachines, RolloutRequest, RolloutStatus, RolloutTarget,
};
use crate::cli::progress::Progress;
use crate::cli::resolve::Rollout;
use crate::cli::{ExitCode, Result};
use mosb_controller::rollout::{
    self, BuildView, DrainRecords, NodeView, OwnPlace, RolloutPhase, RolloutSnapshot, RolloutView,
};
use mosb_controller::{ClusterCache, Namespaces};

/// How long a stop must last that the pool's conditions show: they may be of the decision before.
const STOP_CONFIRMED: Duration = Duration::from_secs(15);

/// The pool, its image and its machines.
fn snapshot(cache: &ClusterCache, pool: &str) -> Result<RolloutSnapshot, Error> {
    // Neither the place of the controller nor what it was refused is shown.
    let found = rollout::observe(cache, pool, &OwnPlace::default(), &DrainRecords::default());
    found.filter(|found| !found.is_pool_missing).ok_or_else(|| no_pool(pool))
}

pub async fn builds(
    client: &Client,
    namespaces: &Namespaces,
    pool: Option<&str>,
) -> Result<BuildList> {
    let cache = ClusterCache::read_machines(client, namespaces).await?;
    let pools = match pool {
        Some(pool) => vec![pool.to_owned()],
        None => cache.pools.list().iter().map(|pool| pool.metadata.name.clone()).collect(),
    };
    let now = Timestamp::now();
    let mut builds = Vec::new();
    for pool in pools {
        let views = rollout::build_views(&snapshot(&cache, &pool)?).into_iter();
        builds.extend(views.map(|view| pool_build(view, &pool, now)));
    }
    Ok(BuildList { builds })
}

fn pool_build(view: BuildView, pool: &str, now: Timestamp) -> PoolBuild {
    PoolBuild {
        build: view.build,
        pool: pool.to_owned(),
        config: view.config,
        base: view.base,
        method: view.method,
        image: view.image,
        state: view.state,
        age: view.time.map(|time| age(time, now)).unwrap_or_default(),
        time: view.time.map(|time| time.to_string()),
        in_service: view.in_service,
        pinned: view.pinned,
        staged_on: view.staged_on,
        running_on: view.running_on,
    }
}

pub async fn nodes(
    client: &Client,
    namespaces: &Namespaces,
    pool: Option<&str>,
) -> Result<NodeList> {
    let cache = ClusterCache::read_machines(client, namespaces).await?;
    if let Some(pool) = pool.filter(|pool| cache.pools.get(pool).is_none()) {
        return Err(no_pool(pool).into());
    }
    let (views, now) = (rollout::node_views(&cache, pool), Timestamp::now());
    Ok(NodeList { nodes: views.into_iter().map(|view| node_info(view, now)).collect() })
}

fn node_info(view: NodeView, now: Timestamp) -> NodeInfo {
    NodeInfo {
        node: view.name,
        pool: view.pool,
        current: view.current,
        desired: view.desired,
        staged: view.staged,
        live: view.live,
        state: view.state,
        age: view.since.map(|since| age(since, now)).unwrap_or_default(),
        since: view.since.map(|since| since.to_string()),
        reason: view.reason,
        ready: view.ready,
        unschedulable: view.unschedulable,
    }
}

/// What the machines of a pool hide, and could adopt.
pub async fn drift(client: &Client, namespaces: &Namespaces, pool: &str) -> Result<PoolDrift> {
    let cache = ClusterCache::read_machines(client, namespaces).await?;
    let adopts = rollout::adopts(&snapshot(&cache, pool)?);
    let nodes = rollout::node_views(&cache, Some(pool)).into_iter();
    let nodes =
        nodes.map(|view| NodeEtcOf { node: view.name, etc: view.etc.as_ref().map(NodeEtc::from) });
    Ok(PoolDrift { pool: pool.to_owned(), adopts, nodes: nodes.collect() })
}

pub async fn status(client: &Client, namespaces: &Namespaces, pool: &str) -> Result<RolloutStatus> {
    let cache = ClusterCache::read_machines(client, namespaces).await?;
    Ok(to_status(rollout::rollout_view(&snapshot(&cache, pool)?)))
}

fn to_status(view: RolloutView) -> RolloutStatus {
    let now = Timestamp::now();
    let counts = view.machines;
    let conditions = view.conditions.into_iter().map(|one| PoolCondition {
        kind: one.kind,
        status: one.status,
        reason: Some(one.reason).filter(|reason| !reason.is_empty()),
        message: Some(one.message).filter(|message| !message.is_empty()),
    });
    RolloutStatus {
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
        machines: RolloutMachines {
            all: counts.all,
            updated: counts.updated,
            ready: counts.ready,
            staged: counts.staged,
            live: counts.live,
            unavailable: counts.unavailable,
            degraded: counts.degraded,
        },
        conditions: conditions.collect(),
        behind: view.behind.into_iter().map(|view| node_info(view, now)).collect(),
    }
}

/// Follows a roll-out until it is done or stopped, or the time is over.
pub async fn watch(
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
            RolloutPhase::Updated | RolloutPhase::Staged => return Ok((to_status(view), 0)),
            RolloutPhase::Off | RolloutPhase::Paused => return Ok((to_status(view), 2)),
            RolloutPhase::Blocked => (2, true),
            RolloutPhase::Failed => (1, true),
            RolloutPhase::Progressing => (0, false),
        };
        let mut until = end;
        if must_last {
            let since = *stopped.get_or_insert_with(Instant::now);
            if since.elapsed() >= STOP_CONFIRMED {
                return Ok((to_status(view), code));
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

/// Carries out a request: reads, decides, asks and writes, again if the object was changed
/// meanwhile.
pub async fn request(
    client: &Client,
    namespaces: &Namespaces,
    job: &Rollout,
) -> Result<RolloutRequest> {
    let mut consent = Consent::new(job.yes);
    for left in (0..CONFLICT_TRIES).rev() {
        let cache = ClusterCache::read_machines(client, namespaces).await?;
        let snapshot = snapshot(&cache, &job.pool)?;
        let change = rollout::decide_request(client, &snapshot, &job.request).await??;
        if let Some(question) = &change.question {
            consent.obtain(question).await?;
        }
        match rollout::write_request(client, &snapshot, &change).await {
            Err(error) if error.status_code() == Some(409) && left > 0 => {
                tracing::debug!("{error}; deciding again");
            }
            Err(error) => return Err(error.into()),
            Ok(()) => {
                return Ok(RolloutRequest {
                    pool: job.pool.clone(),
                    action: action(&job.request).to_owned(),
                    changed: !change.is_empty(),
                    build: change.build.map(|build| build.to_string()),
                    notes: change.notes,
                });
            }
        }
    }
    unreachable!("the last try returns")
}

fn action(request: &rollout::RolloutRequest) -> &'static str {
    match request {
        rollout::RolloutRequest::Start => "start",
        rollout::RolloutRequest::Pause => "pause",
        rollout::RolloutRequest::Resume => "resume",
        rollout::RolloutRequest::Undo(_) => "undo",
        rollout::RolloutRequest::Adopt => "adopt",
    }
}

/// `42s`, `7m`, `3h`, `5d`, as kubectl shows ages.
fn age(since: Timestamp, now: Timestamp) -> String {
    let seconds = now.duration_since(since).as_secs().max(0);
    match seconds {
        0..120 => format!("{seconds}s"),
        120..7200 => format!("{}m", seconds / 60),
        7200..172_800 => format!("{}h", seconds / 3600),
        _ => format!("{}d", seconds / 86_400),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ages_have_one_unit() {
        let now = Timestamp::from_second(10_000_000).unwrap();
        for (seconds, want) in [
            (-5, "0s"),
            (0, "0s"),
            (119, "119s"),
            (120, "2m"),
            (7199, "119m"),
            (7200, "2h"),
            (172_799, "47h"),
            (172_800, "2d"),
        ] {
            let since = Timestamp::from_second(10_000_000 - seconds).unwrap();
            assert_eq!(age(since, now), want, "{seconds}");
        }
    }
}
