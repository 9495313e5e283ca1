//! Takes the snapshot of the server from the cache. Pure: it sends no requests.

use std::collections::BTreeSet;

use super::snapshot::{ServerLookupResults, ServerSnapshot};
use mosb_cluster::cluster_cache::{ClusterCache, Trigger};
use mosb_cluster::cluster_names::{IGNITION_AUTHORITY, IGNITION_SERVER};
use mosb_plan::api::labels;
use mosb_reconcile::driver::InputsHash;

/// The snapshot; none if `deploy/ignition-server` is not installed, if the settings can't be read, or
/// if another controller makes the user data of machines.
pub(super) fn observe(cache: &ClusterCache) -> Option<ServerSnapshot> {
    let authority = cache.secrets.get(IGNITION_AUTHORITY)?;
    let (settings, _) = cache.settings().ok()?;
    if cache.other_renderer().is_some() {
        return None;
    }
    let with_user_data = cache.configs.filter_list(|config| {
        config.metadata.annotations.contains_key(labels::USER_DATA)
            && !config.metadata.is_being_deleted()
    });
    let pools = with_user_data.iter().map(|config| config.spec.machine_config_pool.name.clone());
    Some(ServerSnapshot {
        namespace: cache.namespace.clone(),
        endpoint: settings.user_data.endpoint,
        pools: pools.collect(),
        authority_version: authority.resource_version.clone(),
        is_current: false,
        lookup_results: ServerLookupResults::default(),
    })
}

/// The one key, if a change affects the server.
pub(super) fn affected_keys(trigger: &Trigger) -> BTreeSet<String> {
    let is_affected = match trigger {
        Trigger::All | Trigger::Config(..) => true,
        Trigger::Secret(name) => name == IGNITION_AUTHORITY,
        Trigger::ManagedObject(_)
        | Trigger::Pool(_)
        | Trigger::MachineConfig(..)
        | Trigger::Machine(_)
        | Trigger::NodeJob { .. }
        | Trigger::BootImages
        | Trigger::Unrelated => false,
    };
    is_affected.then(|| IGNITION_SERVER.to_owned()).into_iter().collect()
}

/// A hash of what the content of the Secrets follows from, except the server's, which no watch shows.
pub(super) fn inputs(snapshot: &ServerSnapshot) -> InputsHash {
    let ServerSnapshot { endpoint, pools, authority_version, .. } = snapshot;
    InputsHash::of(&(endpoint, pools, authority_version))
}
