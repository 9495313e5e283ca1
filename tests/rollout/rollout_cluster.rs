//! mosb on the lab: the objects of `deploy/rollout` with the controller in its pod, a pool of all
//! machines, and an observer.

use std::time::{Duration, Instant};

use serde_json::{Value, json};

use mosb_tests::{Finished, Lab, Node, finish, limited};

use crate::observer::{Observer, Seen};
use crate::{controller_pod, slot_times};

#[path = "../demo/cluster/objects.rs"]
#[expect(dead_code, reason = "the demo uses the rest")]
pub mod objects;
use objects::{objects, os_config};

pub const POOL: &str = "machineconfigpool/worker";
pub const CONFIG: &str = "machineosconfig/worker";
pub const STATE: &str = "machineconfiguration.openshift.io/state";
pub const REASON: &str = "machineconfiguration.openshift.io/reason";
pub const NODE_JOBS: &str = "mosb-rollout";
pub const WORKER: &str = "node-role.kubernetes.io/worker";
/// A build, or a roll-out to three machines, on a busy machine.
const LIMIT: Duration = Duration::from_secs(400);

/// The machines of a lab in one pool, and the controller.
pub struct RolloutCluster<'l> {
    pub lab: &'l Lab,
    observer: Observer,
}

impl<'l> RolloutCluster<'l> {
    pub fn start(lab: &'l Lab) -> Self {
        let node = lab.node();
        node.install_kinds();
        for machine in lab.machines() {
            node.kubectl(&["label", "node", machine.name(), &format!("{WORKER}=")]).ok();
        }
        step("the controller", || {
            controller_pod::install(node);
            for object in objects(node, &lab.stock().reference) {
                node.apply(&adapted(object, node).to_string());
            }
            controller_pod::wait_ready(node)
        });
        node.apply(&machine_config("first", &[]).to_string());
        node.apply(&os_config(node).to_string());
        Self { lab, observer: Observer::start(lab) }
    }

    pub fn node(&self) -> &Node {
        self.lab.node()
    }

    pub fn annotate(&self, what: &str, annotation: &str) {
        self.node().kubectl(&["annotate", what, annotation, "--overwrite"]).ok();
    }

    /// `mosb`, as an administrator runs it.
    pub fn mosb(&self, line: &str) -> Finished {
        let mut command = limited(mosb_tests::program());
        command.args(line.split_whitespace()).arg("--kubeconfig").arg(self.node().kubeconfig());
        finish(command.env_clear().env("PATH", "/usr/bin:/bin"), &[])
    }

    /// Changes the settings of the cluster.
    pub fn change_settings(&self, change: impl FnOnce(&mut Value)) {
        let found = self.node().api().find(Some(objects::NAMESPACE), "configmap", "mosb-config");
        let mut map = found.unwrap();
        let text = map["data"]["config.yaml"].as_str().unwrap();
        let mut settings: Value = serde_json::from_str(text).unwrap();
        change(&mut settings);
        map["data"]["config.yaml"] = settings.to_string().into();
        map["metadata"] = json!({ "name": "mosb-config", "namespace": objects::NAMESPACE });
        self.node().apply(&map.to_string());
    }

    pub fn patch_pool(&self, spec: Value) {
        let change = json!({ "spec": spec }).to_string();
        self.node().kubectl(&["patch", POOL, "--type=merge", "--patch", &change]).ok();
    }

    /// Changes the content of the pool's file; the digest of the image that follows.
    pub fn change(&self, content: &str) -> String {
        let before = self.image_in_service();
        self.node().apply(&machine_config(content, &[]).to_string());
        self.wait(CONFIG, |_| self.image_in_service() != before);
        self.image_in_service()
    }

    /// Gives the pool a MachineConfig with these files; the digest of the image that follows.
    pub fn change_files(&self, name: &str, files: &[Value]) -> String {
        let before = self.image_in_service();
        let config = json!({
            "apiVersion": "machineconfiguration.openshift.io/v1", "kind": "MachineConfig",
            "metadata": { "name": name, "labels": { "machineconfiguration.openshift.io/role": "worker" } },
            "spec": { "config": { "ignition": { "version": "3.5.0" }, "storage": { "files": files } } },
        });
        self.node().apply(&config.to_string());
        self.wait(CONFIG, |_| self.image_in_service() != before);
        self.image_in_service()
    }

    /// Moves the pool to another base; the digest of the image that follows.
    pub fn change_base(&self, base: &str) -> String {
        let before = self.image_in_service();
        let change = json!({ "spec": { "osImageURL": base } }).to_string();
        let patch = ["patch", "machineconfig/00-worker", "--type=merge", "--patch", &change];
        self.node().kubectl(&patch).ok();
        self.wait(CONFIG, |_| self.image_in_service() != before);
        self.image_in_service()
    }

    /// Gives `core` this key; the content of the pool's file is this one.
    pub fn set_key(&self, content: &str, key: &str) {
        self.node().apply(&machine_config(content, &[key]).to_string());
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
        let machines = self.lab.machines().len();
        assert!(counts.iter().all(|field| status[field] == machines), "{status:#}");
        for machine in self.lab.machines() {
            assert_eq!(machine.booted_digest(), digest, "{}", machine.name());
            let node = self.node().get(&format!("node/{}", machine.name()));
            assert_eq!(node["spec"]["unschedulable"], Value::Null, "{node:#}");
            assert_eq!(mark(&node, "mosb.dev/slot"), "", "{node:#}");
        }
    }

    /// How many boots of each machine the observer saw since the last call, without the one that
    /// ran then; and how many machines were unavailable at once at most. Prints how long each part
    /// of the slots took that have ended, and checks what mosb added.
    pub fn seen(&self) -> (Vec<usize>, usize) {
        let Seen { most_unavailable, unavailable, boots, slots } = self.observer.take();
        for (machine, why) in unavailable {
            println!("{machine} was unavailable last with {why}");
        }
        if !slots.is_empty() {
            slot_times::check(self.lab, &slots);
        }
        let boots = self.lab.machines().iter().map(|machine| {
            let boots = boots.get(machine.name()).map_or(0, |boots| boots.len());
            boots.saturating_sub(1)
        });
        (boots.collect(), most_unavailable)
    }

    /// Jobs and Secrets of the roll-out that exist.
    pub fn left_over(&self) -> Vec<Value> {
        let found = self.node().api().list(Some(NODE_JOBS), "jobs,secrets", "");
        found.into_iter().filter(|one| one["type"] != "kubernetes.io/dockerconfigjson").collect()
    }
}

/// Prints what is needed to understand a wait that panics.
struct Printed<'c>(&'c RolloutCluster<'c>);

impl Drop for Printed<'_> {
    fn drop(&mut self) {
        println!("{}", controller_pod::log(self.0.node()));
        for what in [&[][..], &["-n", NODE_JOBS]] {
            let list = ["get", "nodes,pods,jobs", "-o", "wide"];
            println!("{}", self.0.node().kubectl(&[&list[..], what].concat()).text());
        }
        let pool = ["get", POOL, "-o", "jsonpath={.status}"];
        println!("{}", self.0.node().kubectl(&pool).text());
    }
}

/// One file in place of the demo's whole configuration, a login that only pulls, and that one for the
/// image of build pods, too.
fn adapted(mut object: Value, node: &Node) -> Value {
    if object["metadata"]["name"] == "global-pull-secret-copy" {
        let login = node.registry().pull_config().to_string();
        object["stringData"][".dockerconfigjson"] = login.into();
    }
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

fn machine_config(content: &str, keys: &[&str]) -> Value {
    let source = format!("data:,{content}");
    let file = json!({ "path": "/etc/story", "mode": 420, "contents": { "source": source } });
    let user = json!({ "name": "core", "sshAuthorizedKeys": keys });
    json!({
        "apiVersion": "machineconfiguration.openshift.io/v1", "kind": "MachineConfig",
        "metadata": { "name": "50-story", "labels": { "machineconfiguration.openshift.io/role": "worker" } },
        "spec": { "config": { "ignition": { "version": "3.5.0" },
            "passwd": { "users": [user] }, "storage": { "files": [file] } } },
    })
}

pub fn mark<'n>(object: &'n Value, key: &str) -> &'n str {
    object["metadata"]["annotations"][key].as_str().unwrap_or_default()
}

/// The status of a condition; empty if there is none.
pub fn condition<'p>(pool: &'p Value, kind: &str) -> &'p str {
    condition_field(pool, kind, "status")
}

pub fn condition_message<'p>(pool: &'p Value, kind: &str) -> &'p str {
    condition_field(pool, kind, "message")
}

fn condition_field<'p>(pool: &'p Value, kind: &str, field: &str) -> &'p str {
    let conditions = pool["status"]["conditions"].as_array();
    let found = conditions.and_then(|all| all.iter().find(|one| one["type"] == kind));
    found.and_then(|one| one[field].as_str()).unwrap_or_default()
}

/// Runs it, and prints how long it took.
pub fn step<T>(what: &str, act: impl FnOnce() -> T) -> T {
    let began = Instant::now();
    let result = act();
    println!("{what}: {:.1} s", began.elapsed().as_secs_f64());
    result
}
