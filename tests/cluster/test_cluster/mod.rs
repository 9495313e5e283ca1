//! What the tests of the controller share: a pool, its configs, what mosb needs beside them, and
//! the program itself, which runs outside of the cluster with a kubeconfig.

pub mod build_pod;
mod waits;

use std::collections::BTreeSet;
use std::io::Read;
use std::path::Path;
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use flate2::read::GzDecoder;
use serde_json::{Value, json};

use mosb_tests::{
    Daemon, Finished, FixtureGuard, FixturePool, MOSB_IMAGE, Namespace, Node, base_image,
    condition, finish, lasting, limited, mosb_image, programs, run, wait,
};

/// A build on a busy machine.
pub const BUILD: Duration = Duration::from_secs(600);
/// Instructions that end a build.
pub const FAILS: &str = "FROM configs AS final\nRUN echo what went wrong >&2; exit 7\n";
/// What needs no pod.
pub const SOON: Duration = Duration::from_secs(120);

/// A pool that no other test uses, and a namespace for everything of mosb.
pub struct Cluster {
    pub node: &'static Node,
    pub namespace: Namespace<'static>,
    pub pool: String,
    /// Where images go, without a tag.
    pub push: String,
    controller: Option<Daemon>,
    // Let go last: a controller looks at the pools of all tests, so a node has one at a time.
    _turn: FixtureGuard<&'static Node>,
    generation: AtomicU32,
}

impl Cluster {
    /// On a node that no other test has meanwhile.
    pub fn new(name: &str) -> Self {
        // A test that failed leaves nothing behind that matters here.
        static NODES: FixturePool<&Node> = FixturePool::new(4, a_node);
        let turn = NODES.acquire();
        let node = *turn;
        let namespace = Namespace::new(node, name);
        let pool = namespace.name.clone();
        let push = node.registry().repository(&pool);
        let cluster = Self {
            node,
            namespace,
            pool,
            push,
            controller: None,
            _turn: turn,
            generation: AtomicU32::new(0),
        };
        cluster.secret("push", &node.registry().docker_config());
        cluster.secret("global-pull-secret-copy", &node.registry().pull_config());
        cluster.settings(&json!({}));
        cluster.create_pool(&cluster.pool);
        cluster
    }

    /// Creates a pool of all nodes.
    pub fn create_pool(&self, name: &str) {
        let pool = json!({ "apiVersion": API, "kind": "MachineConfigPool", "metadata": { "name": name },
            "spec": { "nodeSelector": { "matchLabels": { "kubernetes.io/os": "linux" } } } });
        self.node.apply(&pool.to_string());
    }

    pub fn secret(&self, name: &str, docker_config: &Value) {
        let secret = json!({ "apiVersion": "v1", "kind": "Secret", "type": "kubernetes.io/dockerconfigjson",
            "metadata": { "name": name }, "stringData": { ".dockerconfigjson": docker_config.to_string() } });
        self.namespace.apply(&secret.to_string());
    }

    /// The settings of the cluster, with these for Jobs.
    pub fn settings(&self, job: &Value) {
        self.settings_with(&json!({ "job": job }));
    }

    /// The settings of the cluster, with these.
    pub fn settings_with(&self, more: &Value) {
        let registry = self.node.registry();
        let mut settings =
            json!({ "imageRegistryBundles": { &registry.host_port: registry.ca_pem } });
        let more = more.as_object().unwrap().clone();
        settings.as_object_mut().unwrap().extend(more);
        self.config_map("mosb-config", &json!({ "config.yaml": settings.to_string() }));
    }

    pub fn config_map(&self, name: &str, data: &Value) {
        let map = json!({ "apiVersion": "v1", "kind": "ConfigMap", "metadata": { "name": name }, "data": data });
        self.namespace.apply(&map.to_string());
    }

    /// Gives the pool another rendered config: with a file of this content.
    pub fn render(&self, content: &str) -> String {
        self.render_on(&base_name(self.node), content)
    }

    /// The same, on another base.
    pub fn render_on(&self, base: &str, content: &str) -> String {
        let file = json!({ "path": "/etc/story", "mode": 420, "contents": { "source": format!("data:,{content}") } });
        self.render_files(base, &[file])
    }

    /// The same, with these files.
    pub fn render_files(&self, base: &str, files: &[Value]) -> String {
        let number = self.generation.fetch_add(1, Ordering::Relaxed);
        let name = format!("rendered-{}-{number:032x}", self.pool);
        let config = json!({ "apiVersion": API, "kind": "MachineConfig",
            "metadata": { "name": name, "annotations": {
                "machineconfiguration.openshift.io/generated-by-controller-version": "test",
                "machineconfiguration.openshift.io/release-image-version": "4.20.0" } },
            "spec": { "osImageURL": base, "config": {
                "ignition": { "version": "3.5.0" },
                "storage": { "files": files } },
                "kernelArguments": [], "extensions": [], "fips": false, "kernelType": "default",
                "baseOSExtensionsContainerImage": "" } });
        self.node.apply(&config.to_string());
        self.wants(&name);
        name
    }

    /// Makes the rendered config of another pool with the same content.
    pub fn rename(&self, rendered: &str, pool: &str) -> String {
        let mut config = self.node.get(&format!("machineconfig/{rendered}"));
        let name = rendered.replace(&self.pool, pool);
        let annotations = config["metadata"]["annotations"].clone();
        config["metadata"] = json!({ "name": name, "annotations": annotations });
        self.node.apply(&config.to_string());
        name
    }

    /// Gives the pool a rendered config that there is.
    pub fn wants(&self, rendered: &str) {
        self.pool_wants(&self.pool, rendered);
    }

    /// The same, for another pool.
    pub fn pool_wants(&self, pool: &str, rendered: &str) {
        let change = json!({ "spec": { "configuration": { "name": rendered } } });
        self.patch(&format!("machineconfigpool/{pool}"), &change);
    }

    pub fn patch(&self, what: &str, change: &Value) {
        let change = change.to_string();
        self.node.kubectl(&["patch", what, "--type=merge", "--patch", &change]).ok();
    }

    /// Asks for images with a MachineOSConfig, and these instructions.
    pub fn opt_in(&self, containerfile: Option<&str>) {
        self.opt_in_pool(&self.pool, containerfile);
    }

    /// The same, for another pool.
    pub fn opt_in_pool(&self, pool: &str, containerfile: Option<&str>) {
        let files =
            containerfile.map(|text| json!([{ "containerfileArch": "NoArch", "content": text }]));
        let config = json!({ "apiVersion": API, "kind": "MachineOSConfig", "metadata": { "name": pool },
            "spec": { "machineConfigPool": { "name": pool }, "imageBuilder": { "imageBuilderType": "Job" },
                "renderedImagePushSecret": { "name": "push" },
                "renderedImagePushSpec": format!("{}:latest", self.push),
                "containerFile": files.unwrap_or(json!([])) } });
        self.node.apply(&config.to_string());
    }

    /// The same, and that this runs the builds.
    pub fn opt_in_by(&self, builder: &str, containerfile: Option<&str>) {
        self.opt_in(containerfile);
        let by = json!({ "metadata": { "annotations": { "mosb.dev/builder": builder } } });
        self.patch(&format!("machineosconfig/{}", self.pool), &by);
    }

    /// Starts the controller.
    pub fn start(&mut self) {
        self.controller = Some(self.another_controller());
    }

    /// Starts the controller with the rights of this kubeconfig.
    pub fn start_with(&mut self, kubeconfig: &Path) {
        self.controller = Some(self.controller_with(kubeconfig));
    }

    /// A controller beside the one there is.
    pub fn another_controller(&self) -> Daemon {
        self.controller_with(&self.node.kubeconfig())
    }

    fn controller_with(&self, kubeconfig: &Path) -> Daemon {
        let mut command = lasting(mosb_tests::program());
        command
            .args(["controller", "--verbose", "--log-format", "json"])
            .args(["--builder-image", MOSB_IMAGE])
            .args(["--listen", "127.0.0.1:0", "--namespace"])
            .arg(&self.namespace.name)
            .arg("--kubeconfig")
            .arg(kubeconfig)
            .env_clear()
            .env("PATH", "/usr/bin:/bin");
        let listens = |line: &str| line.contains("listening on").then_some(());
        let (controller, ()) = Daemon::start(command, listens);
        controller
    }

    /// Ends it as the kubelet does.
    pub fn stop(&mut self) {
        let controller = self.controller.take().expect("it was started");
        run("kill", ["-TERM", &controller.pid.to_string()]);
        wait("the controller's end", SOON, || controller.has_ended().then_some(()));
    }

    /// The controller's log.
    pub fn log(&self) -> String {
        self.controller.as_ref().map(Daemon::log).unwrap_or_default()
    }

    /// `mosb` as a person calls it.
    pub fn mosb(&self, arguments: &[&str]) -> Finished {
        let command = limited(mosb_tests::program());
        finish(&mut self.with_words(command, arguments), &[])
    }

    /// The same, for a [`Daemon`].
    pub fn mosb_command(&self, arguments: &[&str]) -> Command {
        self.with_words(lasting(mosb_tests::program()), arguments)
    }

    fn with_words(&self, mut command: Command, arguments: &[&str]) -> Command {
        command
            .args(arguments)
            .arg("--kubeconfig")
            .arg(self.node.kubeconfig())
            .args(["--namespace", &self.namespace.name])
            .env_clear()
            .env("PATH", "/usr/bin:/bin");
        command
    }

    pub fn config(&self) -> Value {
        self.namespace.get(&format!("machineosconfig/{}", self.pool))
    }

    /// The builds of the pool, the oldest first.
    pub fn builds(&self) -> Vec<Value> {
        let mut builds = self.node.api().list(None, "machineosbuilds", &self.of_pool());
        let created = |build: &Value| build["metadata"]["creationTimestamp"].to_string();
        builds.sort_by_key(created);
        builds
    }

    /// The build that the MachineOSConfig names.
    #[track_caller]
    pub fn current(&self) -> Value {
        let config = self.config();
        let annotations = &config["metadata"]["annotations"];
        let name =
            annotations["machineconfiguration.openshift.io/current-machine-os-build"].as_str();
        let name = name.unwrap_or_else(|| panic!("{config:#}"));
        self.namespace.get(&format!("machineosbuild/{name}"))
    }

    /// The pods of the pool's builds.
    pub fn pods(&self) -> Vec<Value> {
        self.namespace.list_labelled("pods", &self.of_pool())
    }

    /// The label of what is made for the pool.
    fn of_pool(&self) -> String {
        format!("machineconfiguration.openshift.io/target-machine-config-pool={}", self.pool)
    }

    /// Evicts the pod of a build.
    pub fn evict(&self, build: &str) {
        let pods = self.namespace.list_labelled("pods", &of_build(build));
        let pod = pods[0]["metadata"]["name"].as_str().unwrap();
        let eviction = json!({ "apiVersion": "policy/v1", "kind": "Eviction", "metadata": { "name": pod, "namespace": self.namespace.name } });
        let path = format!("/api/v1/namespaces/{}/pods/{pod}/eviction", self.namespace.name);
        let (code, answer) = self.node.api().ask("POST", &path, Some(&eviction));
        assert_eq!(code, 201, "{answer:#}");
    }

    /// The message of a condition.
    pub fn message(&self, object: &Value, kind: &str) -> String {
        let conditions = object["status"]["conditions"].as_array().unwrap();
        let found = conditions.iter().find(|one| one["type"] == kind);
        found.unwrap()["message"].as_str().unwrap().to_owned()
    }

    /// What there is, for a failure.
    pub fn everything(&self) -> String {
        let all = self
            .namespace
            .kubectl(&["get", "jobs,pods,configmaps,secrets", "--output=wide"])
            .text();
        let builds = self.node.kubectl(&["get", "machineosbuilds", "--output=yaml"]).text();
        let pods = self.namespace.kubectl(&["describe", "pods"]).text();
        format!("{all}\n{builds}\n{pods}")
    }

    /// A file of an image, as its topmost layer has it.
    pub fn file(&self, image: &str, path: &str) -> String {
        let registry = self.node.registry();
        let (_, digest) = image.split_once('@').unwrap();
        let manifest: Value = serde_json::from_reader(registry.blob(digest)).unwrap();
        let mut layers = manifest["layers"].as_array().unwrap().iter().rev();
        let file = layers.find_map(|layer| {
            let blob = registry.blob(layer["digest"].as_str().unwrap());
            let is_zstd = layer["mediaType"].as_str().unwrap().ends_with("zstd");
            let unpacked: Box<dyn Read> = if is_zstd {
                Box::new(zstd::Decoder::new(blob).unwrap())
            } else {
                Box::new(GzDecoder::new(blob))
            };
            let mut tar = tar::Archive::new(unpacked);
            let mut members = tar.entries().unwrap().map(Result::unwrap);
            let name = Path::new(path.trim_start_matches('/'));
            let mut member = members.find(|member| member.path().unwrap() == name)?;
            let mut text = String::new();
            member.read_to_string(&mut text).unwrap();
            Some(text)
        });
        file.unwrap_or_else(|| panic!("{image} has no {path}"))
    }
}

/// The label of what serves a build.
fn of_build(build: &str) -> String {
    format!("machineconfiguration.openshift.io/machine-os-build={build}")
}

impl Drop for Cluster {
    fn drop(&mut self) {
        if std::thread::panicking() {
            println!("log of the controller:\n{}", self.log());
        }
        let delete = |what: &str| {
            self.node.kubectl(&["delete", what, &self.pool, "--wait=false", "--ignore-not-found"])
        };
        delete("machineosconfig");
        delete("machineconfigpool");
    }
}

const API: &str = "machineconfiguration.openshift.io/v1";

/// A node with what all of these tests use: the kinds, the program's image, and the base that
/// builds by Containerfile need too.
fn a_node() -> &'static Node {
    let node: &Node = Box::leak(Box::new(Node::start(&programs()).unwrap()));
    crds(node);
    let image = format!("oci-archive:{}", mosb_image().display());
    node.import(&image, MOSB_IMAGE);
    let base = base_image().reference("base");
    node.registry().push(&base, "story-base:12");
    node
}

fn crds(node: &Node) {
    let folder = mosb_tests::repository().join("deploy/crds");
    let folder = folder.to_str().unwrap();
    node.kubectl(&["apply", "--server-side", "--force-conflicts", "--kustomize", folder]).ok();
    for kind in ["machineconfigs", "machineconfigpools", "machineosconfigs", "machineosbuilds"] {
        let crd = format!("customresourcedefinition/{kind}.machineconfiguration.openshift.io");
        node.wait(&crd, SOON, |crd| condition(crd, "Established"));
    }
}

fn base_name(node: &Node) -> String {
    format!("{}:12", node.registry().repository("story-base"))
}

/// The condition of a build that is true.
pub fn state(build: &Value) -> String {
    let conditions = build["status"]["conditions"].as_array();
    let found = conditions.into_iter().flatten().find(|one| one["status"] == "True");
    found.map(|one| one["type"].as_str().unwrap().to_owned()).unwrap_or_default()
}
