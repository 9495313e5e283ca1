//! Takes the snapshot of a MachineOSConfig from the cache. Pure: it sends no requests.

use std::collections::BTreeSet;
use std::sync::Arc;

use super::condition::USER_DATA;
use super::snapshot::{UserDataLookupResults, UserDataSnapshot};
use mosb_cluster::cluster_cache::{ClusterCache, Trigger};
use mosb_cluster::cluster_names::IGNITION_AUTHORITY;
use mosb_cluster::versions::{self, Versions};
use mosb_plan::api::cluster_settings::Endpoint;
use mosb_plan::api::rollout::History;
use mosb_plan::api::{MachineOsConfig, condition, labels};
use mosb_reconcile::Problem;
use mosb_reconcile::driver::InputsHash;
use mosb_reconcile::watch::IndexKey;

/// The snapshot of the MachineOSConfig of this name; none without user data.
pub(super) fn observe(cache: &ClusterCache, name: &str) -> Option<UserDataSnapshot> {
    let config = cache.configs.get(name)?;
    if config.metadata.is_being_deleted() || !is_concerned(&config) {
        return None;
    }
    let builds = cache.builds.by_index([IndexKey::Config(name.to_owned())]);
    let others = |configs: Vec<Arc<MachineOsConfig>>| -> Vec<String> {
        let others = configs.iter().map(|config| &config.metadata);
        let others = others.filter(|other| other.name != name && !other.is_being_deleted());
        others.map(|other| other.name.clone()).collect()
    };
    Some(UserDataSnapshot {
        builds: builds.iter().map(|build| (**build).clone()).collect(),
        rivals: others(of_pool(cache, &config.spec.machine_config_pool.name)),
        sharing: others(with_secret_of(cache, &config)),
        other_controller: cache.other_renderer(),
        namespace: cache.namespace.clone(),
        endpoint: endpoint(cache),
        versions: versions(cache, &config),
        config: (*config).clone(),
        is_current: false,
        lookup_results: UserDataLookupResults::default(),
    })
}

fn of_pool(cache: &ClusterCache, pool: &str) -> Vec<Arc<MachineOsConfig>> {
    cache.configs.by_index([IndexKey::Pool(pool.to_owned())])
}

/// The MachineOSConfigs that name the same Secret, with this one; none if it names none.
fn with_secret_of(cache: &ClusterCache, config: &MachineOsConfig) -> Vec<Arc<MachineOsConfig>> {
    let secret = config.metadata.annotation(labels::USER_DATA);
    cache.configs.filter_list(|other| {
        secret.is_some() && other.metadata.annotation(labels::USER_DATA) == secret
    })
}

/// Whether it has user data, or a condition that is outdated.
fn is_concerned(config: &MachineOsConfig) -> bool {
    config.metadata.annotations.contains_key(labels::USER_DATA)
        || condition(&config.status.conditions, USER_DATA).is_some()
}

/// Where machines fetch their config, or why the settings can't be read.
fn endpoint(cache: &ClusterCache) -> Result<Option<Endpoint>, String> {
    let settings = cache.settings().map_err(|error| Problem::from(error).message)?;
    Ok(settings.0.user_data.endpoint)
}

/// Versions of the settings and of the Secrets that the lookups read.
fn versions(cache: &ClusterCache, config: &MachineOsConfig) -> Versions {
    let mut versions = versions::versions(cache, Some(config), None, &[]);
    if let Ok((settings, _)) = cache.settings() {
        let user_data = settings.user_data;
        let authority = user_data.endpoint.map(|_| IGNITION_AUTHORITY.to_owned());
        for name in user_data.join_secret.into_iter().chain(authority) {
            let seen = cache.secrets.get(&name).and_then(|seen| seen.resource_version.clone());
            versions.insert(format!("secret {name}"), seen);
        }
    }
    versions
}

/// The MachineOSConfigs that a change affects.
pub(super) fn affected_configs(cache: &ClusterCache, cause: &Trigger) -> BTreeSet<String> {
    let all = || -> BTreeSet<String> {
        let concerned = cache.configs.filter_list(is_concerned);
        concerned.iter().map(|config| config.metadata.name.clone()).collect()
    };
    match cause {
        // One that named the same Secret or pool before is tried again by itself.
        Trigger::Config(name, pool) => {
            let config = cache.configs.get(name);
            let mut others = of_pool(cache, pool);
            others.retain(|other| is_concerned(other));
            others.extend(config.iter().flat_map(|config| with_secret_of(cache, config)));
            let names = others.iter().map(|other| other.metadata.name.clone());
            names.chain([name.clone()]).collect()
        }
        Trigger::ManagedObject(name) => [name.clone()].into(),
        // Few of them have user data, and a pass with unchanged inputs reads nothing.
        Trigger::All | Trigger::Secret(_) => all(),
        Trigger::Pool(_)
        | Trigger::MachineConfig(..)
        | Trigger::Machine(_)
        | Trigger::NodeJob { .. }
        | Trigger::BootImages
        | Trigger::Unrelated => BTreeSet::new(),
    }
}

/// A hash of everything that the content follows from, except the Secret itself, which no watch
/// shows.
pub(super) fn inputs(snapshot: &UserDataSnapshot) -> InputsHash {
    let config = &snapshot.config;
    let annotation = |key: &str| config.metadata.annotation(key);
    let builds = snapshot.builds.iter().map(|build| (&build.metadata.name, build.status.image()));
    let history = History::of(&config.metadata);
    let images = history.entries().iter().map(|entry| (&entry.image, &entry.config));
    InputsHash::of(&(
        (annotation(labels::USER_DATA), annotation(labels::ROLLOUT_BUILD)),
        (&config.metadata.uid, &config.spec),
        (&config.status.current_image_pull_spec, &config.status.machine_os_build),
        builds.collect::<Vec<_>>(),
        images.collect::<Vec<_>>(),
        (&snapshot.rivals, &snapshot.sharing, &snapshot.other_controller),
        &snapshot.versions,
        &snapshot.endpoint,
    ))
}
