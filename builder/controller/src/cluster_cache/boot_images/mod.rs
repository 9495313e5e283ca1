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

use crate::indexed_store::IndexedStore;

pub use kind::BootImageKind;
pub(crate) use kind::MACHINE_API_NAMESPACE;
pub use object::{SeenObject, object_key};

/// The stores of the kinds that boot images depend on, by [`object_key`].
#[derive(Debug)]
pub struct BootImageCache {
    stores: BTreeMap<BootImageKind, Arc<IndexedStore<SeenObject>>>,
    /// The ConfigMap with the images of the release.
    pub golden: Arc<IndexedStore<ConfigMap>>,
}

impl Default for BootImageCache {
    fn default() -> Self {
        let stores = BootImageKind::ALL.map(|kind| (kind, Arc::default()));
        Self { stores: stores.into(), golden: Arc::default() }
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

    /// The cluster-scoped object of this name.
    pub fn get(&self, kind: BootImageKind, key: &str) -> Option<Arc<SeenObject>> {
        self.store(kind).get(key)
    }
}
