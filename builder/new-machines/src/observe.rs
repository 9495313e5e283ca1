//! Takes the snapshot of a key from the cache. Pure: it sends no requests.

use std::collections::BTreeSet;
use std::sync::Arc;

use crate::ignition_server::server_secret;
use crate::snapshot::{LookupResults, Server, Snapshot, Subject, UserData};
use crate::user_data::USER_DATA;
use mosb_api::cluster_settings::Endpoint;
use mosb_api::{MachineOsConfig, condition, labels};
use mosb_cluster::cluster_cache::{ClusterCache, IndexKey, Trigger};
use mosb_cluster::cluster_names::IGNITION_AUTHORITY;
use mosb_cluster::versions::{self, Versions};
use mosb_reconcile::Problem;

/// The key of the server. It is not the name of an object.
pub fn server_key() -> String {
    server_secret().to_string()
}

/// The snapshot of a key; none if there is nothing to do for it.
pub fn observe(cache: &ClusterCache, key: &str) -> Option<Snapshot> {
    let subject = if key == server_key() {
        Subject::Server(server(cache)?)
    } else {
        Subject::UserData(Box::new(user_data(cache, key)?))
    };
    let snapshot = Snapshot {
        namespace: cache.namespace.clone(),
        endpoint: endpoint(cache),
        subject,
        is_checked: false,
        lookup_results: LookupResults::default(),
    };
    Some(snapshot)
}

/// The server; none if `deploy/ignition-server` is not installed, if the settings can't be read, or
/// if another controller makes the user data of machines.
fn server(cache: &ClusterCache) -> Option<Server> {
    let authority = cache.secrets.get(IGNITION_AUTHORITY)?;
    if cache.settings().is_err() || cache.other_renderer().is_some() {
        return None;
    }
    let with_user_data = cache.configs.filter_list(|config| {
        config.metadata.annotations.contains_key(labels::USER_DATA)
            && !config.metadata.is_being_deleted()
    });
    let pools = with_user_data.iter().map(|config| config.spec.machine_config_pool.name.clone());
    Some(Server { pools: pools.collect(), authority_version: authority.resource_version.clone() })
}

/// The MachineOSConfig of this name; none without user data.
fn user_data(cache: &ClusterCache, name: &str) -> Option<UserData> {
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
    Some(UserData {
        builds: builds.iter().map(|build| (**build).clone()).collect(),
        rivals: others(of_pool(cache, &config.spec.machine_config_pool.name)),
        sharing: others(with_secret_of(cache, &config)),
        other_controller: cache.other_renderer(),
        versions: versions(cache, &config),
        config: (*config).clone(),
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

/// The keys that a change affects.
pub fn affected_keys(cache: &ClusterCache, trigger: &Trigger) -> BTreeSet<String> {
    let all = || -> BTreeSet<String> {
        let concerned = cache.configs.filter_list(is_concerned);
        concerned.iter().map(|config| config.metadata.name.clone()).collect()
    };
    let (mut keys, affects_server) = match trigger {
        // One that named the same Secret or pool before is tried again by itself.
        Trigger::Config(name, pool) => {
            let config = cache.configs.get(name);
            let mut others = of_pool(cache, pool);
            others.retain(|other| is_concerned(other));
            others.extend(config.iter().flat_map(|config| with_secret_of(cache, config)));
            let names = others.iter().map(|other| other.metadata.name.clone());
            (names.chain([name.clone()]).collect(), true)
        }
        Trigger::ManagedObject(name) => ([name.clone()].into(), false),
        // Few of them have user data, and a pass with unchanged inputs reads nothing.
        Trigger::All => (all(), true),
        Trigger::Secret(name) => (all(), name == IGNITION_AUTHORITY),
        Trigger::Pool(_)
        | Trigger::MachineConfig(..)
        | Trigger::Machine(_)
        | Trigger::NodeJob { .. }
        | Trigger::BootImages
        | Trigger::Unrelated => return BTreeSet::new(),
    };
    if affects_server {
        keys.insert(server_key());
    }
    keys
}
