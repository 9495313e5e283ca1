//! Component MachineConfigs, which bring pools their pre-built images, from their metadata.

use std::collections::BTreeSet;

use crate::snapshot::SeenComponent;
use mosb_api::{MachineConfigPool, component_pool, is_component_name, labels};
use mosb_cluster::cluster_cache::{ClusterCache, IndexKey, non_empty_annotation};

/// The pre-built images among what the pool's config was rendered from: the pool's own, or that of
/// a pool that it inherits from.
pub(super) fn pre_built(cache: &ClusterCache, pool: &MachineConfigPool) -> BTreeSet<String> {
    let metas = component_sources(pool).filter_map(|name| cache.machine_configs.get(name));
    metas.filter_map(|meta| non_empty_annotation(&meta, labels::PRE_BUILT_IMAGE)).collect()
}

/// Components that the pool's config was rendered from and that no longer exist.
pub(super) fn lost(cache: &ClusterCache, pool: &MachineConfigPool) -> Vec<String> {
    let lost = component_sources(pool).filter(|name| cache.machine_configs.get(name).is_none());
    lost.map(str::to_owned).collect()
}

fn component_sources(pool: &MachineConfigPool) -> impl Iterator<Item = &str> {
    let sources = pool.spec.configuration.source.iter();
    let names = sources.map(|source| source.name.as_str());
    names.filter(|name| is_component_name(name))
}

/// The component MachineConfigs of a pool, and those that a MachineOSConfig claimed, for whichever
/// pool.
pub(super) fn components(
    cache: &ClusterCache,
    config: &str,
    pool_name: &str,
) -> Vec<SeenComponent> {
    let metas = cache
        .machine_configs
        .by_index([IndexKey::Pool(pool_name.to_owned()), IndexKey::Config(config.to_owned())]);
    let seen = metas.into_iter().filter_map(|meta| {
        let name = meta.name.clone()?;
        let pool = component_pool(&name)?;
        let claim = non_empty_annotation(&meta, labels::SERVES);
        let serving = cache.configs.by_index([IndexKey::Pool(pool.to_string())]);
        let mut serving = serving.iter().map(|one| &one.metadata.name);
        Some(SeenComponent {
            name,
            uid: meta.uid.clone().unwrap_or_default(),
            resource_version: meta.resource_version.clone().unwrap_or_default(),
            image: non_empty_annotation(&meta, labels::PRE_BUILT_IMAGE).unwrap_or_default(),
            is_wanted: serving.len() > 0,
            is_claim_good: serving.any(|one| Some(one) == claim.as_ref()),
            claim,
            pool,
            deleting: meta.deletion_timestamp.is_some(),
        })
    });
    seen.collect()
}
