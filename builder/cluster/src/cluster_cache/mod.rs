//! The controller's view of the cluster: one [`IndexedStore`] for each kind.
//!
//! | file | does |
//! | --- | --- |
//! | `resources` | which kinds are watched, and what their changes trigger |
//! | `visitor` | watches them, or lists each once |
//! | `projection` | object → what is cached of it |
//! | `machine` | what is cached of a machine |
//! | `boot_images` | what is watched for boot images |
//! | `queries`, `settings` | values computed from several stores |

mod boot_images;
mod machine;
mod projection;
mod queries;
mod resources;
mod settings;
mod trigger;
mod visitor;

use std::collections::BTreeMap;
use std::sync::Arc;

use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::core::v1::{ConfigMap, Pod};
use kube::api::ObjectMeta;
use serde_json::Value;

use super::cluster_names::{
    BASE_TREES, BUILD_CONFIG, CUSTOM_DOCKERFILE, OPERATOR_IMAGES, OS_IMAGE_URL, PREPARED_BASES,
    YUM_REPOSITORIES,
};
use super::namespaces::Namespaces;
use mosb_api::cluster_settings::CONFIG_MAP;
use mosb_api::openshift_build::OpenShiftBuild;
use mosb_api::{MachineConfigPool, MachineOsBuild, MachineOsConfig, PoolSettings};
use mosb_reconcile::watch::{self, OwnWrites, WatchHealth};
use projection::{component_index_keys, index_keys, node_job_index_keys, node_pod_index_keys};
use settings::SettingsCache;

pub use boot_images::{
    BootImageCache, BootImageKind, MACHINE_API_NAMESPACE, SeenObject, has_only_our_spec, object_key,
};
pub use machine::SeenMachine;
pub use projection::{ManagedObject, NodeSecret, SeenNode, non_empty_annotation, owning_node};
pub use trigger::Trigger;
pub use visitor::Tasks;

/// The objects of one kind.
pub type IndexedStore<T> = watch::IndexedStore<T, IndexKey>;

/// A secondary key of an object.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum IndexKey {
    /// Name of the MachineOSConfig that the object belongs to.
    Config(String),
    /// Name of the pool that the object is for.
    Pool(String),
    /// Name of the rendered config that the object refers to.
    Rendered(String),
    /// UID of the owner that controls the object.
    Controller(String),
    /// Name of the node that the object is for.
    Node(String),
    /// The object is a control-plane node.
    ControlPlane,
    /// The object is a node with a slot.
    Slot,
}

/// Name of the watch of nodes that images are brought to.
pub const MACHINES: &str = "machines";
/// Name of the watch of Jobs on them.
pub const NODE_JOBS: &str = "jobs on machines";
/// Name of the watch of the pods of these Jobs.
pub const NODE_PODS: &str = "pods on machines";
/// Name of the watch of the Secrets of these Jobs.
pub const NODE_SECRETS: &str = "secrets of jobs on machines";
/// Names of the watches of pools and of their images.
pub const POOL_WATCHES: [&str; 3] = ["machineconfigpools", "machineosconfigs", "machineosbuilds"];
/// Names of the watches of what builds run as.
pub const WORKLOAD_WATCHES: [&str; 3] = [JOBS, PODS, OPENSHIFT_BUILDS];
/// Names of the watches that show other controllers of pools.
pub const CONTROLLER_WATCHES: [&str; 2] = [DEPLOYMENTS, RENDERERS];
const JOBS: &str = "jobs";
const PODS: &str = "pods";
const DEPLOYMENTS: &str = "deployments";
const RENDERERS: &str = "deployments named machine-config-controller";
/// Name of the watch of OpenShift's Builds.
pub const OPENSHIFT_BUILDS: &str = "builds.build.openshift.io";

/// ConfigMaps that are watched by name.
const CONFIG_MAPS: [&str; 8] = [
    CONFIG_MAP,
    OPERATOR_IMAGES,
    BASE_TREES,
    PREPARED_BASES,
    BUILD_CONFIG,
    OS_IMAGE_URL,
    CUSTOM_DOCKERFILE,
    YUM_REPOSITORIES,
];

/// Everything that is watched in the cluster.
#[derive(Debug)]
pub struct ClusterCache {
    /// The namespace of Jobs, pods and everything else that mosb creates.
    pub namespace: String,
    /// The namespace of the Machine Config Operator's settings; `namespace` on clusters without it.
    pub operator_namespace: String,
    pub watch_health: Arc<WatchHealth>,
    pub configs: Arc<IndexedStore<MachineOsConfig>>,
    pub builds: Arc<IndexedStore<MachineOsBuild>>,
    pub pools: Arc<IndexedStore<MachineConfigPool>>,
    /// MachineConfigs, metadata only.
    pub machine_configs: Arc<IndexedStore<ObjectMeta>>,
    /// Labels of nodes, which include architecture and operating system.
    pub nodes: Arc<IndexedStore<SeenNode>>,
    /// Build Jobs, without their pod templates.
    pub jobs: Arc<IndexedStore<Job>>,
    /// Build pods, without most of their specs.
    pub pods: Arc<IndexedStore<Pod>>,
    /// Builds of OpenShift's API that mosb created.
    pub openshift_builds: Arc<IndexedStore<OpenShiftBuild>>,
    /// ConfigMaps that mosb created for builds.
    pub config_maps: Arc<IndexedStore<ManagedObject>>,
    /// All Secrets of the namespace, metadata only.
    pub secrets: Arc<IndexedStore<ManagedObject>>,
    pub service_accounts: Arc<IndexedStore<ManagedObject>>,
    pub roles: Arc<IndexedStore<ManagedObject>>,
    pub role_bindings: Arc<IndexedStore<ManagedObject>>,
    /// ConfigMaps that build pods write their results to.
    pub results: Arc<IndexedStore<ConfigMap>>,
    /// ConfigMaps that are watched by name, one store for each.
    pub settings: BTreeMap<&'static str, Arc<IndexedStore<ConfigMap>>>,
    /// ControllerConfigs, as JSON.
    pub controller_configs: Arc<IndexedStore<Value>>,
    /// Mirror sets of the three kinds, as JSON.
    pub mirror_sets: [Arc<IndexedStore<Value>>; 3],
    /// `Image` objects of OpenShift's configuration, as JSON.
    pub image_configs: Arc<IndexedStore<Value>>,
    /// Deployments of the operator's namespace, and how many replicas they want.
    pub deployments: Arc<IndexedStore<i32>>,
    pub daemon_sets: Arc<IndexedStore<()>>,
    /// Whether this controller renders pools: the two stores below are filled only then.
    pub rendering: bool,
    pub pool_settings: [Arc<IndexedStore<PoolSettings>>; 2],
    /// Deployments that render pools, by `namespace/name`, and how many replicas they want.
    pub renderers: Arc<IndexedStore<i32>>,
    /// Whether this controller brings images to machines: the four stores below are filled only
    /// then.
    pub rolling_out: bool,
    /// The nodes of the cluster, with what a roll-out needs of them.
    pub machines: Arc<IndexedStore<SeenMachine>>,
    /// Jobs on machines, without their pod templates.
    pub node_jobs: Arc<IndexedStore<Job>>,
    /// The pods of these Jobs, without most of their specs.
    pub node_pods: Arc<IndexedStore<Pod>>,
    /// The Secrets of these Jobs, metadata only.
    pub node_secrets: Arc<IndexedStore<NodeSecret>>,
    /// Whether this controller keeps boot images: these stores are filled only then.
    pub keeping_boot_images: bool,
    pub boot_images: BootImageCache,
    /// Our writes that the stores may not show yet.
    pub own_writes: Arc<OwnWrites>,
    settings_cache: SettingsCache,
}

impl ClusterCache {
    fn new(namespaces: &Namespaces) -> Self {
        Self { operator_namespace: namespaces.operator.clone(), ..Self::empty(&namespaces.own) }
    }

    /// Whether builds also read Secrets of a second namespace, which is not watched.
    pub fn has_unwatched_secrets(&self) -> bool {
        self.namespace != self.operator_namespace
    }

    pub fn empty(namespace: &str) -> Self {
        let store = |name: &'static str| (name, Arc::default());
        Self {
            namespace: namespace.to_owned(),
            operator_namespace: namespace.to_owned(),
            watch_health: Arc::default(),
            configs: Arc::new(IndexedStore::with_index(|config: &MachineOsConfig| {
                vec![IndexKey::Pool(config.spec.machine_config_pool.name.clone())]
            })),
            builds: Arc::new(IndexedStore::with_index(|build: &MachineOsBuild| {
                vec![IndexKey::Config(build.spec.machine_os_config.name.clone())]
            })),
            pools: Arc::new(IndexedStore::with_index(|pool: &MachineConfigPool| {
                vec![IndexKey::Rendered(pool.spec.configuration.name.clone())]
            })),
            machine_configs: Arc::new(IndexedStore::with_index(component_index_keys)),
            nodes: Arc::default(),
            jobs: Arc::new(IndexedStore::with_index(|job: &Job| index_keys(&job.metadata))),
            pods: Arc::new(IndexedStore::with_index(|pod: &Pod| index_keys(&pod.metadata))),
            openshift_builds: Arc::new(IndexedStore::with_index(|build: &OpenShiftBuild| {
                index_keys(&build.metadata)
            })),
            config_maps: Arc::new(IndexedStore::with_index(ManagedObject::index_keys)),
            secrets: Arc::new(IndexedStore::with_index(ManagedObject::index_keys)),
            service_accounts: Arc::new(IndexedStore::with_index(ManagedObject::index_keys)),
            roles: Arc::new(IndexedStore::with_index(ManagedObject::index_keys)),
            role_bindings: Arc::new(IndexedStore::with_index(ManagedObject::index_keys)),
            results: Arc::new(IndexedStore::with_index(|map: &ConfigMap| {
                index_keys(&map.metadata)
            })),
            settings: CONFIG_MAPS.into_iter().map(store).collect(),
            controller_configs: Arc::default(),
            mirror_sets: Default::default(),
            image_configs: Arc::default(),
            deployments: Arc::default(),
            daemon_sets: Arc::default(),
            rendering: false,
            pool_settings: Default::default(),
            renderers: Arc::default(),
            rolling_out: false,
            machines: Arc::new(IndexedStore::with_index(SeenMachine::index_keys)),
            node_jobs: Arc::new(IndexedStore::with_index(node_job_index_keys)),
            node_pods: Arc::new(IndexedStore::with_index(node_pod_index_keys)),
            node_secrets: Arc::default(),
            keeping_boot_images: false,
            boot_images: BootImageCache::default(),
            own_writes: Arc::default(),
            settings_cache: SettingsCache::default(),
        }
    }
}
