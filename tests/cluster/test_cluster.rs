//! What the tests of the controller share: a pool, its configs, what mosb needs beside them, and
//! the program itself, which runs outside of the cluster with a kubeconfig.

use std::collections::BTreeSet;
use std::io::Read as _;
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
/// The events of type Warning.
const WARNINGS: [&str; 6] = [
    "BuildDegraded",
    "BuildFailed",
    "BuildInterrupted",
    "ConfigReconcileFailed",
    "JobFailed",
    "PreBuiltImageMissing",
];
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
        static NODES: FixturePool<&Node> = FixturePool::new(3, a_node);
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
        let pool = json!({ "apiVersion": API, "kind": "MachineConfigPool", "metadata": { "name": cluster.pool },
            "spec": { "nodeSelector": { "matchLabels": { "kubernetes.io/os": "linux" } } } });
        node.apply(&pool.to_string());
        cluster
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
        let number = self.generation.fetch_add(1, Ordering::Relaxed);
        let name = format!("rendered-{}-{number:032x}", self.pool);
        let config = json!({ "apiVersion": API, "kind": "MachineConfig",
            "metadata": { "name": name, "annotations": {
                "machineconfiguration.openshift.io/generated-by-controller-version": "test",
                "machineconfiguration.openshift.io/release-image-version": "4.20.0" } },
            "spec": { "osImageURL": base, "config": {
                "ignition": { "version": "3.5.0" },
                "storage": { "files": [{ "path": "/etc/story", "mode": 420, "contents": { "source": format!("data:,{content}") } }] } },
                "kernelArguments": [], "extensions": [], "fips": false, "kernelType": "default",
                "baseOSExtensionsContainerImage": "" } });
        self.node.apply(&config.to_string());
        self.wants(&name);
        name
    }

    /// Gives the pool a rendered config that there is.
    pub fn wants(&self, rendered: &str) {
        let change = json!({ "spec": { "configuration": { "name": rendered } } });
        self.patch(&format!("machineconfigpool/{}", self.pool), &change);
    }

    pub fn patch(&self, what: &str, change: &Value) {
        let change = change.to_string();
        self.node.kubectl(&["patch", what, "--type=merge", "--patch", &change]).ok();
    }

    /// Asks for images with a MachineOSConfig, and these instructions.
    pub fn opt_in(&self, containerfile: Option<&str>) {
        let files =
            containerfile.map(|text| json!([{ "containerfileArch": "NoArch", "content": text }]));
        let config = json!({ "apiVersion": API, "kind": "MachineOSConfig", "metadata": { "name": self.pool },
            "spec": { "machineConfigPool": { "name": self.pool }, "imageBuilder": { "imageBuilderType": "Job" },
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

    /// A controller beside the one there is.
    pub fn another_controller(&self) -> Daemon {
        let mut command = lasting(mosb_tests::program());
        command
            .args(["controller", "--verbose", "--log-format", "json"])
            .args(["--builder-image", MOSB_IMAGE])
            .args(["--listen", "127.0.0.1:0", "--namespace"])
            .arg(&self.namespace.name)
            .arg("--kubeconfig")
            .arg(self.node.kubeconfig())
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

    /// Waits until a container of the pool's build runs; the build's name.
    #[track_caller]
    pub fn building(&self) -> String {
        let running = || {
            let pod = self.pods().into_iter().find(|pod| {
                pod["metadata"]["deletionTimestamp"].is_null()
                    && pod["status"]["initContainerStatuses"][1]["state"].get("running").is_some()
            })?;
            let label =
                &pod["metadata"]["labels"]["machineconfiguration.openshift.io/machine-os-build"];
            let build = label.as_str().unwrap().to_owned();
            // The status follows.
            let found = self.node.find(&format!("machineosbuild/{build}"))?;
            (state(&found) == "Building").then_some(build)
        };
        wait("a build that runs", BUILD, running)
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

    /// Waits until something has another UID.
    #[track_caller]
    pub fn another(&self, uid: impl Fn() -> Option<String>, before: &str) {
        wait("another one", BUILD, || uid().filter(|uid| uid != before));
    }

    /// Waits until an object (`machineosbuild/x`, or in the namespace `job/x`) is gone.
    #[track_caller]
    pub fn wait_deleted(&self, what: &str) {
        wait(&format!("the end of {what}"), BUILD, || {
            self.namespace.find(what).is_none().then_some(())
        });
    }

    /// Waits until `mosb status` says this of the pool.
    #[track_caller]
    pub fn wait_status(&self, code: &str) {
        let wait_status = || {
            let status = self.mosb(&["status", &self.pool, "-o", "json"]).ok().json();
            (status["pools"][0]["reason"]["code"] == code).then_some(())
        };
        wait(&format!("mosb status to say {code}"), SOON, wait_status);
    }

    /// The message of a condition.
    pub fn message(&self, object: &Value, kind: &str) -> String {
        let conditions = object["status"]["conditions"].as_array().unwrap();
        let found = conditions.iter().find(|one| one["type"] == kind);
        found.unwrap()["message"].as_str().unwrap().to_owned()
    }

    /// Waits until events of these kinds and reasons were reported for objects of the pool: each
    /// with its type, and for a build none twice.
    #[track_caller]
    pub fn assert_events(&self, wanted: &[(&str, &str)]) {
        let all = || -> Vec<Value> {
            let mut events = self.node.api().list(Some("default"), "events", "");
            let name = |event: &Value| event["involvedObject"]["name"].as_str().map(str::to_owned);
            events.retain(|event| name(event).is_some_and(|name| name.starts_with(&self.pool)));
            events
        };
        let is = |event: &Value, (kind, reason): &(&str, &str)| {
            event["involvedObject"]["kind"] == *kind && event["reason"] == *reason
        };
        let events = wait(&format!("the events {wanted:?}"), SOON, || {
            let events = all();
            let is_there = |one| events.iter().any(|event| is(event, one));
            wanted.iter().all(is_there).then_some(events)
        });
        let mut seen = BTreeSet::new();
        for event in &events {
            let reason = event["reason"].as_str().unwrap();
            let kind = if WARNINGS.contains(&reason) { "Warning" } else { "Normal" };
            assert_eq!(event["type"], kind, "{event}");
            let on = &event["involvedObject"];
            let what = (on["uid"].to_string(), reason, event["message"].to_string());
            // The same build may be that of a MachineOSConfig again.
            let is_new = seen.insert(what) || on["kind"] != "MachineOSBuild";
            assert!(is_new, "reported twice: {event}");
        }
    }

    /// Waits until nothing that served a build is there but its logs; a pod that is being deleted
    /// has half a minute.
    #[track_caller]
    pub fn nothing_is_left_of(&self, build: &str) {
        let kinds = "jobs,pods,configmaps,secrets,serviceaccounts,roles,rolebindings";
        let log = format!("log-{build}");
        let nothing = || {
            let left = self.namespace.list_labelled(kinds, &of_build(build));
            left.iter().all(|one| one["metadata"]["name"] == *log).then_some(())
        };
        wait(&format!("everything of {build} to be gone"), BUILD, nothing);
    }

    /// What `mosb logs` has of a pod that is gone.
    #[track_caller]
    pub fn archived_logs(&self, of: &str) -> String {
        let archived = || {
            let logs = self.mosb(&["logs", of]);
            let archived = logs.stderr.contains("this is what was kept of attempt ");
            archived.then(|| logs.ok().text())
        };
        wait(&format!("the logs of {of} that were kept"), BUILD, archived)
    }

    /// Waits until the image in service is another than before; the image.
    #[track_caller]
    pub fn image_after(&self, before: &str) -> String {
        let limit = BUILD;
        let other = |config: &Value| {
            let image = config["status"]["currentImagePullSpec"].as_str();
            image.is_some_and(|image| !image.is_empty() && image != before)
        };
        let config = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            self.node.wait(&format!("machineosconfig/{}", self.pool), limit, other)
        }));
        match config {
            Ok(config) => config["status"]["currentImagePullSpec"].as_str().unwrap().to_owned(),
            Err(_) => {
                panic!("no image; log of the controller:\n{}\n{}", self.log(), self.everything())
            }
        }
    }

    /// Waits until the pool's condition `ImageBuildDegraded` has this reason.
    #[track_caller]
    pub fn wait_for_pool_condition(&self, reason: &str) -> Value {
        let wait_status = |pool: &Value| {
            let conditions = pool["status"]["conditions"].as_array().cloned().unwrap_or_default();
            conditions
                .iter()
                .any(|one| one["type"] == "ImageBuildDegraded" && one["reason"] == reason)
        };
        self.node.wait(&format!("machineconfigpool/{}", self.pool), BUILD, wait_status)
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
            let mut tar = tar::Archive::new(GzDecoder::new(blob));
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
