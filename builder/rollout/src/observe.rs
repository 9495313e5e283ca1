//! Takes the snapshot of a pool and its machines from the cache. Pure: it sends no requests.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::batch::v1::Job;
use kube::ResourceExt as _;

use super::drain::{DrainRecord, DrainRecords};
use super::job_phase::{job_phase, pod_wait, pod_waiting};
use super::job_request::NodeVerb;
use super::leaving_configs::PoolConfigs;
use super::lookup::RolloutLookupResults;
use super::node_job::JobCommand;
use super::other_places::OtherPlaces;
use super::policy::PoolPolicy;
use super::reason::OF_SOME_MACHINES;
use super::slots::max_unavailable;
use super::snapshot::{
    ClusterMachines, ControlPlaneNode, JobPhase, Machine, MachineJob, RefusedWrites,
    RolloutSettings, RolloutSnapshot,
};
use mosb_api::{
    Condition, MachineConfigPool, MachineOsBuild, MachineOsConfig, Metadata, condition, labels,
};
use mosb_cluster::cluster_cache::{
    CONTROLLER_WATCHES, ClusterCache, IndexKey, MACHINES, NODE_JOBS, NODE_PODS, NODE_SECRETS,
    POOL_WATCHES, SeenMachine, Trigger, non_empty_annotation, owning_node,
};
use mosb_cluster::node_pool::{NodePool, PoolSelectors, may_run_etcd};
use mosb_cluster::status::ROLLOUT_DEGRADED;
use mosb_reconcile::Problem;

/// Where the controller runs, and its image: no watch shows them.
#[derive(Debug, Clone, Default)]
pub struct OwnPlace {
    /// The node that the controller runs on.
    pub node: Option<String>,
    /// The image of the controller, by digest.
    pub image: String,
}

/// The key of the machines that have a slot or a Job and are of no pool any more. No pool has this
/// name.
pub(super) const NO_POOL: &str = "(none)";

/// The snapshot of the pool of this name, or of the machines without a pool. Of a pool that does
/// not exist, only MachineOSConfigs that are being deleted are of interest.
pub fn observe(
    cache: &ClusterCache,
    name: &str,
    own: &OwnPlace,
    drains: &DrainRecords,
) -> Option<RolloutSnapshot> {
    let pool = cache.pools.get(name);
    let is_pool_missing = pool.is_none();
    let pool = pool.map(|pool| (*pool).clone()).unwrap_or_else(|| {
        let metadata = Metadata { name: name.to_owned(), ..Metadata::default() };
        MachineConfigPool { metadata, ..MachineConfigPool::default() }
    });
    let configs = cache.configs.by_index([IndexKey::Pool(name.to_owned())]);
    let configs = configs.iter().map(|config| (**config).clone()).collect();
    let has_pool = !is_pool_missing && !pool.metadata.is_being_deleted();
    let PoolConfigs { config, rivals, leaving } = PoolConfigs::of(configs, has_pool);
    let selectors = PoolSelectors::of(cache);
    if is_pool_missing {
        let machines =
            if name == NO_POOL { without_pool(cache, &selectors, drains) } else { Vec::new() };
        let is_empty = machines.is_empty() && leaving.is_empty();
        return (!is_empty).then(|| RolloutSnapshot {
            pool,
            is_pool_missing,
            leaving,
            other_controller: cache.other_renderer(),
            machines,
            cluster: cluster(cache, name, own),
            settings: settings(cache),
            ..RolloutSnapshot::default()
        });
    }
    let is_member = selectors.members_of(name);
    let members = cache.machines.filter_list(|seen| is_member(&seen.metadata.labels));
    let mut machines = Vec::new();
    let mut shared_nodes = BTreeMap::new();
    for seen in members {
        let node = seen.metadata.name.clone();
        match selectors.pool_of(&seen.metadata.labels) {
            NodePool::Shared(pools) => drop(shared_nodes.insert(node, pools)),
            NodePool::One(_) | NodePool::None => {
                let drain = drains.get(&node).cloned();
                machines.push(machine(cache, &seen, drain));
            }
        }
    }
    Some(RolloutSnapshot {
        builds: config.as_ref().map(|config| builds(cache, config)).unwrap_or_default(),
        policy: config.as_ref().map(|config| policy(cache, config)).unwrap_or_default(),
        pool,
        is_pool_missing,
        config,
        rivals,
        leaving,
        other_controller: cache.other_renderer(),
        machines,
        shared_nodes,
        cluster: cluster(cache, name, own),
        settings: settings(cache),
        refused_writes: RefusedWrites::default(),
        lookup_results: RolloutLookupResults::default(),
    })
}

/// Machines with a slot or a Job that no pool, or more than one, selects.
fn without_pool(
    cache: &ClusterCache,
    selectors: &PoolSelectors,
    drains: &DrainRecords,
) -> Vec<Machine> {
    let is_left = |seen: &Arc<SeenMachine>| {
        !matches!(selectors.pool_of(&seen.metadata.labels), NodePool::One(_))
    };
    let jobs = cache.node_jobs.list();
    let with_job = jobs.iter().filter_map(|job| owning_node(&job.metadata));
    let with_job = with_job.filter_map(|node| cache.machines.get(&node.name));
    let left = cache.machines.by_index([IndexKey::Slot]).into_iter().chain(with_job);
    let left: BTreeMap<String, Arc<SeenMachine>> =
        left.filter(is_left).map(|seen| (seen.metadata.name.clone(), seen)).collect();
    left.iter().map(|(name, seen)| machine(cache, seen, drains.get(name).cloned())).collect()
}

/// Whether a machine of this pool, or of none, has a slot.
pub(super) fn has_slots(cache: &ClusterCache, pool: &str) -> bool {
    let selectors = PoolSelectors::of(cache);
    let with_slot = cache.machines.by_index([IndexKey::Slot]);
    with_slot.iter().any(|seen| match selectors.pool_of(&seen.metadata.labels) {
        NodePool::One(name) => name == pool,
        NodePool::None | NodePool::Shared(_) => pool == NO_POOL,
    })
}

/// The pools that a change affects.
pub fn affected_pools(cache: &ClusterCache, cause: &Trigger) -> BTreeSet<String> {
    let all = || -> BTreeSet<String> {
        let pools = cache.pools.list();
        let names = pools.iter().map(|pool| pool.metadata.name.clone());
        names.chain([NO_POOL.to_owned()]).collect()
    };
    match cause {
        Trigger::Config(_, pool) => [pool.clone()].into(),
        Trigger::ManagedObject(config) => {
            let config = cache.configs.get(config);
            config.iter().map(|config| config.spec.machine_config_pool.name.clone()).collect()
        }
        // The selector of one pool decides which nodes are of another.
        Trigger::All => all(),
        // Also a pool that was deleted.
        Trigger::Pool(pool) => all().into_iter().chain([pool.clone()]).collect(),
        // Control-plane nodes of all pools wait for each other.
        Trigger::Machine(labels) if may_run_etcd(labels) => all(),
        Trigger::Machine(labels) => match PoolSelectors::of(cache).pool_of(labels) {
            NodePool::None => [NO_POOL.to_owned()].into(),
            NodePool::One(pool) => [pool].into(),
            NodePool::Shared(pools) => pools.into_iter().chain([NO_POOL.to_owned()]).collect(),
        },
        // The limits for Jobs are shared by all pools.
        Trigger::NodeJob { has_ended: true, .. } => all(),
        Trigger::NodeJob { pool, has_ended: false } => [pool.clone()].into(),
        // Credentials are read when a Job is created.
        Trigger::MachineConfig(..)
        | Trigger::Secret(_)
        | Trigger::BootImages
        | Trigger::Unrelated => BTreeSet::new(),
    }
}

fn builds(cache: &ClusterCache, config: &MachineOsConfig) -> Vec<MachineOsBuild> {
    let builds = cache.builds.by_index([IndexKey::Config(config.metadata.name.clone())]);
    builds.iter().map(|build| (**build).clone()).collect()
}

fn settings(cache: &ClusterCache) -> RolloutSettings {
    // Without readable settings nothing is built; what is built already is rolled out with defaults.
    let Ok((settings, _)) = cache.settings() else {
        return RolloutSettings::default();
    };
    let limits = settings.rollout;
    RolloutSettings {
        staging_per_registry: limits.staging_per_registry.into(),
        node_timeout: Duration::from_secs(u64::from(limits.node_timeout_minutes) * 60),
    }
}

fn policy(cache: &ClusterCache, config: &MachineOsConfig) -> PoolPolicy {
    // Most pools have none, and then nothing of the settings counts.
    if config.metadata.annotation(labels::ROLLOUT_POLICY).is_none() {
        return PoolPolicy::None;
    }
    match cache.settings() {
        Ok((settings, _)) => PoolPolicy::of(&config.metadata, Ok(&settings)),
        Err(error) => PoolPolicy::of(&config.metadata, Err(&error.to_string())),
    }
}

pub(super) fn machine(
    cache: &ClusterCache,
    seen: &SeenMachine,
    drain: Option<DrainRecord>,
) -> Machine {
    let jobs = cache.node_jobs.by_index([IndexKey::Node(seen.metadata.name.clone())]);
    Machine {
        node: seen.clone(),
        jobs: jobs.iter().filter_map(|job| machine_job(cache, job)).collect(),
        drain,
    }
}

/// A Job of ours; none if somebody edited it to be one of another machine.
fn machine_job(cache: &ClusterCache, job: &Arc<Job>) -> Option<MachineJob> {
    let metadata = &job.metadata;
    let JobCommand { verb, target, number, pulls, node } = JobCommand::of(job)?;
    let owner = owning_node(metadata).filter(|owner| owner.name == node)?;
    let name = job.name_any();
    let uid = metadata.uid.clone().unwrap_or_default();
    let failed = |watch| cache.watch_health.failed_lately(&[watch]);
    let secret = cache.node_secrets.get(&name);
    // Taken for missing, a Secret would let a Job count as one that has not begun.
    let unseen_secret = secret.is_none().then(|| failed(NODE_SECRETS)).flatten();
    let has_secret = secret.is_some_and(|secret| secret.job_uid == uid) || unseen_secret.is_some();
    let pods = cache.node_pods.by_index([IndexKey::Controller(uid.clone())]);
    // A cache that only listed once has nothing to wait for.
    let quiet = cache.node_jobs.unchanged_for(&name).unwrap_or(Duration::MAX);
    let unseen_pods = failed(NODE_PODS);
    let quiet = if unseen_pods.is_some() { Duration::ZERO } else { quiet };
    let awaits_pod = pod_wait(job, &pods, quiet);
    let unseen = unseen_pods.filter(|_| awaits_pod.is_some()).or(unseen_secret);
    let unseen = unseen.map(|watch| Problem::of_watch(&watch).message);
    Some(MachineJob {
        verb,
        node_uid: owner.uid.clone(),
        target,
        number,
        pulls,
        has_login: verb == NodeVerb::Report || has_secret,
        created: metadata.creation_timestamp.clone(),
        seen_created: None,
        seen_ended: None,
        deadline: deadline(job),
        phase: job_phase(job, &pods, quiet),
        awaits_pod,
        waiting: pod_waiting(&pods).or(unseen),
        deleting: metadata.deletion_timestamp.is_some(),
        resource_version: metadata.resource_version.clone().unwrap_or_default(),
        name,
        uid,
    })
}

/// How long it may take.
pub(super) fn deadline(job: &Job) -> Option<Duration> {
    let seconds = job.spec.as_ref()?.active_deadline_seconds?;
    u64::try_from(seconds).ok().map(Duration::from_secs)
}

fn cluster(cache: &ClusterCache, pool: &str, own: &OwnPlace) -> ClusterMachines {
    let machines = cache.machines.list();
    let control_plane = cache.machines.by_index([IndexKey::ControlPlane]);
    let elsewhere = cache.node_jobs.filter_list(|job| {
        non_empty_annotation(&job.metadata, labels::POOL).is_some_and(|other| other != pool)
    });
    let is_ready = |job: &Job| {
        owning_node(&job.metadata).is_some_and(|owner| {
            let seen = cache.machines.get(&owner.name);
            seen.is_some_and(|seen| seen.ready && seen.metadata.uid() == owner.uid)
        })
    };
    let is_limited = |job: &MachineJob| {
        let is_shared = matches!(job.verb, NodeVerb::Report | NodeVerb::Stage);
        is_shared && job.phase == JobPhase::Running && !job.deleting
    };
    let elsewhere = elsewhere.iter().filter(|job| is_ready(job));
    let elsewhere = elsewhere.filter_map(|job| machine_job(cache, job)).filter(is_limited);
    ClusterMachines {
        own_node: own.node.clone(),
        own_image: own.image.clone(),
        nodes: machines.len(),
        other_places: OtherPlaces::of(own.node.as_deref(), machines.iter().map(|seen| &**seen)),
        slots: cache
            .machines
            .filter_list(|seen| has_slot(&seen.metadata))
            .iter()
            .filter_map(|seen| {
                let slot = seen.metadata.annotation(labels::NODE_SLOT)?;
                Some((seen.metadata.name.clone(), slot.to_owned()))
            })
            .collect(),
        broken_watch: {
            let own = [MACHINES, NODE_JOBS].into_iter();
            let all: Vec<&str> = own.chain(POOL_WATCHES).chain(CONTROLLER_WATCHES).collect();
            cache.watch_health.failed_lately(&all)
        },
        control_plane: control_plane.iter().map(|seen| control_plane_node(seen)).collect(),
        jobs_elsewhere: elsewhere.collect(),
        updating_elsewhere: updating_pools(&cache.pools.list(), pool, |other| {
            members(cache, &PoolSelectors::of(cache), &other.metadata.name)
        }),
    }
}

/// The machines of another pool, and the image that it has in service.
fn members(
    cache: &ClusterCache,
    selectors: &PoolSelectors,
    pool: &str,
) -> (Vec<Arc<SeenMachine>>, String) {
    let is_member = selectors.members_of(pool);
    let machines = cache.machines.filter_list(|seen| is_member(&seen.metadata.labels));
    let configs = cache.configs.by_index([IndexKey::Pool(pool.to_owned())]);
    let image = configs.first().map(|config| config.status.current_image_pull_spec.clone());
    (machines, image.unwrap_or_default())
}

/// Pools other than `own` of which machines are on their way, and nothing is in the way. `members`:
/// the machines of a pool, and its image.
pub(super) fn updating_pools<'a>(
    pools: impl IntoIterator<Item = &'a Arc<MachineConfigPool>>,
    own: &str,
    members: impl Fn(&MachineConfigPool) -> (Vec<Arc<SeenMachine>>, String),
) -> Vec<String> {
    let is_updating = |pool: &&Arc<MachineConfigPool>| {
        let status = &pool.status;
        let is_true = |kind| condition(&status.conditions, kind).is_some_and(Condition::is_true);
        let degraded = condition(&status.conditions, ROLLOUT_DEGRADED);
        let is_held = degraded
            .is_some_and(|one| one.is_true() && !OF_SOME_MACHINES.contains(&one.reason.as_str()));
        let behind =
            status.machine_count - status.updated_machine_count - status.degraded_machine_count;
        pool.metadata.name != own
            && !pool.metadata.is_being_deleted()
            && !pool.spec.paused
            && is_true("Updating")
            && !is_held
            && behind > 0
            && {
                let (machines, image) = members(pool);
                can_go_on(pool, &machines, &image, behind)
            }
    };
    pools.into_iter().filter(is_updating).map(|pool| pool.metadata.name.clone()).collect()
}

/// Whether one of so many machines that are behind can be updated before others are repaired: it has a
/// slot, or is available and may get one.
fn can_go_on(
    pool: &MachineConfigPool,
    machines: &[Arc<SeenMachine>],
    image: &str,
    behind: i64,
) -> bool {
    if machines.iter().any(|seen| has_slot(&seen.metadata)) {
        return true;
    }
    let unavailable = machines.iter().filter(|seen| seen.obstacle().is_some());
    let lame = unavailable.clone().filter(|seen| {
        seen.metadata.annotation(labels::NODE_CURRENT_IMAGE).is_none_or(|current| current != image)
    });
    let max = max_unavailable(pool.spec.max_unavailable.as_ref(), machines.len()).unwrap_or(1);
    unavailable.count() < max && usize::try_from(behind).is_ok_and(|behind| behind > lame.count())
}

fn control_plane_node(seen: &SeenMachine) -> ControlPlaneNode {
    ControlPlaneNode {
        name: seen.metadata.name.clone(),
        uid: seen.metadata.uid().to_owned(),
        resource_version: seen.metadata.resource_version().to_owned(),
        ready: seen.ready,
        has_slot: has_slot(&seen.metadata),
    }
}

fn has_slot(metadata: &Metadata) -> bool {
    metadata.annotation(labels::NODE_SLOT).is_some()
}
