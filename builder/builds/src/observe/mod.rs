//! Takes the [`Snapshot`] of one MachineOSConfig from the cache. Pure: it sends no requests.

mod component;
mod nodes;
mod result;

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use k8s_openapi::api::core::v1::{ConfigMap, Pod};
use kube::ResourceExt as _;

use super::base_trees::{self, BaseTreeKey, BaseTrees};
use super::prepared_bases::PreparedBases;
use super::snapshot::{Cluster, LabelOptIn, SeenInput, SeenWorkload, Snapshot, Support};
use mosb_api::cluster_settings::UserNamespaces;
use mosb_api::{MachineConfigPool, MachineOsBuild, component_pool, labels};
use mosb_build::JobResult;
use mosb_cluster::cluster_cache::{
    ClusterCache, IndexKey, POOL_WATCHES, Trigger, WORKLOAD_WATCHES,
};
use mosb_cluster::cluster_names::{
    BASE_TREES, BUILD_CONFIG, CUSTOM_DOCKERFILE, DAEMON, OPERATOR, PREPARED_BASES,
};
use mosb_cluster::versions::versions;
use mosb_image::{Digest, PinnedRef, RepoRef};
use mosb_workload::{InputKind, Workload, is_check_job};

pub use nodes::machine_role;

/// Facts about a cluster that no watch shows.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Facts {
    /// Whether pods can have user namespaces.
    pub user_namespaces: Support,
    /// Whether SecurityContextConstraints say which user a pod runs as.
    pub security_context_constraints: bool,
    /// Whether the CRDs reject digests in nested repositories.
    pub nested_digests_refused: bool,
}

/// The snapshot of the MachineOSConfig of this name, or of the pool of this name if there is none.
pub fn observe(cache: &ClusterCache, name: &str, facts: Facts) -> Snapshot {
    let config = cache.configs.get(name);
    let pool_name = match &config {
        Some(config) => config.spec.machine_config_pool.name.clone(),
        None => name.to_owned(),
    };
    let rivals = cache
        .configs
        .by_index([IndexKey::Pool(pool_name.clone())])
        .iter()
        .filter(|other| other.metadata.name != name)
        .map(|other| other.metadata.name.clone())
        .collect();
    let pool = cache.pools.get(&pool_name);
    let builds: Vec<MachineOsBuild> = cache
        .builds
        .by_index([IndexKey::Config(name.to_owned())])
        .iter()
        .map(|build| (**build).clone())
        .collect();
    let (check_jobs, workloads) = workloads(cache, name, &builds)
        .into_iter()
        .partition(|seen| is_check_job(seen.workload.metadata()));
    Snapshot {
        versions: versions(cache, config.as_deref(), pool.as_deref(), &builds),
        name: name.to_owned(),
        rivals,
        label: pool.as_deref().and_then(|pool| label(cache, pool)),
        workloads,
        check_jobs,
        inputs: inputs(cache, name),
        results: results(cache, name),
        components: component::components(cache, name, &pool_name),
        prebuilt: pool.as_deref().map(|pool| component::pre_built(cache, pool)).unwrap_or_default(),
        lost_components: pool
            .as_deref()
            .map(|pool| component::lost(cache, pool))
            .unwrap_or_default(),
        pool_platforms: pool
            .as_deref()
            .map(|pool| nodes::platforms(cache, pool))
            .unwrap_or_default(),
        build_nodes: pool
            .as_deref()
            .map(|pool| nodes::build_nodes(cache, pool))
            .unwrap_or_default(),
        machine_role: pool
            .as_deref()
            .map(|pool| nodes::machine_role(cache, pool))
            .unwrap_or_default(),
        broken_watch: {
            let all: Vec<&str> = POOL_WATCHES.into_iter().chain(WORKLOAD_WATCHES).collect();
            cache.watch_health.failed_lately(&all)
        },
        cluster: cluster(cache, facts),
        config: config.as_deref().cloned(),
        pool: pool.as_deref().cloned(),
        builds,
        lookup_results: Default::default(),
        earlier_problem: None,
    }
}

/// The keys of the work queue that a change affects.
pub fn affected_keys(cache: &ClusterCache, cause: &Trigger) -> BTreeSet<String> {
    let of_pool = |pool: &str| -> BTreeSet<String> {
        let configs = cache.configs.by_index([IndexKey::Pool(pool.to_owned())]);
        configs.iter().map(|c| c.metadata.name.clone()).collect()
    };
    match cause {
        Trigger::Machine(_)
        | Trigger::NodeJob { .. }
        | Trigger::BootImages
        | Trigger::Unrelated => BTreeSet::new(),
        Trigger::ManagedObject(name) => [name.clone()].into(),
        Trigger::Config(name, pool) => {
            let mut names = of_pool(pool);
            names.insert(name.clone());
            names
        }
        Trigger::Pool(pool) => {
            let mut names = of_pool(pool);
            if names.is_empty() {
                // Its label may have been added or removed.
                names.insert(pool.clone());
            }
            names
        }
        Trigger::MachineConfig(name, claim) => {
            let pools = cache.pools.by_index([IndexKey::Rendered(name.clone())]);
            let names = pools.iter().map(|pool| of_pool(&pool.metadata.name));
            let mut names: BTreeSet<String> = names.flatten().collect();
            if let Some(pool) = component_pool(name) {
                names.extend(of_pool(pool.as_str()));
                names.extend(claim.clone());
            }
            names
        }
        Trigger::Secret(name) => {
            let everybodys = cache.settings_use_secret(name) || name.starts_with("etc-pki-");
            let configs = cache.configs.filter_list(|config| {
                let spec = &config.spec;
                let own = spec.base_image_pull_secret.as_ref();
                everybodys
                    || spec.rendered_image_push_secret.name == *name
                    || own.is_some_and(|own| own.name == *name)
                    || cache.signing_secret(&config.metadata).as_ref() == Some(name)
            });
            configs.iter().map(|c| c.metadata.name.clone()).collect()
        }
        Trigger::All => {
            let configs = cache.configs.list();
            let configs = configs.iter().map(|config| config.metadata.name.clone());
            let labelled = cache
                .pools
                .filter_list(|pool| pool.metadata.labels.contains_key(labels::LAYERING_ENABLED));
            let labelled = labelled.iter().map(|pool| pool.metadata.name.clone());
            configs.chain(labelled).collect()
        }
    }
}

fn cluster(cache: &ClusterCache, facts: Facts) -> Cluster {
    let runs = |name: &str| cache.deployments.get(name).is_some_and(|wanted| *wanted > 0);
    // Planning reports invalid settings.
    let settings = cache.settings().ok().map(|(settings, _)| settings);
    let never = settings
        .as_ref()
        .is_some_and(|settings| settings.job.user_namespaces == UserNamespaces::Never);
    Cluster {
        other_builder: cache.other_builder(),
        machine_config_operator: runs(OPERATOR) || !cache.controller_configs.is_empty(),
        machine_config_daemon: cache.daemon_sets.get(DAEMON).is_some(),
        user_namespaces: if never { Support::Forbidden } else { facts.user_namespaces },
        security_context_constraints: facts.security_context_constraints,
        run_retries: settings.as_ref().map_or(0, |settings| settings.job.run_retries),
        checks: settings.as_ref().map(|settings| settings.checks.clone()),
        signing: settings.as_ref().map(|settings| settings.signing.clone()),
        signature_policy: settings.as_ref().and_then(|settings| {
            settings.signature_policy.as_ref().map(|policy| Digest::of(policy.as_bytes()))
        }),
        job: settings.as_ref().map(|settings| settings.job.clone()).unwrap_or_default(),
        global_pull_secret: settings
            .as_ref()
            .map(|settings| settings.global_pull_secret.clone())
            .unwrap_or_default(),
        stock_base: settings.and_then(|settings| settings.base_os_container_image),
        base_trees: base_trees(cache),
        prepared_bases: prepared_bases(cache),
        namespace: cache.namespace.clone(),
        rolling_out: cache.rolling_out,
        nested_digests_refused: facts.nested_digests_refused,
    }
}

/// The recorded images with base trees.
pub fn base_trees(cache: &ClusterCache) -> BaseTrees {
    let map = cache.named(BASE_TREES);
    let data = map.as_ref().and_then(|map| map.data.as_ref());
    data.map(base_trees::from_data).unwrap_or_default()
}

/// The image with the tree of a base that a build for this pool may use.
pub(crate) fn recorded_tree(
    cache: &ClusterCache,
    pool: &str,
    push: &RepoRef,
    base: &Digest,
) -> Option<PinnedRef> {
    let pool = cache.pools.get(pool);
    let nodes = pool.map(|pool| nodes::build_nodes(cache, &pool)).unwrap_or_default();
    let image = base_trees(cache).remove(&BaseTreeKey::new(base, push, &nodes))?;
    Some(push.pinned(image))
}

/// The prepared bases that may be taken over.
fn prepared_bases(cache: &ClusterCache) -> PreparedBases {
    let map = cache.named(PREPARED_BASES);
    let data = map.as_ref().and_then(|map| map.data.as_ref());
    data.map(PreparedBases::from_data).unwrap_or_default()
}

fn label(cache: &ClusterCache, pool: &MachineConfigPool) -> Option<LabelOptIn> {
    pool.metadata.labels.get(labels::LAYERING_ENABLED)?;
    let data = |name: &str| cache.named(name).map(|map| map.data.clone().unwrap_or_default());
    Some(LabelOptIn {
        settings: data(BUILD_CONFIG),
        containerfile: data(CUSTOM_DOCKERFILE).and_then(|mut map| map.remove(&pool.metadata.name)),
    })
}

fn workloads(cache: &ClusterCache, name: &str, builds: &[MachineOsBuild]) -> Vec<SeenWorkload> {
    // Both keys, because the labels of a workload may have been edited.
    let keys = || {
        let owned =
            builds.iter().map(|build| IndexKey::Controller(build.metadata.uid().to_owned()));
        [IndexKey::Config(name.to_owned())].into_iter().chain(owned)
    };
    let with_pods = |workload: Workload| {
        let pods = cache.pods.by_index([IndexKey::Controller(workload.uid().to_owned())]);
        let itself = match &workload {
            Workload::Job(_) => cache.jobs.unchanged_for(workload.name()),
            Workload::Pod(_) => cache.pods.unchanged_for(workload.name()),
            Workload::Build(_) => cache.openshift_builds.unchanged_for(workload.name()),
        };
        let quiet = pods.iter().map(|pod| cache.pods.unchanged_for(&pod.name_any()));
        let quiet = quiet.chain([itself]).flatten().min();
        // What is not seen may be there.
        let unseen = cache.watch_health.failed_lately(&WORKLOAD_WATCHES);
        let quiet = unseen.map_or(quiet, |_| Some(Duration::ZERO));
        SeenWorkload {
            pods: pods.into_iter().map(|pod| (*pod).clone()).collect(),
            // A cache that only listed once has nothing to wait for.
            quiet: quiet.unwrap_or(Duration::MAX),
            workload,
        }
    };
    // A Job's pod is not a workload of its own.
    let is_alone = |pod: &std::sync::Arc<Pod>| {
        let mut owners = pod.metadata.owner_references.iter().flatten();
        owners.any(|owner| owner.kind == "MachineOSBuild")
    };
    let jobs = cache.jobs.by_index(keys()).into_iter();
    let jobs = jobs.map(|job| with_pods((*job).clone().into()));
    let pods = cache.pods.by_index(keys()).into_iter().filter(is_alone);
    let pods = pods.map(|pod| with_pods((*pod).clone().into()));
    let builds = cache.openshift_builds.by_index(keys()).into_iter();
    let builds = builds.map(|build| with_pods((*build).clone().into()));
    jobs.chain(pods).chain(builds).collect()
}

fn inputs(cache: &ClusterCache, name: &str) -> Vec<SeenInput> {
    let mut inputs = Vec::new();
    for (kind, store) in [
        (InputKind::ConfigMap, &cache.config_maps),
        (InputKind::Secret, &cache.secrets),
        (InputKind::ServiceAccount, &cache.service_accounts),
        (InputKind::Role, &cache.roles),
        (InputKind::RoleBinding, &cache.role_bindings),
    ] {
        let found = store.by_index([IndexKey::Config(name.to_owned())]).into_iter();
        inputs.extend(found.filter(|input| input.ephemeral).map(|input| SeenInput {
            kind,
            name: input.name.clone(),
            uid: input.uid.clone(),
            workload_uid: input.workload.clone().unwrap_or_default(),
            build: input.build.clone().unwrap_or_default(),
            deleting: input.deleting,
        }));
    }
    inputs
}

fn results(cache: &ClusterCache, name: &str) -> BTreeMap<String, JobResult> {
    let maps = cache.results.by_index([IndexKey::Config(name.to_owned())]);
    let results = maps.iter().filter_map(|map| result_in(map));
    results.map(|result| (result.build.to_string(), result)).collect()
}

/// The result in a ConfigMap, if it can be trusted.
pub(super) fn result_in(map: &ConfigMap) -> Option<JobResult> {
    match JobResult::from_config_map(map.data.as_ref()?) {
        Ok(Some(result)) => match result::untrusted_reason(&map.metadata, &result) {
            None => Some(result),
            Some(why) => {
                tracing::warn!("configmap {}: its result is ignored: {why}", map.name_any());
                None
            }
        },
        Ok(None) => None,
        // A pod wrote it. The end of the Job, at the latest its deadline, shows that something is
        // wrong.
        Err(error) => {
            tracing::warn!("configmap {}: {error}", map.name_any());
            None
        }
    }
}

#[cfg(test)]
mod tests;
