//! The watched kinds, the store of each, and the triggers of its changes.

use k8s_openapi::api::apps::v1::{DaemonSet, Deployment};
use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::core::v1::{ConfigMap, Node, Pod, Secret, ServiceAccount};
use k8s_openapi::api::rbac::v1::{Role, RoleBinding};
use kube::api::{ObjectMeta, PartialObjectMeta};
use kube::core::{DynamicObject, NamespaceResourceScope};
use kube::{Api, Client, Resource, ResourceExt as _};

use super::boot_images::GOLDEN;
use super::machine::{SeenMachine, machine};
use super::projection::{
    ManagedObject, deployment, existence, job, managed_object, meta, node, node_secret,
    non_empty_annotation, owning_config, pod, read, typed,
};
use super::trigger::Trigger;
use super::visitor::ResourceVisitor;
use super::{
    ClusterCache, DEPLOYMENTS, JOBS, MACHINES, NODE_JOBS, NODE_PODS, NODE_SECRETS,
    OPENSHIFT_BUILDS, PODS, RENDERERS,
};
use crate::cluster_names::ROLLOUT_NAMESPACE;
use crate::cluster_names::{BASE_TREES, BOOT_IMAGES, PREPARED_BASES, RENDERER};
use crate::kinds;
use mosb_api::cluster_settings::CONFIG_MAP;
use mosb_api::labels;
use mosb_api::openshift_build::OpenShiftBuild;
use mosb_reconcile::Kind;
use mosb_reconcile::watch::WatchedResource;

impl ClusterCache {
    /// Calls the visitor once for each kind; the kinds that only one task needs only if this
    /// controller has it.
    pub(super) fn for_each_resource(&self, client: &Client, visitor: &mut impl ResourceVisitor) {
        self.machine_resources(client, visitor);
        self.managed_resources(client, visitor);
        self.setting_resources(client, visitor);
        if self.rendering {
            self.render_resources(client, visitor);
        }
        if self.rendering || self.rolling_out || self.keeping_boot_images {
            self.other_renderers(client, false, visitor);
        }
        if self.rolling_out {
            self.rollout_resources(client, visitor);
        }
    }

    /// Calls the visitor once for each kind that shows a roll-out: pools, their images, and
    /// machines.
    pub(super) fn for_each_shown_resource(
        &self,
        client: &Client,
        visitor: &mut impl ResourceVisitor,
    ) {
        self.pool_resources(client, visitor);
        self.machines(client, visitor);
        // Somebody who may not list them finds out later, from the pool's conditions.
        self.other_renderers(client, true, visitor);
    }

    /// Calls the visitor once for each kind of pools, their images, and settings.
    pub(super) fn for_each_setting(&self, client: &Client, visitor: &mut impl ResourceVisitor) {
        self.pool_resources(client, visitor);
        self.setting_resources(client, visitor);
        self.other_renderers(client, true, visitor);
    }

    fn machine_resources(&self, client: &Client, visitor: &mut impl ResourceVisitor) {
        self.pool_resources(client, visitor);
        let kind = kinds::MACHINE_CONFIG.resource();
        let api: Api<PartialObjectMeta<DynamicObject>> = Api::all_with(client.clone(), &kind);
        let machine_configs = WatchedResource {
            optional: kinds::MACHINE_CONFIG.is_optional,
            ..WatchedResource::new(kind.plural, api)
        };
        visitor.visit(machine_configs, &self.machine_configs, meta, |meta| {
            let claim = non_empty_annotation(meta, labels::SERVES);
            Trigger::MachineConfig(meta.name.clone().unwrap_or_default(), claim)
        });
        // Metadata is enough: the kubelet reports architecture and operating system in labels.
        let nodes: Api<PartialObjectMeta<Node>> = Api::all(client.clone());
        visitor.visit(WatchedResource::new("nodes", nodes), &self.nodes, node, |_| Trigger::All);
    }

    fn pool_resources(&self, client: &Client, visitor: &mut impl ResourceVisitor) {
        visitor.visit(whole(client, kinds::MACHINE_OS_CONFIG), &self.configs, read, |config| {
            let pool = config.spec.machine_config_pool.name.clone();
            Trigger::Config(config.metadata.name.clone(), pool)
        });
        visitor.visit(whole(client, kinds::MACHINE_OS_BUILD), &self.builds, read, |build| {
            Trigger::ManagedObject(build.spec.machine_os_config.name.clone())
        });
        visitor.visit(whole(client, kinds::MACHINE_CONFIG_POOL), &self.pools, read, |pool| {
            Trigger::Pool(pool.metadata.name.clone())
        });
    }

    fn managed_resources(&self, client: &Client, visitor: &mut impl ResourceVisitor) {
        let jobs = self.managed::<Job>(client, JOBS);
        visitor.visit(jobs, &self.jobs, job, |job| trigger_of(&job.metadata));
        let pods = self.managed::<Pod>(client, PODS);
        visitor.visit(pods, &self.pods, pod, |pod| trigger_of(&pod.metadata));
        let builds = WatchedResource {
            optional: true,
            granted_apart: true,
            ..self.managed::<OpenShiftBuild>(client, OPENSHIFT_BUILDS)
        };
        visitor.visit(builds, &self.openshift_builds, typed, |build| trigger_of(&build.metadata));
        let mut results = self.own::<ConfigMap>(client, "configmaps with results");
        results.config = results.config.labels(&format!("{},{}", managed_labels(), labels::RESULT));
        visitor.visit(results, &self.results, typed, |map| trigger_of(&map.metadata));

        let config_maps = self.managed::<PartialObjectMeta<ConfigMap>>(client, "configmaps");
        visitor.visit(config_maps, &self.config_maps, managed_object, ManagedObject::trigger);
        let accounts = self.managed::<PartialObjectMeta<ServiceAccount>>(client, "serviceaccounts");
        visitor.visit(accounts, &self.service_accounts, managed_object, ManagedObject::trigger);
        let roles = self.managed::<PartialObjectMeta<Role>>(client, "roles");
        visitor.visit(roles, &self.roles, managed_object, ManagedObject::trigger);
        let bindings = self.managed::<PartialObjectMeta<RoleBinding>>(client, "rolebindings");
        visitor.visit(bindings, &self.role_bindings, managed_object, ManagedObject::trigger);
        // All Secrets of the namespace, so that a Secret that was missing enqueues the pools that
        // wait for it.
        let secrets = self.own::<PartialObjectMeta<Secret>>(client, "secrets");
        visitor.visit(secrets, &self.secrets, managed_object, |secret| match secret.trigger() {
            Trigger::Unrelated => Trigger::Secret(secret.name.clone()),
            ours => ours,
        });
    }

    fn setting_resources(&self, client: &Client, visitor: &mut impl ResourceVisitor) {
        for (name, store) in &self.settings {
            let what = format!("configmap {name}");
            let mut watched = match *name {
                CONFIG_MAP | BASE_TREES | PREPARED_BASES => self.own::<ConfigMap>(client, &what),
                _ => self.operators::<ConfigMap>(client, &what),
            };
            watched.config = watched.config.fields(&format!("metadata.name={name}"));
            // mosb writes these itself: a change needs no reconcile.
            let trigger = match *name {
                BASE_TREES | PREPARED_BASES => |_: &ConfigMap| Trigger::Unrelated,
                _ => |_: &ConfigMap| Trigger::All,
            };
            visitor.visit(watched, store, typed, trigger);
        }
        let kind = kinds::CONTROLLER_CONFIG;
        visitor.visit(whole(client, kind), &self.controller_configs, read, |_| Trigger::All);
        let mirrors = [
            kinds::IMAGE_DIGEST_MIRROR_SET,
            kinds::IMAGE_TAG_MIRROR_SET,
            kinds::IMAGE_CONTENT_SOURCE_POLICY,
        ];
        for (kind, store) in mirrors.into_iter().zip(&self.mirror_sets) {
            visitor.visit(whole(client, kind), store, read, |_| Trigger::All);
        }
        let kind = kinds::IMAGE_CONFIG;
        visitor.visit(whole(client, kind), &self.image_configs, read, |_| Trigger::All);
        let deployments = self.operators::<Deployment>(client, DEPLOYMENTS);
        visitor.visit(deployments, &self.deployments, deployment, |_| Trigger::All);
        let daemon_sets = self.operators::<PartialObjectMeta<DaemonSet>>(client, "daemonsets");
        visitor.visit(daemon_sets, &self.daemon_sets, existence, |()| Trigger::All);
    }

    fn render_resources(&self, client: &Client, visitor: &mut impl ResourceVisitor) {
        let kinds = [kinds::KUBELET_CONFIG, kinds::CONTAINER_RUNTIME_CONFIG];
        for (kind, store) in kinds.into_iter().zip(&self.pool_settings) {
            visitor.visit(whole(client, kind), store, read, |_| Trigger::All);
        }
    }

    /// The images of the release: in the operator's namespace, which is mosb's own without that
    /// operator. The other kinds of boot images are those of `boot_images`.
    pub(super) fn golden_resource(&self, client: &Client, visitor: &mut impl ResourceVisitor) {
        let mut watched = self.operators::<ConfigMap>(client, GOLDEN);
        watched.config = watched.config.fields(&format!("metadata.name={BOOT_IMAGES}"));
        visitor.visit(watched, &self.boot_images.golden, typed, |_| Trigger::BootImages);
    }

    /// Controllers that render pools and bring images to machines: there, mosb does neither.
    /// `granted_apart`: without the right to list them, the store stays empty.
    fn other_renderers(
        &self,
        client: &Client,
        granted_apart: bool,
        visitor: &mut impl ResourceVisitor,
    ) {
        let api = Api::<Deployment>::all(client.clone());
        let mut renderers =
            WatchedResource { granted_apart, ..WatchedResource::new(RENDERERS, api) };
        renderers.config = renderers.config.fields(&format!("metadata.name={RENDERER}"));
        let placed = |object: Deployment| {
            let namespace = object.namespace()?;
            let (name, replicas) = deployment(object)?;
            Some((format!("{namespace}/{name}"), replicas))
        };
        visitor.visit(renderers, &self.renderers, placed, |_| Trigger::All);
    }

    pub(super) fn machines(&self, client: &Client, visitor: &mut impl ResourceVisitor) {
        let machines = WatchedResource::new(MACHINES, Api::<Node>::all(client.clone()));
        visitor.visit(machines, &self.machines, machine, SeenMachine::trigger);
    }

    fn rollout_resources(&self, client: &Client, visitor: &mut impl ResourceVisitor) {
        self.machines(client, visitor);
        let jobs = of_rollout::<Job>(client, NODE_JOBS);
        visitor.visit(jobs, &self.node_jobs, job, |job| {
            let status = job.status.as_ref();
            let conditions = status.and_then(|status| status.conditions.as_ref());
            let mut conditions = conditions.into_iter().flatten();
            let has_ended = conditions
                .any(|one| ["Complete", "Failed"].contains(&&*one.type_) && one.status == "True");
            of_pool(&job.metadata, has_ended)
        });
        let pods = of_rollout::<Pod>(client, NODE_PODS);
        visitor.visit(pods, &self.node_pods, pod, |pod| of_pool(&pod.metadata, false));
        let secrets = of_rollout::<PartialObjectMeta<Secret>>(client, NODE_SECRETS);
        visitor.visit(secrets, &self.node_secrets, node_secret, |secret| Trigger::NodeJob {
            pool: secret.pool.clone(),
            has_ended: false,
        });
    }

    /// A kind in mosb's namespace.
    fn own<K>(&self, client: &Client, what: &str) -> WatchedResource<K>
    where
        K: Resource<Scope = NamespaceResourceScope, DynamicType = ()>,
    {
        WatchedResource::new(what, Api::namespaced(client.clone(), &self.namespace))
    }

    /// The objects of a kind that mosb created for builds.
    fn managed<K>(&self, client: &Client, what: &str) -> WatchedResource<K>
    where
        K: Resource<Scope = NamespaceResourceScope, DynamicType = ()>,
    {
        let own = self.own(client, what);
        WatchedResource { config: own.config.labels(&managed_labels()), ..own }
    }

    /// A kind in the operator's namespace.
    fn operators<K>(&self, client: &Client, what: &str) -> WatchedResource<K>
    where
        K: Resource<Scope = NamespaceResourceScope, DynamicType = ()>,
    {
        WatchedResource::new(what, Api::namespaced(client.clone(), &self.operator_namespace))
    }
}

/// The objects of a kind that mosb created for Jobs on machines.
fn of_rollout<K>(client: &Client, what: &str) -> WatchedResource<K>
where
    K: Resource<Scope = NamespaceResourceScope, DynamicType = ()>,
{
    let api = Api::namespaced(client.clone(), ROLLOUT_NAMESPACE);
    let all = WatchedResource::new(what, api);
    WatchedResource { config: all.config.labels(labels::NODE_JOB), ..all }
}

/// The trigger of a Job on a machine, or of its pod.
fn of_pool(meta: &ObjectMeta, has_ended: bool) -> Trigger {
    match non_empty_annotation(meta, labels::POOL) {
        Some(pool) => Trigger::NodeJob { pool, has_ended },
        None => Trigger::Unrelated,
    }
}

/// The label selector of objects that mosb created for builds.
fn managed_labels() -> String {
    format!("{},{}", labels::EPHEMERAL_BUILD_OBJECT, labels::ON_CLUSTER_LAYERING)
}

/// A cluster-scoped kind whose objects are cached whole.
fn whole(client: &Client, kind: Kind) -> WatchedResource<DynamicObject> {
    let resource = kind.resource();
    let api = Api::all_with(client.clone(), &resource);
    WatchedResource { optional: kind.is_optional, ..WatchedResource::new(resource.plural, api) }
}

/// The trigger of an object that may belong to a MachineOSConfig.
fn trigger_of(meta: &ObjectMeta) -> Trigger {
    owning_config(meta).map_or(Trigger::Unrelated, Trigger::ManagedObject)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_annotation_with_the_long_name_takes_precedence_over_the_label() {
        let of =
            |value: &str| Some([(labels::MACHINE_OS_CONFIG.to_owned(), value.to_owned())].into());
        let mut job = ObjectMeta { labels: of("cut"), ..ObjectMeta::default() };
        assert_eq!(trigger_of(&job), Trigger::ManagedObject("cut".to_owned()));
        job.annotations = of("long");
        assert_eq!(trigger_of(&job), Trigger::ManagedObject("long".to_owned()));
        assert_eq!(trigger_of(&ObjectMeta::default()), Trigger::Unrelated);
    }
}
