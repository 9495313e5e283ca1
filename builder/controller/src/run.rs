//! The controller as a program: watches and the server run always, workers while the Lease is ours.

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

/// Name of the Lease.
pub const LEASE: &str = "mosb-controller";
/// Keys that are looked at at once: a look mostly waits for the API or a registry.
const WORKERS: usize = 16;
/// How long what nodes can do is believed.
const NODE_PROBE_INTERVAL: Duration = Duration::from_secs(1800);
/// Pools that are rendered at once: more than may wait for the same registry.
const RENDER_WORKERS: usize = 8;
/// The time of a reconcile beside its lookups: for writes, and for what is fetched to render a pool.
const WRITE_ALLOWANCE: Duration = Duration::from_secs(120);
/// What is under way when a signal comes may take no longer.
const SHUTDOWN_GRACE: Duration = Duration::from_secs(10);

/// How it runs.
#[derive(Debug, Clone)]
pub struct Options {
    /// Where everything is that has a namespace.
    pub namespaces: Namespaces,
    /// Where `/healthz`, `/readyz` and `/metrics` are.
    pub listen: Vec<SocketAddr>,
    /// Different for each process: who holds the Lease, and who tells events.
    pub identity: String,
    /// The image that build pods run where the settings name none.
    pub builder_image: Option<String>,
    /// Whether pools are rendered too.
    pub render: bool,
    /// Whether the accounts of builds need the right to SecurityContextConstraints.
    pub security_context_constraints: bool,
    /// Of the Lease.
    pub times: LeaseTimes,
    /// The time that a lookup in a registry may take.
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

/// Runs until `stop`; then what is under way is done, and the Lease given back.
///
/// # Errors
/// An address that can't be listened on, a Lease that is forbidden or lost.
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
        // Nobody hears it only when the program ends.
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
    // For whatever is written from here on.
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
    let (stopping, apply_error) = watch::channel(false);
    let loops = (Arc::clone(&queue), renderer, active);
    let mut work = tokio::spawn(run_workers(reconciler, loops, apply_error, nodes_changed));
    let lost = {
        let lease = lease.clone();
        // A task of its own: busy workers must not keep it from being renewed.
        tokio::spawn(async move { lease.renew_until_lost().await })
    };
    let mut lost = AbortOnDrop(lost);
    let ended = tokio::select! {
    error = &mut lost.0 => Err(error.unwrap_or_else(|_| Error::LostLease {
            name: format!("{}/{LEASE}", options.namespaces.own),
            why: "its keeper ended".to_owned(),
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
                tracing::warn!("what was under way is left as it is after {} s", SHUTDOWN_GRACE.as_secs());
            }
            Ok(())
    }
    };
    // Nothing is written any more, whatever it was that ended.
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

/// Wakes the keys that changes concern, and tells when there are other nodes.
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

/// Looks at keys until it is stopped; what is under way is done first.
async fn run_workers(
    reconciler: Arc<Reconciler>,
    (queue, renderer, active): (Arc<Queue<String>>, Option<Arc<Renderer>>, Arc<ActiveReconciles>),
    apply_error: watch::Receiver<bool>,
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
            apply_error.clone(),
        ));
    }
    if let Some(renderer) = renderer {
        renderer.begin();
        for _ in 0..RENDER_WORKERS {
            let (renderer, apply_error) = (Arc::clone(&renderer), apply_error.clone());
            workers.spawn(async move { renderer.work(apply_error).await });
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
    mut apply_error: watch::Receiver<bool>,
) {
    loop {
        let key = tokio::select! {
        // A key that is due must not be taken any more.
        biased;
        _ = apply_error.wait_for(|apply_error| *apply_error) => return,
        key = queue.next() => key,
        };
        let reconcile = reconciler.reconcile(&key, queue.is_paused(&key));
        let requeue = active.run(&format!("machineosconfig {key}"), reconcile).await;
        queue.set_priority(&key, reconciler.is_creating_workload(&key));
        queue.done(&key, requeue);
    }
}

/// Finds out about user namespaces, again when there are other nodes, and from time to time, as a node that was updated is the same.
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
