//! A cluster without running containers, for tests with many pools whose controller is killed or
//! disturbed.
//!
//! Jobs get pods, but no node accepts them. [`FaultCluster::kubelet`] is a stand-in for the sidecar,
//! the kubelet and the eviction API; the number of the rendered config selects the result. Builds
//! of pools whose name starts with [`ALONE`] are Pods without Jobs. All pools push to one
//! repository, which contains the resulting images in advance.

mod controllers;
pub mod kubelet;
mod objects;

use std::collections::BTreeSet;
use std::fs;

use serde_json::{Value, json};
use tempfile::TempDir;

pub use controllers::{Controllers, has_lost_lease};
use kubelet::End;
use mosb_tests::{
    ApiProxy, Daemon, FixtureGuard, FixturePool, Layout, Node, base_image, lasting, programs,
};
use objects::Objects;

pub const API: &str = "machineconfiguration.openshift.io/v1";
pub const M: &str = "machineconfiguration.openshift.io";
pub const NAMESPACE: &str = "faults";

/// Prefix of the names of pools whose builds are Pods without Jobs.
pub const ALONE: &str = "alone";

/// Results of a Job or Pod, selected by the number of its rendered config.
pub mod ends {
    /// Pushes the first image.
    pub const ONE: u32 = 0xa1;
    /// Pushes the second image.
    pub const TWO: u32 = 0xa2;
    /// Reports that the build failed.
    pub const FAILS: u32 = 0xff;
    /// The pod never ends.
    pub const NEVER: u32 = 0xee;
    /// Pushes the first image, and a base tree to record.
    pub const TREE: u32 = 0xa7;
    /// Pushes the first image, on a prepared base to record.
    pub const PREPARED: u32 = 0xa8;
    /// The first pod is evicted; the second one pushes the first image.
    pub const LOST: u32 = 0xe1;
}

pub struct FaultCluster {
    pub node: Node,
    pub proxy: ApiProxy,
    /// The proxy of a second controller.
    pub other: ApiProxy,
    objects: Objects,
    folder: TempDir,
    /// The repository for images, without a tag.
    pub push: String,
    base: String,
    /// Digests of the images that builds can push.
    pub images: [String; 3],
}

/// Returns a cluster for one test alone, because a controller reconciles all pools. Pools of
/// earlier tests have no effect.
#[track_caller]
pub fn cluster() -> FixtureGuard<FaultCluster> {
    static CLUSTERS: FixturePool<FaultCluster> = FixturePool::new(3, FaultCluster::new);
    CLUSTERS.acquire()
}

impl FaultCluster {
    fn new() -> Self {
        let node = Node::start(&programs()).unwrap();
        node.install_kinds();
        let registry = node.registry();
        registry.push(&base_image().reference("base"), "faults/base:12");
        let folder = tempfile::tempdir().unwrap();
        let layout = Layout::create(&folder.path().join("images"));
        let images = ["one", "two", "prepared"].map(|name| {
            // Its checks compare it with the base.
            let digest = layout.put_child(name, &base_image(), "base", ("image", name));
            registry.push(&layout.reference(name), &format!("faults/os:{name}"));
            digest
        });
        let proxy = ApiProxy::start(&node);
        let cluster = Self {
            push: registry.repository("faults/os"),
            base: registry.repository("faults/base:12"),
            images,
            folder,
            proxy,
            other: ApiProxy::start(&node),
            objects: Objects::new(node.another_api()),
            node,
        };
        cluster.settle();
        cluster
    }

    /// Creates the objects that mosb needs besides pools.
    fn settle(&self) {
        let namespace =
            json!({ "apiVersion": "v1", "kind": "Namespace", "metadata": { "name": NAMESPACE } });
        self.make("/api/v1/namespaces", &namespace);
        let map = json!({ "apiVersion": "v1", "kind": "ConfigMap", "metadata": { "name": "mosb-config" } });
        self.make(&in_namespace("configmaps"), &map);
        self.settings(&json!({}));
        for name in ["push", "global-pull-secret-copy"] {
            self.make(&in_namespace("secrets"), &self.secret(name));
        }
    }

    /// Writes mosb's ConfigMap with these Job settings, and a node selector that no node matches.
    pub fn settings(&self, job: &Value) {
        let registry = self.node.registry();
        let mut settings = json!({ "job": job,
            "imageRegistryBundles": { &registry.host_port: registry.ca_pem } });
        settings["job"]["nodeSelector"] = json!({ "no-node": "has-this" });
        let change = json!({ "data": { "config.yaml": settings.to_string() } });
        let map = format!("{}/mosb-config", in_namespace("configmaps"));
        self.change(&map, &change);
    }

    /// A Secret with valid registry credentials.
    pub fn secret(&self, name: &str) -> Value {
        let logins = self.node.registry().docker_config().to_string();
        json!({ "apiVersion": "v1", "kind": "Secret", "type": "kubernetes.io/dockerconfigjson",
            "metadata": { "name": name }, "stringData": { ".dockerconfigjson": logins } })
    }

    /// Creates an object, or finds one that has all of it.
    #[track_caller]
    pub fn make(&self, collection: &str, object: &Value) {
        let (code, answer) = self.proxy.api().write("POST", collection, object);
        assert!([200, 201].contains(&code), "{code} {object:#} {answer:#}");
    }

    #[track_caller]
    pub fn change(&self, object: &str, change: &Value) {
        let (code, answer) = self.proxy.api().ask("PATCH", object, Some(change));
        assert_eq!(code, 200, "{object} {change:#} {answer:#}");
    }

    pub fn delete(&self, object: &str) {
        let (code, answer) = self.proxy.api().ask("DELETE", object, None);
        assert!([200, 202, 404].contains(&code), "{object} {answer:#}");
    }

    /// All objects of a collection, from a cache that may be slightly out of date.
    #[track_caller]
    pub fn all(&self, collection: &str) -> Vec<Value> {
        self.objects.all(collection)
    }

    /// Creates a pool with the rendered config of this number.
    pub fn pool(&self, pool: &str, number: u32) {
        self.pool_on(pool, number, &self.base);
    }

    /// Creates a pool with its own base image.
    pub fn pool_on(&self, pool: &str, number: u32, base: &str) {
        let object = json!({ "apiVersion": API, "kind": "MachineConfigPool", "metadata": { "name": pool },
            "spec": { "nodeSelector": { "matchLabels": { "kubernetes.io/os": "linux" } } } });
        self.make(&ours("machineconfigpools", ""), &object);
        self.renders_on(pool, number, base);
    }

    /// Gives a pool another rendered config. Configs with different numbers differ in one file.
    pub fn renders(&self, pool: &str, number: u32) {
        self.renders_on(pool, number, &self.base);
    }

    fn renders_on(&self, pool: &str, number: u32, base: &str) {
        let file =
            json!({ "path": "/etc/story", "contents": { "source": format!("data:,{number}") } });
        let ignition =
            json!({ "ignition": { "version": "3.5.0" }, "storage": { "files": [file] } });
        self.wants_on(pool, &format!("rendered-{pool}-{number:032x}"), &ignition, base);
    }

    /// Gives a pool a rendered config with any Ignition config.
    pub fn wants(&self, pool: &str, rendered: &str, ignition: &Value) {
        self.wants_on(pool, rendered, ignition, &self.base);
    }

    fn wants_on(&self, pool: &str, rendered: &str, ignition: &Value, base: &str) {
        let config = json!({ "apiVersion": API, "kind": "MachineConfig",
            "metadata": { "name": rendered, "annotations": {
                format!("{M}/generated-by-controller-version"): "test",
                format!("{M}/release-image-version"): "4.20.0" } },
            "spec": { "osImageURL": base, "config": ignition, "kernelArguments": [], "extensions": [], "fips": false,
                "kernelType": "default", "baseOSExtensionsContainerImage": "" } });
        self.make(&ours("machineconfigs", ""), &config);
        let change = json!({ "spec": { "configuration": { "name": rendered } } });
        self.change(&ours("machineconfigpools", pool), &change);
    }

    /// A MachineOSConfig for a pool.
    pub fn config(&self, pool: &str) -> Value {
        let builder = if pool.starts_with(ALONE) { "custom-pod-builder" } else { "Job" };
        json!({ "apiVersion": API, "kind": "MachineOSConfig",
            "metadata": { "name": pool, "annotations": { "mosb.dev/builder": builder } },
            "spec": { "machineConfigPool": { "name": pool }, "imageBuilder": { "imageBuilderType": "Job" },
                "renderedImagePushSecret": { "name": "push" },
                "renderedImagePushSpec": format!("{}:latest", self.push) } })
    }

    pub fn controller(&self) -> Daemon {
        self.controller_with(&[])
    }

    /// Starts a controller with additional arguments.
    pub fn controller_with(&self, arguments: &[&str]) -> Daemon {
        self.forget_lease();
        self.begin_controller(&self.proxy, arguments, &[])
    }

    /// Deletes the Lease, so that the next controller does not wait until the Lease of a killed one
    /// expires.
    pub fn forget_lease(&self) {
        self.delete(&lease());
    }

    /// The objects of a kind that any controller created for a pool.
    pub fn created(&self, pool: &str, kind: &str) -> Vec<Value> {
        let proxies = [&self.proxy, &self.other].into_iter();
        let all = proxies.flat_map(|proxy| proxy.created(pool, kind));
        all.collect()
    }

    /// Starts a controller with its own proxy and additional environment variables. It waits while
    /// another one holds the Lease.
    pub fn another_controller(&self, proxy: &ApiProxy, environment: &[(&str, &str)]) -> Daemon {
        self.begin_controller(proxy, &[], environment)
    }

    fn begin_controller(
        &self,
        proxy: &ApiProxy,
        arguments: &[&str],
        environment: &[(&str, &str)],
    ) -> Daemon {
        let folder = tempfile::tempdir_in(self.folder.path()).unwrap().keep();
        let kubeconfig = folder.join("kubeconfig");
        fs::write(&kubeconfig, proxy.kubeconfig().to_string()).unwrap();
        let mut command = lasting(mosb_tests::program());
        command
            .args(["controller", "--verbose", "--listen", "127.0.0.1:0"])
            .args(["--builder-image", "mosb.test/none:1"])
            .args(["--namespace", NAMESPACE, "--kubeconfig"])
            .arg(kubeconfig)
            .args(arguments)
            .env_clear()
            .env("PATH", "/usr/bin:/bin")
            .envs(environment.iter().copied());
        let listens = |line: &str| line.contains("listening on").then_some(());
        Daemon::start(command, listens).0
    }

    /// Ends each runner that has started, once; `ended` holds the UIDs of those.
    pub fn kubelet(&self, runners: &[Value], ended: &mut BTreeSet<String>) {
        for started in kubelet::started_runners(self, runners, |uid| !ended.contains(uid)) {
            let end = match started.number {
                ends::NEVER => None,
                ends::LOST if started.is_first => Some(End::Evicted),
                ends::FAILS => Some(End::Failed),
                ends::TWO => Some(End::Made(1)),
                ends::TREE => Some(End::MadeWithTree(0)),
                ends::PREPARED => Some(End::MadeWithPrepared(0)),
                _ => Some(End::Made(0)),
            };
            if end.is_none_or(|end| started.ends(self, end)) {
                ended.insert(started.uid().to_owned());
            }
        }
    }
}

/// The path of the controllers' Lease.
pub fn lease() -> String {
    format!("/apis/coordination.k8s.io/v1/namespaces/{NAMESPACE}/leases/mosb-controller")
}

/// The path of a collection in the namespace [`NAMESPACE`].
pub fn in_namespace(kind: &str) -> String {
    let group = match kind {
        "jobs" => "/apis/batch/v1",
        "roles" | "rolebindings" => "/apis/rbac.authorization.k8s.io/v1",
        _ => "/api/v1",
    };
    format!("{group}/namespaces/{NAMESPACE}/{kind}")
}

/// The path of a collection of the machine configuration API, or of an object in it.
pub fn ours(kind: &str, name: &str) -> String {
    let slash = if name.is_empty() { "" } else { "/" };
    format!("/apis/{API}/{kind}{slash}{name}")
}

pub fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

/// A condition of an object, if its status is true.
pub fn condition<'a>(object: &'a Value, kind: &str) -> Option<&'a Value> {
    let conditions = object["status"]["conditions"].as_array();
    let mut conditions = conditions.into_iter().flatten();
    conditions.find(|one| one["type"] == kind && one["status"] == "True")
}
