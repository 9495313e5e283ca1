//! The controller's view of the cluster: one [`IndexedStore`] for each kind, and which kinds are
//! watched.

mod own_writes;
mod projection;

use std::collections::BTreeMap;
use std::fmt::Debug;
use std::sync::Arc;

use futures_util::future::{BoxFuture, FutureExt as _, try_join_all};
use k8s_openapi::api::apps::v1::{DaemonSet, Deployment};
use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::core::v1::{ConfigMap, Node, Pod, Secret, ServiceAccount};
use k8s_openapi::api::rbac::v1::{Role, RoleBinding};
use kube::api::{ListParams, ObjectMeta, PartialObjectMeta};
use kube::core::{DynamicObject, NamespaceResourceScope};
use kube::runtime::watcher::Config;
use kube::{Api, Client, Resource, ResourceExt as _};
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::Error;
use super::error::{is_forbidden, is_not_found};
use super::indexed_store::{Change, IndexKey, IndexedStore};
use super::kinds::Kind;
use super::namespaces::Namespaces;
use super::observe::{self, RENDERER};
use super::watch::{WatchHealth, WatchState, WatchedResource, run_watch};
use mosb_plan::api::cluster_settings::CONFIG_MAP;
use mosb_plan::api::openshift_build::OpenShiftBuild;
use mosb_plan::api::{MachineConfigPool, MachineOsBuild, MachineOsConfig, PoolSettings, labels};
use projection::{
    deployment, existence, index_keys, job, managed_object, meta, node, pod, read, typed,
};

pub use own_writes::{OWN_WRITE_TIMEOUT, OwnWrites};
pub use projection::{ManagedObject, SeenNode};

/// ConfigMap with the images of the OpenShift release.
pub const OPERATOR_IMAGES: &str = "machine-config-operator-images";
/// ConfigMap of mosb: the base trees that build pods pushed, by the digest of the base's manifest.
pub const BASE_TREES: &str = "mosb-base-trees";
/// ConfigMap that says how images of pools with the label `layering-enabled` are built.
pub const BUILD_CONFIG: &str = "on-cluster-build-config";
/// ConfigMap with the base image of those pools.
pub const OS_IMAGE_URL: &str = "machine-config-osimageurl";
/// ConfigMap with the Containerfiles of those pools, one key for each.
pub const CUSTOM_DOCKERFILE: &str = "on-cluster-build-custom-dockerfile";
/// Name of the watch of OpenShift's Builds.
pub const OPENSHIFT_BUILDS: &str = "builds.build.openshift.io";
/// ConfigMap with yum repositories for builds.
pub const YUM_REPOSITORIES: &str = "etc-yum-repos-d";

/// ConfigMaps that are watched by name.
const CONFIG_MAPS: [&str; 7] = [
    CONFIG_MAP,
    OPERATOR_IMAGES,
    BASE_TREES,
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
    /// Our writes that the stores may not show yet.
    pub own_writes: OwnWrites,
    pub(super) settings_cache: observe::SettingsCache,
}

/// What a change is about. It decides which keys are enqueued.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Trigger {
    /// The MachineOSConfig of this name, for the pool of the second name.
    Config(String, String),
    /// An object that belongs to the MachineOSConfig of this name.
    ManagedObject(String),
    Pool(String),
    MachineConfig(String),
    Secret(String),
    /// Something that every pool depends on.
    All,
    /// Nothing that a pool depends on.
    Unrelated,
}

/// Called once for each kind that is watched.
trait ResourceVisitor {
    fn visit<K, T>(
        &mut self,
        watched: WatchedResource<K>,
        store: &Arc<IndexedStore<T>>,
        read: fn(K) -> Option<(String, T)>,
        trigger: fn(&T) -> Trigger,
    ) where
        K: Resource + Clone + DeserializeOwned + Debug + Send + Sync + 'static,
        T: PartialEq + Send + Sync + 'static;
}

impl ClusterCache {
    fn new(namespaces: &Namespaces) -> Self {
        Self { operator_namespace: namespaces.operator.clone(), ..Self::empty(&namespaces.own) }
    }

    /// Whether builds also read Secrets of a second namespace, which is not watched.
    pub fn has_unwatched_secrets(&self) -> bool {
        self.namespace != self.operator_namespace
    }

    pub(super) fn empty(namespace: &str) -> Self {
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
            machine_configs: Arc::new(IndexedStore::with_index(observe::component::index_keys)),
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
            own_writes: OwnWrites::default(),
            settings_cache: observe::SettingsCache::default(),
        }
    }

    /// Lists every kind once, for commands that don't watch.
    ///
    /// # Errors
    /// A kind can't be listed, or a kind that must exist does not.
    pub async fn read(client: &Client, namespaces: &Namespaces) -> Result<Self, Error> {
        let cache = Self::new(namespaces);
        let mut resources =
            ResourceLister { watch_health: Arc::clone(&cache.watch_health), lists: Vec::new() };
        cache.for_each_resource(client, &mut resources);
        try_join_all(resources.lists).await?;
        Ok(cache)
    }

    /// Starts to watch every kind; the kinds that only rendering needs only if this controller
    /// renders pools. The watches end when the returned set is dropped.
    pub fn watch(
        client: &Client,
        namespaces: &Namespaces,
        rendering: bool,
        on_trigger: Arc<dyn Fn(Trigger) + Send + Sync>,
    ) -> (Arc<Self>, tokio::task::JoinSet<()>) {
        let cache = Arc::new(Self { rendering, ..Self::new(namespaces) });
        let mut resources = ResourceWatcher {
            watch_health: Arc::clone(&cache.watch_health),
            on_trigger,
            tasks: tokio::task::JoinSet::new(),
        };
        cache.for_each_resource(client, &mut resources);
        (cache, resources.tasks)
    }

    fn for_each_resource(&self, client: &Client, visitor: &mut impl ResourceVisitor) {
        self.machine_resources(client, visitor);
        self.managed_resources(client, visitor);
        self.setting_resources(client, visitor);
        if self.rendering {
            self.render_resources(client, visitor);
        }
    }

    fn render_resources(&self, client: &Client, visitor: &mut impl ResourceVisitor) {
        let kinds = [Kind::KubeletConfig, Kind::ContainerRuntimeConfig];
        for (kind, store) in kinds.into_iter().zip(&self.pool_settings) {
            visitor.visit(whole(client, kind), store, read, |_| Trigger::All);
        }
        let renderers = WatchedResource {
            what: format!("deployments named {RENDERER}"),
            api: Api::<Deployment>::all(client.clone()),
            config: Config::default().fields(&format!("metadata.name={RENDERER}")),
            optional: false,
            granted_apart: false,
        };
        let placed = |object: Deployment| {
            let namespace = object.namespace()?;
            let (name, replicas) = deployment(object)?;
            Some((format!("{namespace}/{name}"), replicas))
        };
        visitor.visit(renderers, &self.renderers, placed, |_| Trigger::All);
    }

    fn machine_resources(&self, client: &Client, visitor: &mut impl ResourceVisitor) {
        visitor.visit(whole(client, Kind::MachineOsConfig), &self.configs, read, |config| {
            let pool = config.spec.machine_config_pool.name.clone();
            Trigger::Config(config.metadata.name.clone(), pool)
        });
        visitor.visit(whole(client, Kind::MachineOsBuild), &self.builds, read, |build| {
            Trigger::ManagedObject(build.spec.machine_os_config.name.clone())
        });
        visitor.visit(whole(client, Kind::MachineConfigPool), &self.pools, read, |pool| {
            Trigger::Pool(pool.metadata.name.clone())
        });
        let kind = Kind::MachineConfig;
        let machine_configs = WatchedResource {
            what: kind.resource().plural,
            api: Api::<PartialObjectMeta<DynamicObject>>::all_with(
                client.clone(),
                &kind.resource(),
            ),
            config: Config::default(),
            optional: kind.is_optional(),
            granted_apart: false,
        };
        visitor.visit(machine_configs, &self.machine_configs, meta, |meta| {
            Trigger::MachineConfig(meta.name.clone().unwrap_or_default())
        });
        // Metadata is enough: the kubelet reports architecture and operating system in labels.
        let nodes = WatchedResource {
            what: "nodes".to_owned(),
            api: Api::<PartialObjectMeta<Node>>::all(client.clone()),
            config: Config::default(),
            optional: false,
            granted_apart: false,
        };
        visitor.visit(nodes, &self.nodes, node, |_| Trigger::All);
    }

    fn managed_resources(&self, client: &Client, visitor: &mut impl ResourceVisitor) {
        let ours = format!("{},{}", labels::EPHEMERAL_BUILD_OBJECT, labels::ON_CLUSTER_LAYERING);
        let jobs = self.watched::<Job>(client, "jobs", Some(&ours));
        visitor.visit(jobs, &self.jobs, job, |job| trigger_of(&job.metadata));
        let pods = self.watched::<Pod>(client, "pods", Some(&ours));
        visitor.visit(pods, &self.pods, pod, |pod| trigger_of(&pod.metadata));
        let builds = WatchedResource {
            optional: true,
            granted_apart: true,
            ..self.watched::<OpenShiftBuild>(client, OPENSHIFT_BUILDS, Some(&ours))
        };
        visitor.visit(builds, &self.openshift_builds, typed, |build| trigger_of(&build.metadata));
        let results = format!("{ours},{}", labels::RESULT);
        let results = self.watched::<ConfigMap>(client, "configmaps with results", Some(&results));
        visitor.visit(results, &self.results, typed, |map| trigger_of(&map.metadata));
        self.managed_inputs::<ConfigMap>(
            client,
            visitor,
            "configmaps",
            Some(&ours),
            &self.config_maps,
        );
        self.managed_inputs::<ServiceAccount>(
            client,
            visitor,
            "serviceaccounts",
            Some(&ours),
            &self.service_accounts,
        );
        self.managed_inputs::<Role>(client, visitor, "roles", Some(&ours), &self.roles);
        self.managed_inputs::<RoleBinding>(
            client,
            visitor,
            "rolebindings",
            Some(&ours),
            &self.role_bindings,
        );
        // All Secrets of the namespace, so that a Secret that was missing enqueues the pools that
        // wait for it.
        let secrets = self.watched::<PartialObjectMeta<Secret>>(client, "secrets", None);
        visitor.visit(secrets, &self.secrets, managed_object, |secret| match secret.trigger() {
            Trigger::Unrelated => Trigger::Secret(secret.name.clone()),
            ours => ours,
        });
    }

    fn managed_inputs<K>(
        &self,
        client: &Client,
        visitor: &mut impl ResourceVisitor,
        what: &str,
        labels: Option<&str>,
        store: &Arc<IndexedStore<ManagedObject>>,
    ) where
        K: Resource<Scope = NamespaceResourceScope, DynamicType = ()>
            + Clone
            + Debug
            + Send
            + Sync
            + 'static,
    {
        let watched = self.watched::<PartialObjectMeta<K>>(client, what, labels);
        visitor.visit(watched, store, managed_object, ManagedObject::trigger);
    }

    /// A kind that is watched in the operator's namespace.
    fn in_operator_namespace<K>(&self, client: &Client, what: &str) -> WatchedResource<K>
    where
        K: Resource<Scope = NamespaceResourceScope, DynamicType = ()>,
    {
        WatchedResource {
            api: Api::namespaced(client.clone(), &self.operator_namespace),
            ..self.watched(client, what, None)
        }
    }

    fn watched<K>(&self, client: &Client, what: &str, labels: Option<&str>) -> WatchedResource<K>
    where
        K: Resource<Scope = NamespaceResourceScope, DynamicType = ()>,
    {
        let config = Config::default();
        WatchedResource {
            what: what.to_owned(),
            api: Api::namespaced(client.clone(), &self.namespace),
            config: match labels {
                Some(labels) => config.labels(labels),
                None => config,
            },
            optional: false,
            granted_apart: false,
        }
    }

    fn setting_resources(&self, client: &Client, visitor: &mut impl ResourceVisitor) {
        for (name, store) in &self.settings {
            let what = format!("configmap {name}");
            let mut watched = match *name {
                CONFIG_MAP | BASE_TREES => self.watched::<ConfigMap>(client, &what, None),
                _ => self.in_operator_namespace::<ConfigMap>(client, &what),
            };
            watched.config = watched.config.fields(&format!("metadata.name={name}"));
            // mosb writes the base trees itself: a change needs no reconcile.
            let trigger = match *name {
                BASE_TREES => |_: &ConfigMap| Trigger::Unrelated,
                _ => |_: &ConfigMap| Trigger::All,
            };
            visitor.visit(watched, store, typed, trigger);
        }
        let kind = Kind::ControllerConfig;
        visitor.visit(whole(client, kind), &self.controller_configs, read, |_| Trigger::All);
        let mirrors =
            [Kind::ImageDigestMirrorSet, Kind::ImageTagMirrorSet, Kind::ImageContentSourcePolicy];
        for (kind, store) in mirrors.into_iter().zip(&self.mirror_sets) {
            visitor.visit(whole(client, kind), store, read, |_| Trigger::All);
        }
        let kind = Kind::ImageConfig;
        visitor.visit(whole(client, kind), &self.image_configs, read, |_| Trigger::All);
        let deployments = self.in_operator_namespace::<Deployment>(client, "deployments");
        visitor.visit(deployments, &self.deployments, deployment, |_| Trigger::All);
        let daemon_sets =
            self.in_operator_namespace::<PartialObjectMeta<DaemonSet>>(client, "daemonsets");
        visitor.visit(daemon_sets, &self.daemon_sets, existence, |()| Trigger::All);
    }
}

/// A cluster-scoped kind whose objects are cached whole.
fn whole(client: &Client, kind: Kind) -> WatchedResource<DynamicObject> {
    let resource = kind.resource();
    WatchedResource {
        api: Api::all_with(client.clone(), &resource),
        what: resource.plural,
        config: Config::default(),
        optional: kind.is_optional(),
        granted_apart: false,
    }
}

/// The trigger of an object that may belong to a MachineOSConfig.
fn trigger_of(meta: &ObjectMeta) -> Trigger {
    observe::owning_config(meta).map_or(Trigger::Unrelated, Trigger::ManagedObject)
}

struct ResourceWatcher {
    watch_health: Arc<WatchHealth>,
    on_trigger: Arc<dyn Fn(Trigger) + Send + Sync>,
    tasks: tokio::task::JoinSet<()>,
}

impl ResourceVisitor for ResourceWatcher {
    fn visit<K, T>(
        &mut self,
        watched: WatchedResource<K>,
        store: &Arc<IndexedStore<T>>,
        read: fn(K) -> Option<(String, T)>,
        trigger: fn(&T) -> Trigger,
    ) where
        K: Resource + Clone + DeserializeOwned + Debug + Send + Sync + 'static,
        T: PartialEq + Send + Sync + 'static,
    {
        let on_trigger = Arc::clone(&self.on_trigger);
        let on_trigger = move |change: &Change<T>| {
            let trigger = |object: &Option<Arc<T>>| object.as_deref().map(trigger);
            let (before, after) = (trigger(&change.before), trigger(&change.after));
            if before != after {
                before.into_iter().for_each(|trigger| on_trigger(trigger));
            }
            after.into_iter().for_each(|trigger| on_trigger(trigger));
        };
        let watch_health = Arc::clone(&self.watch_health);
        watch_health.register(&watched.what, watched.optional);
        self.tasks.spawn(run_watch(watched, watch_health, Arc::clone(store), read, on_trigger));
    }
}

struct ResourceLister {
    watch_health: Arc<WatchHealth>,
    lists: Vec<BoxFuture<'static, Result<(), Error>>>,
}

impl ResourceVisitor for ResourceLister {
    fn visit<K, T>(
        &mut self,
        watched: WatchedResource<K>,
        store: &Arc<IndexedStore<T>>,
        read: fn(K) -> Option<(String, T)>,
        _: fn(&T) -> Trigger,
    ) where
        K: Resource + Clone + DeserializeOwned + Debug + Send + Sync + 'static,
        T: PartialEq + Send + Sync + 'static,
    {
        let (store, watch_health) = (Arc::clone(store), Arc::clone(&self.watch_health));
        let list = async move {
            let params = ListParams {
                label_selector: watched.config.label_selector,
                field_selector: watched.config.field_selector,
                ..ListParams::default()
            };
            match watched.api.list(&params).await {
                Ok(list) => {
                    store.replace(list.items.into_iter().filter_map(read));
                    watch_health.set(&watched.what, WatchState::Current, watched.optional);
                }
                Err(error)
                    if watched.optional && is_not_found(&error)
                        || watched.granted_apart && is_forbidden(&error) =>
                {
                    watch_health.set(&watched.what, WatchState::NotServed, watched.optional);
                }
                Err(error) => return Err(Error::api(watched.what, "list")(error)),
            }
            Ok(())
        };
        self.lists.push(list.boxed());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn nothing_is_complete_before_the_first_watch_had_its_turn() {
        let nowhere = kube::Config::new("http://127.0.0.1:1".parse().unwrap());
        let client = Client::try_from(nowhere).unwrap();
        let (cache, watches) =
            ClusterCache::watch(&client, &Namespaces::one("mosb"), true, Arc::new(|_| ()));
        assert_eq!(cache.watch_health.not_synced().len(), watches.len());
    }

    #[test]
    fn what_serves_a_long_name_wakes_it_and_not_what_its_label_says() {
        let of =
            |value: &str| Some([(labels::MACHINE_OS_CONFIG.to_owned(), value.to_owned())].into());
        let mut job = ObjectMeta { labels: of("cut"), ..ObjectMeta::default() };
        assert_eq!(trigger_of(&job), Trigger::ManagedObject("cut".to_owned()));
        job.annotations = of("long");
        assert_eq!(trigger_of(&job), Trigger::ManagedObject("long".to_owned()));
        assert_eq!(trigger_of(&ObjectMeta::default()), Trigger::Unrelated);
    }
}
