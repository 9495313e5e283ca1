//! The controller as a program. Watches and the HTTP server always run; workers run while this
//! process holds the Lease.

use std::collections::BTreeSet;
use std::future::Future;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use kube::Client;
use tokio::sync::{mpsc, oneshot, watch};
use tokio::task::JoinSet;
use tokio::time::timeout;

use super::metrics::Metrics;
use mosb_api::shortened;
use mosb_builds::{BuildExecutor, ClusterFacts, ConfigReconciler};
use mosb_cluster::cluster_cache::{ClusterCache, Tasks, Trigger};
use mosb_cluster::namespaces::Namespaces;
use mosb_cluster::resolver::{LookupLimits, Resolver};
use mosb_followed_bases::{BaseReconciler, OverriddenReconciler};
use mosb_machine_sets::BootImageReconciler;
use mosb_new_machines::{NewMachinesReconciler, SecretExecutor};
use mosb_reconcile::Error;
use mosb_reconcile::driver::{ActiveReconciles, Controller, Driver, MAX_LOOKUP_ROUNDS};
use mosb_reconcile::http_server::{HealthSource, Server};
use mosb_reconcile::lease::{Lease, LeaseTimes, gated};
use mosb_reconcile::write::Executor;
use mosb_render::Renderer;
use mosb_retention::RetentionReconciler;
use mosb_rollout::{OwnPlace, RolloutExecutor, RolloutReconciler};

pub const LEASE: &str = "mosb-controller";
/// Time limit of a reconcile beyond its lookups: for writes, and for what rendering fetches.
const WRITE_ALLOWANCE: Duration = Duration::from_secs(120);
/// How long workers wait for the first probe of the nodes.
const FIRST_PROBE_TIMEOUT: Duration = Duration::from_secs(5);
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
    /// Whether this controller also brings images to machines.
    pub rollout: bool,
    /// Whether this controller also keeps the boot images of sets of machines.
    pub boot_images: bool,
    /// The node that this process runs on: the last that is rebooted in a roll-out.
    pub node: Option<String>,
    /// Whether the ServiceAccounts of builds need permission to use SecurityContextConstraints.
    pub security_context_constraints: bool,
    pub times: LeaseTimes,
    /// Time limit of a lookup in a registry.
    pub lookup_timeout: Duration,
}

/// All controllers, started together.
type Controllers = Arc<[Arc<dyn Controller<Trigger>>]>;

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

/// Runs until `stop`; then waits for running reconciles and releases the Lease. `evictions` is a
/// client that does not retry.
///
/// # Errors
/// An address can't be listened on; the Lease is forbidden or lost.
pub async fn run(
    client: Client,
    evictions: Client,
    options: Options,
    stop: impl Future<Output = ()>,
) -> Result<(), Error> {
    let server = Server::listen(&options.listen).await?;
    for address in server.addresses() {
        tracing::info!("listening on {address}");
    }
    let metrics = Arc::new(Metrics::default());
    let (triggers, trigger_receiver) = mpsc::unbounded_channel();
    let tasks = Tasks {
        rendering: options.render,
        rolling_out: options.rollout,
        keeping_boot_images: options.boot_images,
    };
    let (cache, _watches) = ClusterCache::watch(&client, &options.namespaces, tasks, triggers);
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
    let facts = Arc::new(ClusterFacts::new(options.security_context_constraints));
    let writes = Executor {
        client: client.clone(),
        lease: lease.clone(),
        own_writes: Arc::clone(&cache.own_writes),
        // The longest value that the API allows.
        instance: shortened(&options.identity, 128),
        namespace: options.namespaces.own.clone(),
    };
    let builds = BuildExecutor {
        writes: writes.clone(),
        cache: Arc::clone(&cache),
        builder_image: options.builder_image.clone(),
        security_context_constraints: options.security_context_constraints,
    };
    let build_metrics = Arc::clone(&metrics.builds);
    let configs =
        ConfigReconciler::new(resolver.clone(), builds, build_metrics, Arc::clone(&facts));
    let secrets = SecretExecutor(writes.clone());
    let new_machines =
        NewMachinesReconciler::new(resolver.clone(), secrets, Arc::clone(&metrics.user_data));
    let bases = BaseReconciler::new(resolver.clone(), writes.clone(), Arc::clone(&metrics.bases));
    let overridden =
        OverriddenReconciler::new(resolver.clone(), writes.clone(), Arc::clone(&metrics.bases));
    let retention = RetentionReconciler::new(
        Arc::clone(&cache),
        writes.clone(),
        Arc::clone(&metrics.retention),
    );
    let driving = (&cache.watch_health, &cache.own_writes, &active);
    let mut controllers: Vec<Arc<dyn Controller<Trigger>>> = vec![
        Driver::new(configs, driving),
        Driver::new(new_machines, driving),
        Driver::new(bases, driving),
        Driver::new(overridden, driving),
        Driver::new(retention, driving),
    ];
    if options.render {
        controllers.push(Driver::new(Renderer::new(resolver.clone(), writes.clone()), driving));
    }
    if options.boot_images {
        let (resolver, writes) = (resolver.clone(), writes.clone());
        let boot_images =
            BootImageReconciler::new(resolver, writes, Arc::clone(&metrics.boot_images));
        controllers.push(Driver::new(boot_images, driving));
    }
    if options.rollout {
        let own = OwnPlace {
            node: options.node.clone(),
            image: options.builder_image.clone().unwrap_or_default(),
        };
        let executor = RolloutExecutor {
            writes,
            evictions: gated(evictions, &lease, &options.namespaces.own),
            cache: Arc::clone(&cache),
        };
        let rollout = RolloutReconciler::new(resolver, executor, own, Arc::clone(&metrics.rollout));
        controllers.push(Driver::new(rollout, driving));
    }
    let controllers: Controllers = controllers.into();
    let dispatching = (Arc::clone(&cache), Arc::clone(&controllers));
    always.spawn(dispatch_triggers(dispatching, trigger_receiver, nodes));
    let mut stop = std::pin::pin!(stop);
    tokio::select! {
        held = lease.acquire() => held?,
        () = &mut stop => return Ok(()),
    }
    tracing::info!("the lease is held; reconciling in namespace {}", options.namespaces.own);
    metrics.leader(true);
    let (stopping, stopped) = watch::channel(false);
    let namespace = options.namespaces.own.clone();
    let enqueue_all = {
        let controllers = Arc::clone(&controllers);
        move || controllers.iter().for_each(|one| one.enqueue(&Trigger::All))
    };
    let (probed, first_probe) = oneshot::channel();
    let probing = facts.probe_nodes(client, namespace, nodes_changed, probed, enqueue_all);
    let mut work = tokio::spawn(run_workers(cache, controllers, stopped, probing, first_probe));
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
    (cache, controllers): (Arc<ClusterCache>, Controllers),
    mut triggers: mpsc::UnboundedReceiver<Trigger>,
    nodes: watch::Sender<()>,
) {
    let mut known = BTreeSet::new();
    while let Some(trigger) = triggers.recv().await {
        for controller in controllers.iter() {
            controller.enqueue(&trigger);
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
    cache: Arc<ClusterCache>,
    controllers: Controllers,
    stopped: watch::Receiver<bool>,
    probing: impl Future<Output = ()> + Send + 'static,
    first_probe: oneshot::Receiver<()>,
) {
    let watch_health = &cache.watch_health;
    let waiting = timeout(Duration::from_secs(5), watch_health.wait_for_sync()).await;
    if waiting.is_err() {
        for missing in watch_health.not_synced() {
            tracing::warn!("{missing}");
        }
        watch_health.wait_for_sync().await;
    }
    let _probing = AbortOnDrop(tokio::spawn(probing));
    // Its result is an input of every pool, and would end the lookups that have begun.
    if timeout(FIRST_PROBE_TIMEOUT, first_probe).await.is_err() {
        tracing::warn!("nodes were not probed within {} s", FIRST_PROBE_TIMEOUT.as_secs());
    }
    let mut workers = JoinSet::new();
    for controller in controllers.iter() {
        Arc::clone(controller).start(&mut workers, &stopped);
    }
    while let Some(ended) = workers.join_next().await {
        if let Err(failed) = ended
            && failed.is_panic()
        {
            std::panic::resume_unwind(failed.into_panic());
        }
    }
}
