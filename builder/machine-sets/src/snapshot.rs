//! The input of a decision about boot images.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::memory::Memory;
use super::pool_os::PoolOs;
use mosb_api::MachineConfigPool;
use mosb_api::cluster_settings::BootImageSettings;
use mosb_boot_image::{Architecture, Golden};
use mosb_cluster::cluster_cache::{BootImageKind, SeenObject};
use mosb_cluster::secret_ref::SecretRef;
use mosb_cluster::user_data_secret::FoundSecret;

/// Everything observed of machine sets and of what they depend on.
#[derive(Debug, Clone)]
pub struct BootImageSnapshot {
    /// The settings, or why they can't be read.
    pub settings: Result<BootImageSettings, String>,
    pub golden: GoldenState,
    /// `namespace/name` of the golden ConfigMap, which may not exist.
    pub golden_name: String,
    /// The architecture that this controller runs on.
    pub own_architecture: Option<Architecture>,
    /// A machine-config-controller that runs.
    pub other_controller: Option<String>,
    /// The objects of each kind, by namespace and name.
    pub objects: BTreeMap<BootImageKind, BTreeMap<String, Arc<SeenObject>>>,
    /// Kinds that the API server serves and that can't be listed, and why.
    pub unread: BTreeMap<BootImageKind, String>,
    /// Other kinds whose watch failed lately, so that the newest objects may be missing, and why.
    pub doubtful: BTreeMap<BootImageKind, String>,
    /// The same of the ConfigMap with the images of the release.
    pub golden_doubt: Option<String>,
    pub machine_configuration: Option<Arc<SeenObject>>,
    pub cluster_version: Option<Arc<SeenObject>>,
    pub infrastructure: Option<Arc<SeenObject>>,
    pub status: Option<Arc<SeenObject>>,
    pub worker_pool: Option<Arc<MachineConfigPool>>,
    /// The pools that mosb builds images for.
    pub pools: Vec<PoolOs>,
    /// UIDs of objects that our writes replaced in the version that is seen here.
    pub outdated: BTreeSet<String>,
    pub memory: Memory,
    /// Results of lookups: the Secrets with stubs.
    pub stubs: BTreeMap<SecretRef, FoundSecret>,
}

/// The ConfigMap with the images of the release.
#[derive(Debug, Clone)]
pub enum GoldenState {
    Missing,
    /// Why it can't be read.
    Unreadable(String),
    Found(Box<Golden>),
}

impl BootImageSnapshot {
    /// UIDs and resourceVersions of all objects.
    pub fn versions(&self) -> impl Iterator<Item = (&str, &str)> {
        let objects = self.objects.values().flat_map(BTreeMap::values);
        objects.map(|object| (&*object.uid, &*object.resource_version))
    }

    /// All objects of a kind, sorted by namespace and name.
    pub fn list(&self, kind: BootImageKind) -> Vec<&SeenObject> {
        let objects = self.objects.get(&kind);
        objects.into_iter().flat_map(BTreeMap::values).map(|object| &**object).collect()
    }

    pub fn get(&self, kind: BootImageKind, key: &str) -> Option<&SeenObject> {
        self.objects.get(&kind)?.get(key).map(|object| &**object)
    }

    /// Whether OpenShift's operators manage the cluster.
    pub fn is_openshift(&self) -> bool {
        self.cluster_version.is_some()
    }

    /// Whether mosb writes its own user data to this Secret.
    pub fn is_own_user_data(&self, secret: &SecretRef) -> bool {
        self.pools.iter().any(|pool| pool.user_data.as_ref() == Some(secret))
    }

    pub fn is_outdated(&self, object: &SeenObject) -> bool {
        self.outdated.contains(&object.uid)
    }
}
