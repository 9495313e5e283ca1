//! What is watched for boot images: sets of machines, what they refer to, and our records. Every
//! kind may be missing, and may appear later.
//!
//! | file | does |
//! | --- | --- |
//! | `kind` | the kinds |
//! | `discovery` | which version of each the API server has |
//! | `object` | what is cached of an object |
//! | `watches` | watches them, or lists each once |

mod discovery;
mod kind;
mod object;
mod watches;

use std::collections::BTreeMap;
use std::sync::Arc;

use k8s_openapi::api::core::v1::ConfigMap;

use crate::cluster_cache::IndexedStore;
use mosb_reconcile::watch::WatchHealth;

pub use kind::{BootImageKind, MACHINE_API_NAMESPACE};
pub use object::{SeenObject, has_only_our_spec, object_key};

/// Name of the watch of the ConfigMap with the images of the release.
pub(super) const GOLDEN: &str = "configmap coreos-bootimages";

/// The stores of the kinds that boot images depend on, by [`object_key`].
#[derive(Debug)]
pub struct BootImageCache {
    stores: BTreeMap<BootImageKind, Arc<IndexedStore<SeenObject>>>,
    /// The ConfigMap with the images of the release.
    pub golden: Arc<IndexedStore<ConfigMap>>,
    /// The watches of these stores. Apart from the others, because images are built whatever they do.
    pub watch_health: Arc<WatchHealth>,
}

impl Default for BootImageCache {
    fn default() -> Self {
        let stores = BootImageKind::ALL.map(|kind| (kind, Arc::default()));
        Self { stores: stores.into(), golden: Arc::default(), watch_health: Arc::default() }
    }
}

impl BootImageCache {
    pub fn store(&self, kind: BootImageKind) -> &Arc<IndexedStore<SeenObject>> {
        self.stores.get(&kind).expect("there is a store for each kind")
    }

    /// All objects of a kind, sorted by namespace and name.
    pub fn list(&self, kind: BootImageKind) -> Vec<Arc<SeenObject>> {
        self.store(kind).list()
    }

    /// The kinds that the API server serves and whose objects are not known, and why.
    pub fn unread(&self) -> BTreeMap<BootImageKind, String> {
        let why = |kind: BootImageKind| self.watch_health.why_not_synced(&kind.to_string());
        BootImageKind::ALL.into_iter().filter_map(|kind| Some((kind, why(kind)?))).collect()
    }

    /// The other kinds whose watch failed lately, and why.
    pub fn doubtful(&self) -> BTreeMap<BootImageKind, String> {
        let unread = self.unread();
        let kinds = BootImageKind::ALL.into_iter().filter(|kind| !unread.contains_key(kind));
        let failed = |kind: BootImageKind| self.watch_health.failed_lately(&[&kind.to_string()]);
        kinds.filter_map(|kind| Some((kind, failed(kind)?))).collect()
    }

    /// Why the ConfigMap with the images of the release may be an older one.
    pub fn golden_doubt(&self) -> Option<String> {
        self.watch_health.failed_lately(&[GOLDEN])
    }

    /// Why the ConfigMap with the images of the release is not known.
    pub fn golden_unread(&self) -> Option<String> {
        self.watch_health.why_not_synced(GOLDEN)
    }

    /// The cluster-scoped object of this name.
    pub fn get(&self, kind: BootImageKind, key: &str) -> Option<Arc<SeenObject>> {
        self.store(kind).get(key)
    }
}
