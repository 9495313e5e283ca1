//! Takes the snapshot from the cache. Pure: it sends no requests.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::STATUS_NAME;
use super::memory::Memory;
use super::pool_os::PoolOs;
use super::snapshot::{BootImageSnapshot, GoldenState};
use mosb_api::MachineOsConfig;
use mosb_boot_image::{Architecture, Golden};
use mosb_cluster::cluster_cache::{BootImageKind, ClusterCache, IndexKey, Trigger};
use mosb_cluster::cluster_names::BOOT_IMAGES;
use mosb_reconcile::Problem;

/// The name of OpenShift's singletons, but ClusterVersion.
const CLUSTER: &str = "cluster";
const CLUSTER_VERSION: &str = "version";
/// The pool whose machines machine sets make.
const WORKER: &str = "worker";

/// What the cache shows; nothing is known of earlier passes.
pub(super) fn observe(cache: &ClusterCache) -> BootImageSnapshot {
    let stores = &cache.boot_images;
    let objects: BTreeMap<_, BTreeMap<_, _>> = BootImageKind::ALL
        .into_iter()
        .map(|kind| {
            let objects = stores.list(kind).into_iter();
            (kind, objects.map(|object| (object.key(), object)).collect())
        })
        .collect();
    BootImageSnapshot {
        settings: match cache.settings() {
            Ok((settings, _)) => Ok(settings.boot_images),
            Err(error) => Err(Problem::from(error).message),
        },
        golden: golden(cache),
        golden_name: format!("{}/{BOOT_IMAGES}", cache.operator_namespace),
        own_architecture: own_architecture(),
        other_controller: cache.other_renderer(),
        unread: stores.unread(),
        doubtful: stores.doubtful(),
        golden_doubt: stores.golden_doubt(),
        machine_configuration: stores.get(BootImageKind::MachineConfiguration, CLUSTER),
        cluster_version: stores.get(BootImageKind::ClusterVersion, CLUSTER_VERSION),
        infrastructure: stores.get(BootImageKind::Infrastructure, CLUSTER),
        status: stores.get(BootImageKind::BootImageStatus, STATUS_NAME),
        worker_pool: cache.pools.get(WORKER),
        pools: pools(cache),
        outdated: BTreeSet::new(),
        memory: Memory::default(),
        stubs: BTreeMap::new(),
        objects,
    }
}

fn golden(cache: &ClusterCache) -> GoldenState {
    if let Some(why) = cache.boot_images.golden_unread() {
        return GoldenState::Unreadable(format!(
            "it can't be listed: {why}; apply deploy/boot-images (on OpenShift deploy/boot-images-openshift), which has the right"
        ));
    }
    let Some(map) = cache.boot_images.golden.get(BOOT_IMAGES) else { return GoldenState::Missing };
    match Golden::parse(map.data.as_ref().unwrap_or(&BTreeMap::new())) {
        Ok(golden) => GoldenState::Found(Box::new(golden)),
        Err(error) => GoldenState::Unreadable(error.to_string()),
    }
}

/// The architecture of the node that this process runs on.
fn own_architecture() -> Option<Architecture> {
    let names =
        [("x86_64", "amd64"), ("aarch64", "arm64"), ("powerpc64", "ppc64le"), ("s390x", "s390x")];
    let name = names.into_iter().find(|(rust, _)| *rust == std::env::consts::ARCH)?.1;
    Architecture::from_kubernetes(name).ok()
}

/// The pools with a MachineOSConfig.
fn pools(cache: &ClusterCache) -> Vec<PoolOs> {
    let configs = cache.configs.list().into_iter();
    let pool = |config: Arc<MachineOsConfig>| {
        let builds = cache.builds.by_index([IndexKey::Config(config.metadata.name.clone())]);
        let builds: Vec<_> = builds.iter().map(|build| (**build).clone()).collect();
        PoolOs::new(&config, &builds)
    };
    configs.map(pool).collect()
}

/// Whether a change may affect boot images.
pub(super) fn is_affected(trigger: &Trigger) -> bool {
    match trigger {
        Trigger::BootImages | Trigger::All | Trigger::Config(..) | Trigger::Pool(_) => true,
        Trigger::ManagedObject(_)
        | Trigger::MachineConfig(..)
        | Trigger::Secret(_)
        | Trigger::Machine(_)
        | Trigger::NodeJob { .. }
        | Trigger::Unrelated => false,
    }
}
