//! The controller as a program. Watches and the HTTP server always run; workers run while this
//! process holds the Lease.

use std::collections::BTreeSet;
use std::future::Future;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use kube::Client;
use tokio::sync::{mpsc, watch};
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};

use super::Error;
use super::active_reconciles::ActiveReconciles;
use super::apply::Executor;
use super::cluster_cache::{ClusterCache, Trigger};
use super::http_server::{HealthSource, Server};
use super::lease::{Lease, LeaseTimes};
use super::lease_gate::gated;
use super::lookups::{LookupLimits, Resolver};
use super::metrics::Metrics;
use super::namespaces::Namespaces;
use super::observe::affected_keys;
use super::probe;
use super::queue::Queue;
use super::reconciler::{MAX_LOOKUP_ROUNDS, Reconciler};
use super::render::Renderer;

pub const LEASE: &str = "mosb-controller";
/// Keys that are reconciled at once: most of the time they wait for the API or a registry.
const WORKERS: usize = 16;
/// How often the capabilities of nodes are probed again.
const NODE_PROBE_INTERVAL: Duration = Duration::from_secs(1800);
/// Pools that are rendered at once: more than may wait for the same registry.
const RENDER_WORKERS: usize = 8;
/// Time limit of a reconcile beyond its lookups: for writes, and for what rendering fetches.
const WRITE_ALLOWANCE: Duration = Duration::from_secs(120);
/// How long running reconciles may take to end after a signal.
const SHUTDOWN_GRACE: Duration = Duration::from_secs(10);

/// Options of the controller.
#[derive(Debug, Clone)]
pub struct Options {
    pub namespaces: Namespaces,
    /// Addresses of `/healthz`, `/readyz` and `/metrics`.
    pub listen: Vec<SocketAddr>,
    /// Holder identity of the Lease and reporting instance of events; different for each process.
    pub identity: String,
    /// The image of build pods, if the settings name none.
    pub builder_image: Option<String>,
    /// Whether this controller also renders pools.
    pub render: bool,
    /// Whether the ServiceAccounts of builds need permission to use SecurityContextConstraints.
    pub security_context_constraints: bool,
    pub times: LeaseTimes,
    /// Time limit of a lookup in a registry.
    pub lookup_timeout: Duration,
}

struct ControllerHealth {
    cache: Arc<ClusterCache>,
    metrics: Arc<Metrics>,
    active: Arc<ActiveReconciles>,
}

impl HealthSource for ControllerHealth {
    fn not_ready(&self) -> Vec<String> {
        self.cache.watch_health.not_synced()
    }

    fn not_live(&self) -> Vec<String> {
        self.active.overdue()
    }

    fn metrics(&self) -> String {
        self.metrics.oldest_reconcile(self.active.oldest());
        self.metrics.text()
    }
}

/// Runs until `stop`; then waits for running reconciles and releases the Lease.
///
/// # Errors
/// An address can't be listened on; the Lease is forbidden or lost.
pub async fn run(
    client: Client,
    options: Options,
    stop: impl Future<Output = ()>,
) -> Result<(), Error> {
    let server = Server::listen(&options.listen).await?;
    for address in server.addresses() {
        tracing::info!("listening on {address}");
    }
    let metrics = Arc::new(Metrics::default());
    let (triggers, trigger_receiver) = mpsc::unbounded_channel();
    let on_trigger = move |trigger| {
        // Fails only when the program ends.
        let _ = triggers.send(trigger);
    };
    let (cache, _watches) =
        ClusterCache::watch(&client, &options.namespaces, options.render, Arc::new(on_trigger));
    let queue = Arc::new(Queue::default());
    let (nodes, nodes_changed) = watch::channel(());
    let mut always = JoinSet::new();
    let deadline = options.lookup_timeout * MAX_LOOKUP_ROUNDS + WRITE_ALLOWANCE;
    let active = Arc::new(ActiveReconciles::new(deadline));
    always.spawn(server.run(Arc::new(ControllerHealth {
        cache: Arc::clone(&cache),
        metrics: Arc::clone(&metrics),
        active: Arc::clone(&active),
    })));
    let lease = Lease::new(
        client.clone(),
        &options.namespaces.own,
        LEASE,
        &options.identity,
        options.times,
    );
    // For all writes from here on.
    let client = gated(client, &lease, &options.namespaces.own);
    let resolver = Resolver {
        client: client.clone(),
        cache: Arc::clone(&cache),
        registries: Arc::default(),
        limits: Arc::new(LookupLimits::new(options.lookup_timeout)),
    };
    let renderer = options
        .render
        .then(|| {
            let (resolver, lease) = (resolver.clone(), lease.clone());
            Renderer::new(resolver, lease, options.identity.clone(), Arc::clone(&active))
        })
        .map(Arc::new);
    let targets = (Arc::clone(&cache), Arc::clone(&queue), renderer.clone());
    always.spawn(dispatch_triggers(targets, trigger_receiver, nodes));
    let reconciler = Arc::new(Reconciler::new(
        resolver,
        Executor {
            client,
            cache: Arc::clone(&cache),
            lease: lease.clone(),
            instance: options.identity.clone(),
            builder_image: options.builder_image.clone(),
            security_context_constraints: options.security_context_constraints,
        },
        Arc::clone(&metrics),
    ));
    let mut stop = std::pin::pin!(stop);
    tokio::select! {
        held = lease.acquire() => held?,
        () = &mut stop => return Ok(()),
    }
    tracing::info!("this controller acts now, in namespace {}", options.namespaces.own);
    metrics.leader(true);
    let (stopping, stopped) = watch::channel(false);
    let loops = (Arc::clone(&queue), renderer, active);
    let mut work = tokio::spawn(run_workers(reconciler, loops, stopped, nodes_changed));
    let lost = {
        let lease = lease.clone();
        // A task of its own, so that busy workers can't delay the renewal.
        tokio::spawn(async move { lease.renew_until_lost().await })
    };
    let mut lost = AbortOnDrop(lost);
    let ended = tokio::select! {
    error = &mut lost.0 => Err(error.unwrap_or_else(|_| Error::LostLease {
            name: format!("{}/{LEASE}", options.namespaces.own),
            why: "its renewal task ended".to_owned(),
    })),
    done = &mut work => {
            // Workers end by themselves only if one of them panicked.
            if let Err(failed) = done && failed.is_panic() {
                std::panic::resume_unwind(failed.into_panic());
            }
            Ok(())
    }
    () = &mut stop => {
            stopping.send_replace(true);
            if timeout(SHUTDOWN_GRACE, &mut work).await.is_err() {
                tracing::warn!("running reconciles were cancelled after {} s", SHUTDOWN_GRACE.as_secs());
            }
            Ok(())
    }
    };
    // No writes from here on, whatever ended.
    work.abort();
    drop(lost);
    metrics.leader(false);
    if ended.is_ok() {
        lease.release().await;
    }
    ended
}

struct AbortOnDrop<T>(tokio::task::JoinHandle<T>);

impl<T> Drop for AbortOnDrop<T> {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// Enqueues the keys that changes affect, and reports when the set of nodes changed.
async fn dispatch_triggers(
    (cache, queue, renderer): (Arc<ClusterCache>, Arc<Queue<String>>, Option<Arc<Renderer>>),
    mut triggers: mpsc::UnboundedReceiver<Trigger>,
    nodes: watch::Sender<()>,
) {
    let mut known = BTreeSet::new();
    while let Some(trigger) = triggers.recv().await {
        for key in affected_keys(&cache, &trigger) {
            queue.enqueue(&key);
        }
        if let Some(renderer) = &renderer {
            renderer.enqueue(&trigger);
        }
        if trigger == Trigger::All {
            let now: BTreeSet<String> = cache.nodes.list().iter().map(|n| n.uid.clone()).collect();
            if now != known {
                known = now;
                nodes.send_replace(());
            }
        }
    }
}

/// Runs the workers until they are stopped; running reconciles are finished first.
async fn run_workers(
    reconciler: Arc<Reconciler>,
    (queue, renderer, active): (Arc<Queue<String>>, Option<Arc<Renderer>>, Arc<ActiveReconciles>),
    stopped: watch::Receiver<bool>,
    nodes_changed: watch::Receiver<()>,
) {
    let watch_health = &reconciler.executor.cache.watch_health;
    let waiting = timeout(Duration::from_secs(5), watch_health.wait_for_sync()).await;
    if waiting.is_err() {
        for missing in watch_health.not_synced() {
            tracing::warn!("{missing}");
        }
        watch_health.wait_for_sync().await;
    }
    let mut probing = JoinSet::new();
    probing.spawn(probe_nodes(Arc::clone(&reconciler), Arc::clone(&queue), nodes_changed));
    let mut workers = JoinSet::new();
    for _ in 0..WORKERS {
        workers.spawn(worker(
            Arc::clone(&reconciler),
            (Arc::clone(&queue), Arc::clone(&active)),
            stopped.clone(),
        ));
    }
    if let Some(renderer) = renderer {
        renderer.begin();
        for _ in 0..RENDER_WORKERS {
            let (renderer, stopped) = (Arc::clone(&renderer), stopped.clone());
            workers.spawn(async move { renderer.work(stopped).await });
        }
    }
    while let Some(ended) = workers.join_next().await {
        if let Err(failed) = ended
            && failed.is_panic()
        {
            std::panic::resume_unwind(failed.into_panic());
        }
    }
}

async fn worker(
    reconciler: Arc<Reconciler>,
    (queue, active): (Arc<Queue<String>>, Arc<ActiveReconciles>),
    mut stopped: watch::Receiver<bool>,
) {
    loop {
        let key = tokio::select! {
        // No new key after the stop.
        biased;
        _ = stopped.wait_for(|stopped| *stopped) => return,
        key = queue.next() => key,
        };
        let reconcile = reconciler.reconcile(&key, queue.is_paused(&key));
        let requeue = active.run(&format!("machineosconfig {key}"), reconcile).await;
        queue.set_priority(&key, reconciler.is_creating_workload(&key));
        queue.done(&key, requeue);
    }
}

/// Probes user namespaces when the set of nodes changes, and regularly, because an updated node
/// keeps its UID.
async fn probe_nodes(
    reconciler: Arc<Reconciler>,
    queue: Arc<Queue<String>>,
    mut nodes_changed: watch::Receiver<()>,
) {
    loop {
        let executor = &reconciler.executor;
        match probe::user_namespaces(&executor.client, &executor.cache.namespace).await {
            Ok(support) => {
                let before = {
                    let mut facts =
                        reconciler.facts.lock().expect("nobody panics while holding it");
                    std::mem::replace(&mut facts.user_namespaces, support)
                };
                if before != support {
                    tracing::info!("user namespaces of pods: {support:?}");
                    for key in affected_keys(&executor.cache, &Trigger::All) {
                        queue.enqueue(&key);
                    }
                }
                tokio::select! {
                changed = nodes_changed.changed() => if changed.is_err() {
                        return;
                },
                () = sleep(NODE_PROBE_INTERVAL) => {}
                }
            }
            Err(error) => {
                tracing::warn!("{error}");
                // The next change of nodes may be far away.
                sleep(Duration::from_secs(30)).await;
            }
        }
    }
}
