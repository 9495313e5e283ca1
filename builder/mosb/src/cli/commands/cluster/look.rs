//! `mosb status`, `rebuild`, `logs`, `wait`.

use std::time::Duration;

use kube::Client;
use tokio::sync::mpsc;
use tokio::time::{Instant, timeout_at};

use super::print_line;
use crate::cli::ExitCode;
use crate::cli::Result;
use crate::cli::error::Error;
use crate::cli::objects::{BuildInfo, ClusterStatus, PoolStatus, ReasonInfo, RebuildRequest};
use mosb_controller::{self as controller, ClusterCache, LogLine, Namespaces, PoolPhase, PoolView};
use mosb_plan::api::{BuildName, labels};

pub async fn status(
    client: &Client,
    namespaces: &Namespaces,
    pool: Option<&str>,
) -> Result<ClusterStatus> {
    let cache = ClusterCache::read(client, namespaces).await?;
    let pool_views = controller::pool_views(&cache, pool);
    if let (Some(pool), true) = (pool, pool_views.is_empty()) {
        return Err(no_pool(pool).into());
    }
    Ok(ClusterStatus {
        namespace: namespaces.own.clone(),
        pools: pool_views.iter().map(to_pool_status).collect(),
    })
}

pub(super) fn no_pool(pool: &str) -> Error {
    Error::NoPool { pool: pool.to_owned() }
}

fn to_pool_status(view: &PoolView) -> PoolStatus {
    let given = |text: &str| (!text.is_empty()).then(|| text.to_owned());
    PoolStatus {
        pool: view.pool.clone(),
        rendered_config: given(&view.rendered),
        machine_os_config: view.config.clone(),
        image: given(&view.image),
        reason: ReasonInfo {
            code: view.reason.code().to_owned(),
            message: view.reason.to_string(),
        },
        build: view.build.as_ref().map(|build| BuildInfo {
            name: build.metadata.name.clone(),
            state: build.status.state().map(|state| state.as_str().to_owned()),
            start: build.status.build_start.as_ref().map(|at| at.0.to_string()),
            end: build.status.build_end.as_ref().map(|at| at.0.to_string()),
            prepared_at: build.metadata.annotation(labels::PREPARED_AT).map(str::to_owned),
        }),
    }
}

/// The selected pool, which must have a MachineOSConfig.
fn opted_in(cache: &ClusterCache, pool: &str) -> Result<(PoolView, String), Error> {
    let mut pool_views = controller::pool_views(cache, Some(pool));
    let view = pool_views.pop().ok_or_else(|| no_pool(pool))?;
    let config = view.config.clone().ok_or_else(|| Error::NotOptedIn { pool: pool.to_owned() })?;
    Ok((view, config))
}

pub async fn rebuild(
    client: &Client,
    namespaces: &Namespaces,
    pool: &str,
    config_only: bool,
) -> Result<RebuildRequest> {
    let cache = ClusterCache::read(client, namespaces).await?;
    let (_, config) = opted_in(&cache, pool)?;
    controller::request_rebuild(client, &config, config_only).await?;
    Ok(RebuildRequest { pool: pool.to_owned(), machine_os_config: config })
}

pub async fn logs(
    client: &Client,
    namespaces: &Namespaces,
    of: &str,
    run_watch: bool,
) -> Result<()> {
    let namespace = &*namespaces.own;
    let cache = ClusterCache::read(client, namespaces).await?;
    let build = match cache.builds.get(of) {
        Some(build) => (*build).clone(),
        None => {
            let (view, _) = opted_in(&cache, of)?;
            view.build.ok_or_else(|| Error::NoBuild { of: of.to_owned() })?
        }
    };
    let name: BuildName =
        build.metadata.name.parse().map_err(|error| Error::Usage(format!("{error}")))?;
    let print = |line| match line {
        LogLine::Container(container) => tracing::info!("{container}:"),
        LogLine::Text(text) => {
            if !print_line(&text) {
                tracing::debug!("nobody reads");
            }
        }
    };
    let live = controller::logs(client, namespace, &name, run_watch, print).await;
    if matches!(live, Ok(Some(lines)) if lines > 0) {
        return Ok(());
    }
    let archived =
        controller::archived_logs(client, namespace, &name, build.metadata.uid()).await?;
    let (why, (attempt, lines)) = match (live, archived) {
        (Err(error), Some(archived)) => (error.to_string(), archived),
        (Ok(None), Some(archived)) => (format!("{name} has no pod any more"), archived),
        (Ok(Some(_)), Some(archived)) => ("its pod has written no log yet".to_owned(), archived),
        (Err(error), None) => return Err(error.into()),
        (Ok(Some(_)), None) => return Ok(()),
        (Ok(None), None) => {
            let build = name.to_string();
            return Err(Error::NoPod { build }.into());
        }
    };
    tracing::info!("{why}; the archived log of attempt {attempt} follows");
    lines.into_iter().for_each(print);
    Ok(())
}

/// Waits until the pool is done or blocked, or the timeout is reached.
pub async fn wait(
    client: &Client,
    namespaces: &Namespaces,
    pool: &str,
    limit: Duration,
) -> Result<(PoolStatus, ExitCode)> {
    let end = Instant::now() + limit;
    let (changes, mut changed) = mpsc::unbounded_channel();
    let (cache, _watches) = ClusterCache::watch(
        client,
        namespaces,
        controller::cluster_cache::Tasks::default(),
        changes,
    );
    let over = || Error::TimedOut {
        pool: pool.to_owned(),
        seconds: limit.as_secs(),
        missing: cache.watch_health.not_synced(),
    };
    timeout_at(end, cache.watch_health.wait_for_sync()).await.map_err(|_| over())?;
    let mut before = String::new();
    loop {
        let mut pool_views = controller::pool_views(&cache, Some(pool));
        let view = pool_views.pop().ok_or_else(|| no_pool(pool))?;
        let status = to_pool_status(&view);
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
