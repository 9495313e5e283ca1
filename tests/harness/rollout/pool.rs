//! A pool of a roll-out with machines of its own, so that many stories share a cluster.

use std::time::Duration;

use serde_json::{Value, json};

use super::cluster::RolloutCluster;
use super::limits::annotation;
use super::node_object::NewMachine;

const API: &str = "machineconfiguration.openshift.io/v1";
/// On a busy machine, and longer than the shortest `nodeTimeoutMinutes`.
const LIMIT: Duration = Duration::from_secs(420);
const CURRENT_BUILD: &str = "machineconfiguration.openshift.io/current-machine-os-build";

/// A pool, its MachineOSConfig and its machines, whose names are `NAME-0`, `NAME-1` and so on.
#[derive(Debug)]
pub struct RolloutPool<'c> {
    pub cluster: &'c RolloutCluster,
    pub name: String,
    pub machines: Vec<String>,
}

impl<'c> RolloutPool<'c> {
    /// A pool of this many machines, which run the stock image; nothing is rolled out.
    pub fn new(cluster: &'c RolloutCluster, name: &str, machines: usize) -> Self {
        let mut pool = Self { cluster, name: name.to_owned(), machines: Vec::new() };
        for _ in 0..machines {
            pool.join();
        }
        let role = format!("node-role.kubernetes.io/{name}");
        let selector = json!({ "matchLabels": { role: "" } });
        pool.write_content("first");
        cluster.node.apply(
            &json!({ "apiVersion": API, "kind": "MachineConfigPool",
            "metadata": { "name": name },
            "spec": { "nodeSelector": selector,
                "machineConfigSelector": { "matchLabels": pool.role() } } })
            .to_string(),
        );
        cluster.node.apply(&pool.os_config().to_string());
        pool
    }

    fn role(&self) -> Value {
        json!({ "machineconfiguration.openshift.io/role": self.name })
    }

    /// The MachineOSConfig, without annotations.
    pub fn os_config(&self) -> Value {
        let name = &self.name;
        let registry = self.cluster.node.registry();
        json!({ "apiVersion": API, "kind": "MachineOSConfig", "metadata": { "name": name },
            "spec": { "machineConfigPool": { "name": name },
                "imageBuilder": { "imageBuilderType": "Job" },
                "renderedImagePushSecret": { "name": "push" },
                "renderedImagePushSpec": registry.repository(&format!("acme/{name}-os:latest")) } })
    }

    /// Another machine joins.
    pub fn join(&mut self) -> String {
        let name = format!("{}-{}", self.name, self.machines.len());
        let stock = self.cluster.stock();
        self.cluster.machines.join(&NewMachine::new(&name, &self.name, &stock));
        self.machines.push(name.clone());
        name
    }

    fn write_content(&self, content: &str) {
        let source = format!("data:,{}-{content}", self.name);
        let file = json!({ "path": "/etc/story", "mode": 420, "contents": { "source": source } });
        let config = json!({ "apiVersion": API, "kind": "MachineConfig",
            "metadata": { "name": format!("50-{}", self.name), "labels": self.role() },
            "spec": { "osImageURL": self.cluster.base(), "config": {
                "ignition": { "version": "3.5.0" }, "storage": { "files": [file] } } } });
        self.cluster.node.apply(&config.to_string());
    }

    /// The digest of the image in service, once there is one.
    pub fn image(&self) -> String {
        self.image_after("none")
    }

    /// The digest of the image in service, once it is another one.
    pub fn image_after(&self, before: &str) -> String {
        let config = self.wait(&self.config(), |config| {
            let image = config["status"]["currentImagePullSpec"].as_str();
            image.is_some_and(|image| !image.is_empty() && !image.ends_with(before))
        });
        let image = config["status"]["currentImagePullSpec"].as_str().unwrap();
        image.rsplit_once('@').unwrap().1.to_owned()
    }

    /// Changes what the image contains; the digest of the image that follows.
    pub fn change(&self, content: &str) -> String {
        let before = self.image();
        self.write_content(content);
        self.image_after(&before)
    }

    /// Changes a file that machines can take on without a reboot; the digest of the image that follows.
    pub fn change_ca(&self, content: &str) -> String {
        let before = self.image();
        let path = "/etc/containers/certs.d/registry.example.com/ca.crt";
        let source = format!("data:,{}-{content}", self.name);
        let file = json!({ "path": path, "mode": 420, "contents": { "source": source } });
        let config = json!({ "apiVersion": API, "kind": "MachineConfig",
            "metadata": { "name": format!("60-{}", self.name), "labels": self.role() },
            "spec": { "config": {
                "ignition": { "version": "3.5.0" }, "storage": { "files": [file] } } } });
        self.cluster.node.apply(&config.to_string());
        self.image_after(&before)
    }

    /// Whether all machines have the files of this image, and the pool reports it.
    pub fn has_files(&self, digest: &str) -> bool {
        let pool = self.cluster.node.get(&format!("machineconfigpool/{}", self.name));
        Self::condition(&pool, "Updated") == "True"
            && self.machines.iter().all(|one| self.cluster.machines.get(one).files == digest)
    }

    /// The build in service, as a pin names it.
    pub fn pin(&self) -> String {
        let config = self.cluster.node.get(&self.config());
        format!("{}@{}", annotation(&config, CURRENT_BUILD), self.image())
    }

    /// A build in the history of a MachineOSConfig, as a pin names it.
    pub fn history_pin(config: &Value, digest: &str) -> String {
        let history: Vec<Value> =
            serde_json::from_str(annotation(config, "mosb.dev/history")).unwrap();
        let image = |entry: &&Value| entry["image"].as_str().unwrap().ends_with(digest);
        let entry = history.iter().find(image).unwrap();
        format!("{}@{digest}", entry["build"].as_str().unwrap())
    }

    /// `machineosconfig/NAME`
    pub fn config(&self) -> String {
        format!("machineosconfig/{}", self.name)
    }

    /// Sets an annotation of the MachineOSConfig, or removes it.
    #[track_caller]
    pub fn annotate(&self, key: &str, value: Option<&str>) {
        let patch = json!({ "metadata": { "annotations": { key: value } } });
        self.cluster.patch(&format!("machineosconfigs/{}", self.name), &patch);
    }

    /// Sets how far the image is brought.
    #[track_caller]
    pub fn set_mode(&self, mode: &str) {
        self.annotate("mosb.dev/rollout", Some(mode));
    }

    /// Changes the spec of the MachineConfigPool.
    #[track_caller]
    pub fn patch(&self, spec: Value) {
        let patch = json!({ "spec": spec });
        self.cluster.patch(&format!("machineconfigpools/{}", self.name), &patch);
    }

    /// Waits until the MachineConfigPool fits.
    #[track_caller]
    pub fn wait_pool(&self, fits: impl Fn(&Value) -> bool) -> Value {
        self.wait(&format!("machineconfigpool/{}", self.name), fits)
    }

    /// Waits until the Node of a machine fits.
    #[track_caller]
    pub fn wait_node(&self, name: &str, fits: impl Fn(&Value) -> bool) -> Value {
        self.wait(&format!("node/{name}"), fits)
    }

    #[track_caller]
    pub fn wait(&self, what: &str, fits: impl Fn(&Value) -> bool) -> Value {
        self.cluster.node.wait(what, LIMIT, fits)
    }

    /// Waits until a machine is degraded because it fell back from its image, and lets it try again, as
    /// an administrator does who does not wait for the pause.
    #[track_caller]
    pub fn retry_fallen(&self, name: &str) {
        let mark = "mosb.dev/fallback";
        let state = "machineconfiguration.openshift.io/state";
        self.wait_node(name, |node| {
            !annotation(node, mark).is_empty() && annotation(node, state) == "Degraded"
        });
        let node = format!("node/{name}");
        self.cluster.node.kubectl(&["annotate", &node, &format!("{mark}-")]).ok();
    }

    /// Waits until these machines have staged an image.
    #[track_caller]
    pub fn wait_staged(&self, digest: &str) {
        for name in &self.machines {
            self.wait_node(name, |node| annotation(node, "mosb.dev/staged").contains(digest));
        }
    }

    /// Whether all machines run an image and the pool is Updated.
    pub fn is_updated(&self, digest: &str) -> bool {
        let pool = self.cluster.node.get(&format!("machineconfigpool/{}", self.name));
        Self::condition(&pool, "Updated") == "True"
            && self.machines.iter().all(|one| self.cluster.machines.get(one).booted == digest)
    }

    /// Waits until all machines run an image and the pool reports it. Checks what it reports.
    #[track_caller]
    pub fn wait_updated(&self, digest: &str) -> Value {
        let count = self.machines.len();
        let pool = self.wait_pool(|pool| {
            Self::condition(pool, "Updated") == "True"
                && pool["status"]["updatedMachineCount"] == count
                && self.machines.iter().all(|one| self.cluster.machines.get(one).booted == digest)
        });
        let status = &pool["status"];
        for (field, want) in [
            ("machineCount", count),
            ("readyMachineCount", count),
            ("unavailableMachineCount", 0),
            ("degradedMachineCount", 0),
        ] {
            assert_eq!(status[field], want, "{field}: {status:#}");
        }
        assert_eq!(Self::condition(&pool, "Updating"), "False");
        for name in &self.machines {
            let node = self.cluster.node.get(&format!("node/{name}"));
            assert_ne!(node["spec"]["unschedulable"], true, "{node:#}");
            let is = |key: &str| annotation(&node, key);
            assert!(is("machineconfiguration.openshift.io/currentImage").ends_with(digest));
            assert_eq!(is("machineconfiguration.openshift.io/state"), "Done", "{name}");
            assert_eq!((is("mosb.dev/slot"), is("mosb.dev/staged")), ("", ""), "{name}");
        }
        pool
    }

    /// How often each machine rebooted until now.
    #[track_caller]
    pub fn boots(&self) -> Vec<usize> {
        self.cluster.observer.boots(&self.machines)
    }

    /// The status of a condition; empty if there is none.
    pub fn condition<'p>(pool: &'p Value, kind: &str) -> &'p str {
        Self::found(pool, kind)["status"].as_str().unwrap_or_default()
    }

    /// Reason and message of a condition.
    pub fn message(pool: &Value, kind: &str) -> String {
        let found = Self::found(pool, kind);
        let text = |key: &str| found[key].as_str().unwrap_or_default().to_owned();
        format!("{}: {}", text("reason"), text("message"))
    }

    fn found<'p>(pool: &'p Value, kind: &str) -> &'p Value {
        let conditions = pool["status"]["conditions"].as_array();
        let found = conditions.and_then(|all| all.iter().find(|one| one["type"] == kind));
        found.unwrap_or(&Value::Null)
    }
}
