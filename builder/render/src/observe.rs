//! Takes the snapshot of a pool from the cache. Pure: it sends no requests.

use std::collections::BTreeSet;
use std::hash::Hash;

use kube::api::ObjectMeta;
use serde_json::{Value, json};

use super::snapshot::{Inputs, Member, RenderLookupResults, RenderSnapshot, SeenRendered};
use mosb_api::{
    ControllerConfig, MachineConfigPool, PoolSettings, RecordedBase, RenderedName, Selector, labels,
};
use mosb_cluster::cluster_cache::{ClusterCache, IndexKey, POOL_WATCHES, Trigger};
use mosb_cluster::cluster_names::RENDERER;
use mosb_cluster::versions::shared_versions;
use mosb_merge::is_rendered_one;
use mosb_reconcile::Problem;
use mosb_reconcile::driver::InputsHash;
use mosb_types::ErrorClass;

/// The snapshot of the pool of this name.
pub fn observe(cache: &ClusterCache, name: &str) -> Option<RenderSnapshot> {
    let pool = cache.pools.get(name)?;
    let rendered = rendered(cache, &pool);
    let inputs = settings(cache).map(|settings| Inputs {
        members: members(cache, &pool),
        settings,
        recorded: recorded_base(cache, name),
    });
    let other_renderer = cache.other_renderer();
    Some(RenderSnapshot {
        inputs_hash: inputs_hash(cache, &pool, (&other_renderer, &inputs, &rendered)),
        other_renderer,
        inputs,
        named: named(cache, &rendered),
        broken_watch: cache.watch_health.failed_lately(&POOL_WATCHES),
        rendered,
        pool: (*pool).clone(),
        lookup_results: RenderLookupResults::default(),
        earlier_problem: None,
    })
}

/// A hash of everything that the result of rendering a pool depends on. What mosb itself writes to
/// the pool's status is left out.
fn inputs_hash(cache: &ClusterCache, pool: &MachineConfigPool, observed: impl Hash) -> InputsHash {
    let metadata = &pool.metadata;
    InputsHash::of(&(
        (&metadata.labels, &metadata.annotations),
        metadata.deletion_timestamp.as_ref().map(|time| time.0),
        &pool.spec,
        observed,
        cache.daemon_sets.is_empty(),
        pool_settings(cache),
        shared_versions(cache),
    ))
}

fn pool_settings(cache: &ClusterCache) -> Vec<std::sync::Arc<PoolSettings>> {
    let cache = cache.pool_settings.iter();
    cache.flat_map(|store| store.list()).collect()
}

/// The pools that a change affects now. The caller knows which pools used a MachineConfig before.
pub(super) fn affected_pools(cache: &ClusterCache, cause: &Trigger) -> BTreeSet<String> {
    let names = |pools: Vec<std::sync::Arc<MachineConfigPool>>| {
        let names = pools.iter().map(|pool| pool.metadata.name.clone());
        names.collect::<BTreeSet<String>>()
    };
    match cause {
        Trigger::Pool(name) => [name.clone()].into(),
        Trigger::MachineConfig(name, _) => {
            let meta = cache.machine_configs.get(name);
            names(cache.pools.filter_list(|pool| {
                let configuration = &pool.spec.configuration;
                configuration.name == *name
                    || configuration.source.iter().any(|source| source.name == *name)
                    || meta.as_ref().is_some_and(|meta| {
                        selector(pool).is_some_and(|selector| is_member(&selector, meta))
                    })
            }))
        }
        Trigger::All => names(cache.pools.list()),
        // Tags are pinned with the credentials of one, through the proxy of the other.
        Trigger::Secret(name) if cache.settings_use_secret(name) => names(cache.pools.list()),
        Trigger::Config(_, pool) => [pool.clone()].into(),
        Trigger::ManagedObject(_)
        | Trigger::Secret(_)
        | Trigger::Machine(_)
        | Trigger::NodeJob { .. }
        | Trigger::BootImages
        | Trigger::Unrelated => BTreeSet::new(),
    }
}

/// An invalid selector selects nothing; rendering reports it.
fn selector(pool: &MachineConfigPool) -> Option<Selector> {
    Selector::new(pool.spec.machine_config_selector.as_ref()?).ok()
}

fn is_member(selector: &Selector, meta: &ObjectMeta) -> bool {
    let nothing = Default::default();
    let labels = meta.labels.as_ref().unwrap_or(&nothing);
    selector.matches(labels) && !is_rendered(meta)
}

fn is_rendered(meta: &ObjectMeta) -> bool {
    let owners = meta.owner_references.iter().flatten();
    let kinds = owners.map(|owner| owner.kind.as_str());
    let role = meta.labels.as_ref().and_then(|all| all.get(labels::ROLE));
    is_rendered_one(meta.name.as_deref().unwrap_or_default(), kinds, role.map(String::as_str))
}

fn members(cache: &ClusterCache, pool: &MachineConfigPool) -> Vec<Member> {
    let Some(selector) = selector(pool) else {
        return Vec::new();
    };
    let metas = cache
        .machine_configs
        .filter_list(|meta| is_member(&selector, meta) && meta.deletion_timestamp.is_none());
    let member = |meta: &ObjectMeta| Member {
        name: meta.name.clone().unwrap_or_default(),
        uid: meta.uid.clone().unwrap_or_default(),
        generation: meta.generation.unwrap_or_default(),
        role: meta
            .labels
            .as_ref()
            .and_then(|all| all.get(labels::ROLE))
            .cloned()
            .unwrap_or_default(),
        generated_by: meta
            .annotations
            .as_ref()
            .and_then(|all| all.get(labels::GENERATED_BY_CONTROLLER_VERSION))
            .cloned(),
    };
    metas.iter().map(|meta| member(meta)).collect()
}

/// The base that was recorded for a pool. What can't be read is reported with its MachineOSConfig.
fn recorded_base(cache: &ClusterCache, pool: &str) -> Option<RecordedBase> {
    let configs = cache.configs.by_index([IndexKey::Pool(pool.to_owned())]);
    let [config] = &configs[..] else { return None };
    RecordedBase::of(&config.metadata).ok().flatten()
}

/// What a rendered config is made of beside MachineConfigs.
fn settings(cache: &ClusterCache) -> Result<Value, Problem> {
    Ok(match controller_config(cache)? {
        Some(config) => json!({
        "os": config.spec.base_os_image, "extensions": config.spec.extensions_image,
        "release": config.metadata.annotation(labels::RELEASE_IMAGE_VERSION),
        }),
        None => {
            let (settings, _) = cache.settings()?;
            json!({
                "os": settings.base_os_container_image,
                "extensions": settings.base_os_extensions_container_image,
            })
        }
    })
}

/// The ControllerConfig of an OpenShift release.
pub(super) fn controller_config(cache: &ClusterCache) -> Result<Option<ControllerConfig>, Problem> {
    let Some(value) = cache.controller_configs.get(RENDERER) else {
        return Ok(None);
    };
    let read = serde_json::from_value((*value).clone());
    read.map(Some).map_err(|cause| Problem {
        class: ErrorClass::InvalidInput,
        reason: "unreadable-object".to_owned(),
        message: format!(
            "controllerconfig {RENDERER}: not readable as its kind: {cause}; correct the object"
        ),
    })
}

fn rendered(cache: &ClusterCache, pool: &MachineConfigPool) -> Vec<SeenRendered> {
    let pool_uid = pool.metadata.uid();
    let controls = |meta: &ObjectMeta| {
        let mut owners = meta.owner_references.iter().flatten();
        owners.any(|owner| owner.controller == Some(true) && owner.uid == pool_uid)
    };
    let of_pool = |meta: &ObjectMeta| {
        let name = meta.name.as_deref().unwrap_or_default();
        name.starts_with("rendered-")
            && name
                .parse::<RenderedName>()
                .is_ok_and(|name| name.pool().as_str() == pool.metadata.name || controls(meta))
    };
    let seen = |meta: &ObjectMeta| {
        let annotations = meta.annotations.as_ref();
        let by = annotations.and_then(|all| all.get(labels::GENERATED_BY_CONTROLLER_VERSION));
        SeenRendered {
            name: meta.name.clone().unwrap_or_default(),
            uid: meta.uid.clone().unwrap_or_default(),
            created: meta.creation_timestamp.clone(),
            is_ours: controls(meta) && by.is_some_and(|by| by == mosb_merge::RENDERER),
            is_edited: meta.generation.is_some_and(|generation| generation > 1),
            deleting: meta.deletion_timestamp.is_some(),
        }
    };
    let metas = cache.machine_configs.filter_list(of_pool);
    metas.iter().map(|meta| seen(meta)).collect()
}

/// Those of the rendered configs that a pool or a build names.
fn named(cache: &ClusterCache, rendered: &[SeenRendered]) -> BTreeSet<String> {
    let ours: BTreeSet<&str> = rendered.iter().map(|one| one.name.as_str()).collect();
    let mut named = BTreeSet::new();
    let mut name = |name: &str| {
        if ours.contains(name) {
            named.insert(name.to_owned());
        }
    };
    for pool in cache.pools.list() {
        name(&pool.spec.configuration.name);
        name(&pool.status.configuration.name);
    }
    for build in cache.builds.list() {
        name(&build.spec.machine_config.name);
    }
    named
}
