//! Everything that is known of the cluster: one shelf a kind, and which kinds there are.

mod kept;

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
use super::kinds::Kind;
use super::namespaces::Namespaces;
use super::observe::{self, RENDERER};
use super::shelf::{Change, Key, Shelf};
use super::watch::{Board, Progress, Watched, follow};
use kept::{deployment, existence, job, keys, meta, node, pod, read, serving, typed};
use mosb_plan::api::cluster_settings::CONFIG_MAP;
use mosb_plan::api::openshift_build::OpenShiftBuild;
use mosb_plan::api::{MachineConfigPool, MachineOsBuild, MachineOsConfig, PoolSettings, labels};

pub use kept::{SeenNode, Serving};

/// ConfigMap: the release's images.
pub const OPERATOR_IMAGES: &str = "machine-config-operator-images";
/// ConfigMap of ours: the base trees that build pods pushed, by the digest of the base's manifest.
pub const BASE_TREES: &str = "mosb-base-trees";
/// ConfigMap: how images of pools with the label `layering-enabled` are built.
pub const BUILD_CONFIG: &str = "on-cluster-build-config";
/// ConfigMap: the base image of those pools.
pub const OS_IMAGE_URL: &str = "machine-config-osimageurl";
/// ConfigMap: the Containerfiles of those pools, a key each.
pub const CUSTOM_DOCKERFILE: &str = "on-cluster-build-custom-dockerfile";
/// What the watch of OpenShift's Builds is called.
pub const OPENSHIFT_BUILDS: &str = "builds.build.openshift.io";
/// ConfigMap: yum repositories for builds.
pub const YUM_REPOSITORIES: &str = "etc-yum-repos-d";

/// The ConfigMaps that are read by name.
const CONFIG_MAPS: [&str; 7] = [
    CONFIG_MAP,
    OPERATOR_IMAGES,
    BASE_TREES,
    BUILD_CONFIG,
    OS_IMAGE_URL,
    CUSTOM_DOCKERFILE,
    YUM_REPOSITORIES,
];

/// What is seen of the cluster.
#[derive(Debug)]
pub struct Stores {
    /// Where everything of ours is that has a namespace.
    pub namespace: String,
    /// Where the Machine Config Operator's settings are; ours on clusters without it.
    pub operator_namespace: String,
    /// How far the watches are.
    pub board: Arc<Board>,
    /// MachineOSConfigs.
    pub configs: Arc<Shelf<MachineOsConfig>>,
    /// MachineOSBuilds.
    pub builds: Arc<Shelf<MachineOsBuild>>,
    /// MachineConfigPools.
    pub pools: Arc<Shelf<MachineConfigPool>>,
    /// MachineConfigs, without their content.
    pub machine_configs: Arc<Shelf<ObjectMeta>>,
    /// Labels of nodes, by name: architecture and system are among them.
    pub nodes: Arc<Shelf<SeenNode>>,
    /// Our Jobs, without what their pods are made of.
    pub jobs: Arc<Shelf<Job>>,
    /// Pods of Jobs, ours among them: what they have come to.
    pub pods: Arc<Shelf<Pod>>,
    /// Our Builds of OpenShift's API.
    pub openshift_builds: Arc<Shelf<OpenShiftBuild>>,
    /// Our ConfigMaps, by whom they serve.
    pub config_maps: Arc<Shelf<Serving>>,
    /// Secrets of the namespace: ours by whom they serve, of others that they are there.
    pub secrets: Arc<Shelf<Serving>>,
    /// Our ServiceAccounts.
    pub service_accounts: Arc<Shelf<Serving>>,
    /// Our Roles.
    pub roles: Arc<Shelf<Serving>>,
    /// Our RoleBindings.
    pub role_bindings: Arc<Shelf<Serving>>,
    /// The ConfigMaps that build pods tell their results in.
    pub results: Arc<Shelf<ConfigMap>>,
    /// The ConfigMaps that are read by name, a shelf each.
    pub settings: BTreeMap<&'static str, Arc<Shelf<ConfigMap>>>,
    /// ControllerConfigs, as they are.
    pub controller_configs: Arc<Shelf<Value>>,
    /// Mirror sets of the three kinds, as they are.
    pub mirror_sets: [Arc<Shelf<Value>>; 3],
    /// Images of OpenShift's configuration, as they are.
    pub image_configs: Arc<Shelf<Value>>,
    /// Deployments of the operator's namespace, and how many pods they want.
    pub deployments: Arc<Shelf<i32>>,
    /// DaemonSets of the operator's namespace.
    pub daemon_sets: Arc<Shelf<()>>,
    /// Whether pools are rendered here: only then the shelves below are filled.
    pub rendering: bool,
    /// KubeletConfigs and ContainerRuntimeConfigs.
    pub pool_settings: [Arc<Shelf<PoolSettings>>; 2],
    /// Deployments that render pools, by `namespace/name`, and how many pods they want.
    pub renderers: Arc<Shelf<i32>>,
    /// The settings.
    pub(super) last_read: observe::LastRead,
}

/// What a change is about, so that those are woken whom it concerns.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Cause {
    /// A MachineOSConfig of this name, for this pool.
    Config(String, String),
    /// Something that serves the MachineOSConfig of this name.
    Serves(String),
    /// A pool.
    Pool(String),
    /// A MachineConfig.
    MachineConfig(String),
    /// A Secret.
    Secret(String),
    /// Something that concerns all.
    All,
    /// Nothing of ours.
    Nobody,
}

/// What is done with each kind.
trait Visitor {
    fn visit<K, T>(
        &mut self,
        watched: Watched<K>,
        shelf: &Arc<Shelf<T>>,
        read: fn(K) -> Option<(String, T)>,
        cause: fn(&T) -> Cause,
    ) where
        K: Resource + Clone + DeserializeOwned + Debug + Send + Sync + 'static,
        T: PartialEq + Send + Sync + 'static;
}

impl Stores {
    fn new(namespaces: &Namespaces) -> Self {
        Self { operator_namespace: namespaces.operator.clone(), ..Self::empty(&namespaces.own) }
    }

    /// Whether Secrets are read in a second namespace too, in which no watch shows them.
    pub fn has_unwatched_secrets(&self) -> bool {
        self.namespace != self.operator_namespace
    }

    pub(super) fn empty(namespace: &str) -> Self {
        let shelf = |name: &'static str| (name, Arc::default());
        Self {
            namespace: namespace.to_owned(),
            operator_namespace: namespace.to_owned(),
            board: Arc::default(),
            configs: Arc::new(Shelf::by(|config: &MachineOsConfig| {
                vec![Key::Pool(config.spec.machine_config_pool.name.clone())]
            })),
            builds: Arc::new(Shelf::by(|build: &MachineOsBuild| {
                vec![Key::Config(build.spec.machine_os_config.name.clone())]
            })),
            pools: Arc::new(Shelf::by(|pool: &MachineConfigPool| {
                vec![Key::Rendered(pool.spec.configuration.name.clone())]
            })),
            machine_configs: Arc::new(Shelf::by(observe::component::keys)),
            nodes: Arc::default(),
            jobs: Arc::new(Shelf::by(|job: &Job| keys(&job.metadata))),
            pods: Arc::new(Shelf::by(|pod: &Pod| keys(&pod.metadata))),
            openshift_builds: Arc::new(Shelf::by(|build: &OpenShiftBuild| keys(&build.metadata))),
            config_maps: Arc::new(Shelf::by(Serving::keys)),
            secrets: Arc::new(Shelf::by(Serving::keys)),
            service_accounts: Arc::new(Shelf::by(Serving::keys)),
            roles: Arc::new(Shelf::by(Serving::keys)),
            role_bindings: Arc::new(Shelf::by(Serving::keys)),
            results: Arc::new(Shelf::by(|map: &ConfigMap| keys(&map.metadata))),
            settings: CONFIG_MAPS.into_iter().map(shelf).collect(),
            controller_configs: Arc::default(),
            mirror_sets: Default::default(),
            image_configs: Arc::default(),
            deployments: Arc::default(),
            daemon_sets: Arc::default(),
            rendering: false,
            pool_settings: Default::default(),
            renderers: Arc::default(),
            last_read: observe::LastRead::default(),
        }
    }

    /// Looks once at everything.
    ///
    /// # Errors
    /// A kind that can't be listed, or must be there and isn't.
    pub async fn read(client: &Client, namespaces: &Namespaces) -> Result<Self, Error> {
        let stores = Self::new(namespaces);
        let mut lister = Lister { board: Arc::clone(&stores.board), lists: Vec::new() };
        stores.each_kind(client, &mut lister);
        try_join_all(lister.lists).await?;
        Ok(stores)
    }

    /// Begins to watch everything, and what rendering needs only if pools are rendered here; the watches end with the
    /// returned set.
    pub fn watch(
        client: &Client,
        namespaces: &Namespaces,
        rendering: bool,
        wake: Arc<dyn Fn(Cause) + Send + Sync>,
    ) -> (Arc<Self>, tokio::task::JoinSet<()>) {
        let stores = Arc::new(Self { rendering, ..Self::new(namespaces) });
        let mut follower =
            Follower { board: Arc::clone(&stores.board), wake, tasks: tokio::task::JoinSet::new() };
        stores.each_kind(client, &mut follower);
        (stores, follower.tasks)
    }

    fn each_kind(&self, client: &Client, visitor: &mut impl Visitor) {
        self.machine_kinds(client, visitor);
        self.our_kinds(client, visitor);
        self.setting_kinds(client, visitor);
        if self.rendering {
            self.render_kinds(client, visitor);
        }
    }

    fn render_kinds(&self, client: &Client, visitor: &mut impl Visitor) {
        let kinds = [Kind::KubeletConfig, Kind::ContainerRuntimeConfig];
        for (kind, shelf) in kinds.into_iter().zip(&self.pool_settings) {
            visitor.visit(whole(client, kind), shelf, read, |_| Cause::All);
        }
        let renderers = Watched {
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
        visitor.visit(renderers, &self.renderers, placed, |_| Cause::All);
    }

    fn machine_kinds(&self, client: &Client, visitor: &mut impl Visitor) {
        visitor.visit(whole(client, Kind::MachineOsConfig), &self.configs, read, |config| {
            let pool = config.spec.machine_config_pool.name.clone();
            Cause::Config(config.metadata.name.clone(), pool)
        });
        visitor.visit(whole(client, Kind::MachineOsBuild), &self.builds, read, |build| {
            Cause::Serves(build.spec.machine_os_config.name.clone())
        });
        visitor.visit(whole(client, Kind::MachineConfigPool), &self.pools, read, |pool| {
            Cause::Pool(pool.metadata.name.clone())
        });
        let kind = Kind::MachineConfig;
        let machine_configs = Watched {
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
            Cause::MachineConfig(meta.name.clone().unwrap_or_default())
        });
        // Metadata is enough: the kubelet keeps architecture and system of a node in labels.
        let nodes = Watched {
            what: "nodes".to_owned(),
            api: Api::<PartialObjectMeta<Node>>::all(client.clone()),
            config: Config::default(),
            optional: false,
            granted_apart: false,
        };
        visitor.visit(nodes, &self.nodes, node, |_| Cause::All);
    }

    fn our_kinds(&self, client: &Client, visitor: &mut impl Visitor) {
        let ours = format!("{},{}", labels::EPHEMERAL_BUILD_OBJECT, labels::ON_CLUSTER_LAYERING);
        let jobs = self.watched::<Job>(client, "jobs", Some(&ours));
        visitor.visit(jobs, &self.jobs, job, |job| serves(&job.metadata));
        let pods = self.watched::<Pod>(client, "pods", Some(&ours));
        visitor.visit(pods, &self.pods, pod, |pod| serves(&pod.metadata));
        let builds = Watched {
            optional: true,
            granted_apart: true,
            ..self.watched::<OpenShiftBuild>(client, OPENSHIFT_BUILDS, Some(&ours))
        };
        visitor.visit(builds, &self.openshift_builds, typed, |build| serves(&build.metadata));
        let results = format!("{ours},{}", labels::RESULT);
        let results = self.watched::<ConfigMap>(client, "configmaps with results", Some(&results));
        visitor.visit(results, &self.results, typed, |map| serves(&map.metadata));
        self.our_inputs::<ConfigMap>(client, visitor, "configmaps", Some(&ours), &self.config_maps);
        self.our_inputs::<ServiceAccount>(
            client,
            visitor,
            "serviceaccounts",
            Some(&ours),
            &self.service_accounts,
        );
        self.our_inputs::<Role>(client, visitor, "roles", Some(&ours), &self.roles);
        self.our_inputs::<RoleBinding>(
            client,
            visitor,
            "rolebindings",
            Some(&ours),
            &self.role_bindings,
        );
        // All of the namespace: a secret that was missing wakes who waits for it.
        let secrets = self.watched::<PartialObjectMeta<Secret>>(client, "secrets", None);
        visitor.visit(secrets, &self.secrets, serving, |secret| match secret.cause() {
            Cause::Nobody => Cause::Secret(secret.name.clone()),
            ours => ours,
        });
    }

    fn our_inputs<K>(
        &self,
        client: &Client,
        visitor: &mut impl Visitor,
        what: &str,
        labels: Option<&str>,
        shelf: &Arc<Shelf<Serving>>,
    ) where
        K: Resource<Scope = NamespaceResourceScope, DynamicType = ()>
            + Clone
            + Debug
            + Send
            + Sync
            + 'static,
    {
        let watched = self.watched::<PartialObjectMeta<K>>(client, what, labels);
        visitor.visit(watched, shelf, serving, Serving::cause);
    }

    /// A kind in the operator's namespace.
    fn of_operator<K>(&self, client: &Client, what: &str) -> Watched<K>
    where
        K: Resource<Scope = NamespaceResourceScope, DynamicType = ()>,
    {
        Watched {
            api: Api::namespaced(client.clone(), &self.operator_namespace),
            ..self.watched(client, what, None)
        }
    }

    fn watched<K>(&self, client: &Client, what: &str, labels: Option<&str>) -> Watched<K>
    where
        K: Resource<Scope = NamespaceResourceScope, DynamicType = ()>,
    {
        let config = Config::default();
        Watched {
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

    fn setting_kinds(&self, client: &Client, visitor: &mut impl Visitor) {
        for (name, shelf) in &self.settings {
            let what = format!("configmap {name}");
            let mut watched = match *name {
                CONFIG_MAP | BASE_TREES => self.watched::<ConfigMap>(client, &what, None),
                _ => self.of_operator::<ConfigMap>(client, &what),
            };
            watched.config = watched.config.fields(&format!("metadata.name={name}"));
            // The base trees are our own note: reading it is enough.
            let cause = match *name {
                BASE_TREES => |_: &ConfigMap| Cause::Nobody,
                _ => |_: &ConfigMap| Cause::All,
            };
            visitor.visit(watched, shelf, typed, cause);
        }
        let kind = Kind::ControllerConfig;
        visitor.visit(whole(client, kind), &self.controller_configs, read, |_| Cause::All);
        let mirrors =
            [Kind::ImageDigestMirrorSet, Kind::ImageTagMirrorSet, Kind::ImageContentSourcePolicy];
        for (kind, shelf) in mirrors.into_iter().zip(&self.mirror_sets) {
            visitor.visit(whole(client, kind), shelf, read, |_| Cause::All);
        }
        let kind = Kind::ImageConfig;
        visitor.visit(whole(client, kind), &self.image_configs, read, |_| Cause::All);
        let deployments = self.of_operator::<Deployment>(client, "deployments");
        visitor.visit(deployments, &self.deployments, deployment, |_| Cause::All);
        let daemon_sets = self.of_operator::<PartialObjectMeta<DaemonSet>>(client, "daemonsets");
        visitor.visit(daemon_sets, &self.daemon_sets, existence, |()| Cause::All);
    }
}

/// A kind that has no namespace and is read whole.
fn whole(client: &Client, kind: Kind) -> Watched<DynamicObject> {
    let resource = kind.resource();
    Watched {
        api: Api::all_with(client.clone(), &resource),
        what: resource.plural,
        config: Config::default(),
        optional: kind.is_optional(),
        granted_apart: false,
    }
}

/// The MachineOSConfig that an object of ours serves.
fn serves(meta: &ObjectMeta) -> Cause {
    observe::serves(meta).map_or(Cause::Nobody, Cause::Serves)
}

struct Follower {
    board: Arc<Board>,
    wake: Arc<dyn Fn(Cause) + Send + Sync>,
    tasks: tokio::task::JoinSet<()>,
}

impl Visitor for Follower {
    fn visit<K, T>(
        &mut self,
        watched: Watched<K>,
        shelf: &Arc<Shelf<T>>,
        read: fn(K) -> Option<(String, T)>,
        cause: fn(&T) -> Cause,
    ) where
        K: Resource + Clone + DeserializeOwned + Debug + Send + Sync + 'static,
        T: PartialEq + Send + Sync + 'static,
    {
        let wake = Arc::clone(&self.wake);
        let wake = move |change: &Change<T>| {
            let cause = |object: &Option<Arc<T>>| object.as_deref().map(cause);
            let (before, after) = (cause(&change.before), cause(&change.after));
            if before != after {
                before.into_iter().for_each(|cause| wake(cause));
            }
            after.into_iter().for_each(|cause| wake(cause));
        };
        let board = Arc::clone(&self.board);
        board.expect(&watched.what, watched.optional);
        self.tasks.spawn(follow(watched, board, Arc::clone(shelf), read, wake));
    }
}

struct Lister {
    board: Arc<Board>,
    lists: Vec<BoxFuture<'static, Result<(), Error>>>,
}

impl Visitor for Lister {
    fn visit<K, T>(
        &mut self,
        watched: Watched<K>,
        shelf: &Arc<Shelf<T>>,
        read: fn(K) -> Option<(String, T)>,
        _: fn(&T) -> Cause,
    ) where
        K: Resource + Clone + DeserializeOwned + Debug + Send + Sync + 'static,
        T: PartialEq + Send + Sync + 'static,
    {
        let (shelf, board) = (Arc::clone(shelf), Arc::clone(&self.board));
        let list = async move {
            let params = ListParams {
                label_selector: watched.config.label_selector,
                field_selector: watched.config.field_selector,
                ..ListParams::default()
            };
            match watched.api.list(&params).await {
                Ok(list) => {
                    shelf.fill(list.items.into_iter().filter_map(read));
                    board.set(&watched.what, Progress::Current, watched.optional);
                }
                Err(error)
                    if watched.optional && is_not_found(&error)
                        || watched.granted_apart && is_forbidden(&error) =>
                {
                    board.set(&watched.what, Progress::NotServed, watched.optional);
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
        let (stores, watches) =
            Stores::watch(&client, &Namespaces::one("mosb"), true, Arc::new(|_| ()));
        assert_eq!(stores.board.missing().len(), watches.len());
    }

    #[test]
    fn what_serves_a_long_name_wakes_it_and_not_what_its_label_says() {
        let of =
            |value: &str| Some([(labels::MACHINE_OS_CONFIG.to_owned(), value.to_owned())].into());
        let mut job = ObjectMeta { labels: of("cut"), ..ObjectMeta::default() };
        assert_eq!(serves(&job), Cause::Serves("cut".to_owned()));
        job.annotations = of("long");
        assert_eq!(serves(&job), Cause::Serves("long".to_owned()));
        assert_eq!(serves(&ObjectMeta::default()), Cause::Nobody);
    }
}
