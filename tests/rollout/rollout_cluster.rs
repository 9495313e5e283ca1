//! mosb on the lab: the objects of `deploy/rollout`, a pool of all machines, and an observer.
//!
//! The controller runs beside the cluster, with the token of the account that the overlay gives the
//! rights to. Everything else is real but for what the [lab](mosb_tests::Lab) names: builds, Jobs,
//! drains and reboots.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use mosb_tests::{
    Api, Daemon, FixtureGuard, Lab, Node, finish, lasting, limited, mosb_image, repository,
};

use crate::test_lab::lab;

#[path = "../demo/cluster/objects.rs"]
#[expect(dead_code, reason = "the demo uses the rest")]
mod objects;
use objects::{NAMESPACE, objects, os_config};

pub const POOL: &str = "machineconfigpool/worker";
pub const CONFIG: &str = "machineosconfig/worker";
pub const STATE: &str = "machineconfiguration.openshift.io/state";
pub const REASON: &str = "machineconfiguration.openshift.io/reason";
const NODE_JOBS: &str = "mosb-rollout";
const WORKER: &str = "node-role.kubernetes.io/worker";
/// A build, or a roll-out to three machines, on a busy machine.
const LIMIT: Duration = Duration::from_secs(400);
/// How often the observer looks at all nodes.
const INTERVAL: Duration = Duration::from_millis(100);

/// Three machines of one pool, and the controller.
pub struct RolloutCluster {
    pub lab: FixtureGuard<Lab>,
    controller: Daemon,
    observer: Observer,
}

impl RolloutCluster {
    pub fn start() -> Self {
        let lab = lab();
        let node = lab.node();
        node.install_kinds();
        node.registry().push(&format!("oci-archive:{}", mosb_image().display()), "acme/mosb:dev");
        let overlay = repository().join("deploy/rollout");
        let text = node.kubectl(&["kustomize", overlay.to_str().unwrap()]).ok().text();
        for object in text.split("\n---\n") {
            let object: Value = serde_saphyr::from_str(object).unwrap();
            if object["kind"] != "Deployment" {
                node.apply(&object.to_string());
            }
        }
        pull_with_login(node);
        for machine in lab.machines() {
            node.kubectl(&["label", "node", machine.name(), &format!("{WORKER}=")]).ok();
        }
        for object in objects(node, &lab.stock().reference) {
            node.apply(&adapted(object).to_string());
        }
        node.apply(&machine_config("first").to_string());
        node.apply(&os_config(node).to_string());
        let controller = controller(node);
        let observer = Observer::start(node.another_api());
        Self { lab, controller, observer }
    }

    pub fn node(&self) -> &Node {
        self.lab.node()
    }

    pub fn annotate(&self, what: &str, annotation: &str) {
        self.node().kubectl(&["annotate", what, annotation, "--overwrite"]).ok();
    }

    pub fn patch_pool(&self, spec: Value) {
        let change = json!({ "spec": spec }).to_string();
        self.node().kubectl(&["patch", POOL, "--type=merge", "--patch", &change]).ok();
    }

    /// Changes the content of the pool's file; the digest of the image that follows.
    pub fn change(&self, content: &str) -> String {
        let before = self.image_in_service();
        self.node().apply(&machine_config(content).to_string());
        self.wait(CONFIG, |_| self.image_in_service() != before);
        self.image_in_service()
    }

    /// The digest of the image in service, once there is one.
    pub fn image(&self) -> String {
        self.wait(CONFIG, |_| !self.image_in_service().is_empty());
        self.image_in_service()
    }

    fn image_in_service(&self) -> String {
        let config = self.node().get(CONFIG);
        let image = config["status"]["currentImagePullSpec"].as_str().unwrap_or_default();
        image.rsplit_once('@').map(|(_, digest)| digest.to_owned()).unwrap_or_default()
    }

    /// The build in service, as a pin names it.
    pub fn pin(&self) -> String {
        let config = self.node().get(CONFIG);
        let build = config["status"]["machineOSBuild"]["name"].as_str().unwrap().to_owned();
        format!("{build}@{}", self.image_in_service())
    }

    pub fn wait(&self, what: &str, fits: impl Fn(&Value) -> bool) -> Value {
        let log = Printed(self);
        let found = self.node().wait(what, LIMIT, fits);
        std::mem::forget(log);
        found
    }

    /// Waits until every machine booted this image and the pool is Updated.
    pub fn wait_updated(&self, digest: &str) {
        let pool = self.wait(POOL, |pool| {
            condition(pool, "Updated") == "True"
                && self.lab.machines().iter().all(|one| {
                    let node = self.node().get(&format!("node/{}", one.name()));
                    let image = mark(&node, "machineconfiguration.openshift.io/currentImage");
                    image.ends_with(digest) && mark(&node, STATE) == "Done"
                })
        });
        let status = &pool["status"];
        let counts = ["machineCount", "updatedMachineCount", "readyMachineCount"];
        assert!(counts.iter().all(|field| status[field] == 3), "{status:#}");
        for machine in self.lab.machines() {
            assert_eq!(machine.booted_digest(), digest, "{}", machine.name());
            let node = self.node().get(&format!("node/{}", machine.name()));
            assert_eq!(node["spec"]["unschedulable"], Value::Null, "{node:#}");
            assert_eq!(mark(&node, "mosb.dev/slot"), "", "{node:#}");
        }
    }

    /// How many boots of each machine the observer saw since the last call, without the one that
    /// ran then; and how many machines were unavailable at once at most.
    pub fn seen(&self) -> (Vec<usize>, usize) {
        let most = self.observer.most_unavailable.swap(0, Ordering::Relaxed);
        let mut seen = self.observer.boots.lock().unwrap();
        let boots = self.lab.machines().iter().map(|machine| {
            let boots = seen.remove(machine.name()).unwrap_or_default();
            boots.len().saturating_sub(1)
        });
        (boots.collect(), most)
    }

    /// Jobs and Secrets of the roll-out that exist.
    pub fn left_over(&self) -> Vec<Value> {
        let found = self.node().api().list(Some(NODE_JOBS), "jobs,secrets", "");
        found.into_iter().filter(|one| one["type"] != "kubernetes.io/dockerconfigjson").collect()
    }
}

/// Prints what is needed to understand a wait that panics.
struct Printed<'c>(&'c RolloutCluster);

impl Drop for Printed<'_> {
    fn drop(&mut self) {
        println!("{}", self.0.controller.log());
        for what in [&[][..], &["-n", NODE_JOBS]] {
            let list = ["get", "nodes,pods,jobs", "-o", "wide"];
            println!("{}", self.0.node().kubectl(&[&list[..], what].concat()).text());
        }
        let pool = ["get", POOL, "-o", "jsonpath={.status}"];
        println!("{}", self.0.node().kubectl(&pool).text());
    }
}

/// The registry wants a login for the image of mosb.
fn pull_with_login(node: &Node) {
    let secret = json!({
        "apiVersion": "v1", "kind": "Secret", "type": "kubernetes.io/dockerconfigjson",
        "metadata": { "name": "image-pull", "namespace": NODE_JOBS },
        "stringData": { ".dockerconfigjson": node.registry().pull_config().to_string() },
    });
    node.apply(&secret.to_string());
    let patch = json!({ "imagePullSecrets": [{ "name": "image-pull" }] }).to_string();
    let account = ["patch", "serviceaccount/default", "--namespace", NODE_JOBS, "--patch", &patch];
    let patched = || node.kubectl(&account).status.success().then_some(());
    mosb_tests::wait("the account of the namespace", LIMIT, patched);
}

/// One file in place of the demo's whole configuration, and a login for the image of build pods.
fn adapted(mut object: Value) -> Value {
    if object["kind"] == "MachineConfig" {
        object["spec"]["config"] = json!({ "ignition": { "version": "3.5.0" } });
        for field in ["kernelArguments", "extensions", "kernelType"] {
            object["spec"].as_object_mut().unwrap().remove(field);
        }
    }
    if object["kind"] == "ConfigMap" {
        let text = object["data"]["config.yaml"].as_str().unwrap();
        let mut settings: Value = serde_json::from_str(text).unwrap();
        settings["job"] = json!({ "imagePullSecrets": ["global-pull-secret-copy"] });
        object["data"]["config.yaml"] = json!(settings.to_string());
    }
    object
}

fn machine_config(content: &str) -> Value {
    let source = format!("data:,{content}");
    let file = json!({ "path": "/etc/story", "mode": 420, "contents": { "source": source } });
    json!({
        "apiVersion": "machineconfiguration.openshift.io/v1", "kind": "MachineConfig",
        "metadata": { "name": "50-story", "labels": { "machineconfiguration.openshift.io/role": "worker" } },
        "spec": { "config": { "ignition": { "version": "3.5.0" }, "storage": { "files": [file] } } },
    })
}

fn controller(node: &Node) -> Daemon {
    let words = ["create", "token", "mosb-controller", "--namespace", NAMESPACE];
    let token = node.kubectl(&words).ok().text();
    let admin = std::fs::read_to_string(node.kubeconfig()).unwrap();
    let mut config: Value = serde_json::from_str(&admin).unwrap();
    config["users"][0]["user"] = json!({ "token": token.trim() });
    let file = node.kubeconfig().with_file_name("rollout-controller");
    std::fs::write(&file, config.to_string()).unwrap();
    let mut inspect = limited("skopeo");
    inspect
        .args(["inspect", "--format", "{{.Digest}}", "--authfile"])
        .arg(node.registry().authfile())
        .arg("--cert-dir")
        .arg(node.registry().certificates())
        .arg(format!("docker://{}", node.registry().repository("acme/mosb:dev")));
    let digest = finish(&mut inspect, &[]).ok().text().trim().to_owned();
    let image = node.registry().repository(&format!("acme/mosb@{digest}"));
    let mut command = lasting(mosb_tests::program());
    command
        .args(["controller", "--render", "--rollout", "--verbose", "--builder-image", &image])
        .args(["--listen", "127.0.0.1:0", "--namespace", NAMESPACE, "--kubeconfig"])
        .arg(file)
        .env_clear()
        .env("PATH", "/usr/bin:/bin")
        .env("POD_NAME", "rollout-controller");
    let listens = |line: &str| line.contains("listening on").then_some(());
    Daemon::start(command, listens).0
}

/// The boots that each node reported.
type Boots = BTreeMap<String, BTreeSet<String>>;

/// Watches all nodes while a story runs.
struct Observer {
    most_unavailable: Arc<AtomicUsize>,
    boots: Arc<Mutex<Boots>>,
    stopped: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Observer {
    fn start(api: Api) -> Self {
        let most_unavailable = Arc::new(AtomicUsize::new(0));
        let boots = Arc::<Mutex<Boots>>::default();
        let stopped = Arc::new(AtomicBool::new(false));
        let thread = thread::spawn({
            let (most, boots, stopped) =
                (Arc::clone(&most_unavailable), Arc::clone(&boots), Arc::clone(&stopped));
            move || {
                while !stopped.load(Ordering::Relaxed) {
                    let nodes = api.list(None, "nodes", WORKER);
                    let unavailable = nodes.iter().filter(|node| is_unavailable(node)).count();
                    most.fetch_max(unavailable, Ordering::Relaxed);
                    let mut boots = boots.lock().unwrap();
                    for node in &nodes {
                        let name = node["metadata"]["name"].as_str().unwrap().to_owned();
                        let boot = node["status"]["nodeInfo"]["bootID"].as_str().unwrap();
                        boots.entry(name).or_default().insert(boot.to_owned());
                    }
                    drop(boots);
                    thread::sleep(INTERVAL);
                }
            }
        });
        Self { most_unavailable, boots, stopped, thread: Some(thread) }
    }
}

impl Drop for Observer {
    fn drop(&mut self) {
        self.stopped.store(true, Ordering::Relaxed);
        let ended = self.thread.take().map(JoinHandle::join);
        if !thread::panicking() {
            ended.unwrap().unwrap();
        }
    }
}

fn is_unavailable(node: &Value) -> bool {
    node["spec"]["unschedulable"] == true || !mosb_tests::condition(node, "Ready")
}

pub fn mark<'n>(object: &'n Value, key: &str) -> &'n str {
    object["metadata"]["annotations"][key].as_str().unwrap_or_default()
}

pub fn condition<'p>(pool: &'p Value, kind: &str) -> &'p str {
    let conditions = pool["status"]["conditions"].as_array();
    let found = conditions.and_then(|all| all.iter().find(|one| one["type"] == kind));
    found.and_then(|one| one["status"].as_str()).unwrap_or_default()
}

/// Runs it, and prints how long it took.
pub fn step<T>(what: &str, act: impl FnOnce() -> T) -> T {
    let began = Instant::now();
    let result = act();
    println!("{what}: {:.1} s", began.elapsed().as_secs_f64());
    result
}
