//! A cluster in which no pod runs, with a registry whose address is always the same: what a build
//! is known by depends on it.

use std::collections::BTreeMap;
use std::net::TcpListener;
use std::time::Duration;

use serde_json::{Value, json};

use mosb_tests::{
    Daemon, Finished, Layout, Node, Registry, finish, lasting, limited, programs, run, wait,
};

pub const API: &str = "machineconfiguration.openshift.io/v1";
pub const M: &str = "machineconfiguration.openshift.io";
pub const NAMESPACE: &str = "mosb-system";
/// On a busy machine.
pub const LONG: Duration = Duration::from_secs(300);

/// Each with its story, and the word by which it is known that this is over; one has another while
/// it is building.
pub const POOLS: [(&str, &str); 5] = [
    ("building", "building"),
    ("containerfile", "up-to-date"),
    ("direct", "up-to-date"),
    ("failed", "failed"),
    ("seeded", "up-to-date"),
];

/// On loopback, where nothing else is, and where plain HTTP is spoken.
const REGISTRY: &str = "127.83.12.7:5000";
/// Who listens here may use that address: another run on this machine waits.
const LOCK: &str = "127.83.12.7:5001";
/// How long another run may need the address.
const OTHER_RUN: Duration = Duration::from_secs(1200);
/// Of what lies in its layout, what is pushed where.
const IMAGES: [(&str, &str); 2] = [("base", "upgrade/base:1"), ("image", "upgrade/os:image")];
/// Objects of a namespace that a test makes itself, or that Kubernetes does.
pub const NOT_RECORDED: [&str; 5] =
    ["default", "global-pull-secret-copy", "kube-root-ca.crt", "mosb-config", "push"];

pub struct UpgradeCluster {
    pub node: Node,
    /// The digest of the image that all builds end with.
    pub image: String,
    _registry: Registry,
    _lock: TcpListener,
    controller: Option<Daemon>,
}

impl UpgradeCluster {
    pub fn new(images: &Layout) -> Self {
        let lock = wait(LOCK, OTHER_RUN, || TcpListener::bind(LOCK).ok());
        let registry = Registry::at(REGISTRY);
        for (tag, name) in IMAGES {
            registry.push(images, tag, name);
        }
        let node = Node::start(&programs()).unwrap();
        node.install_kinds();
        node.make_namespace(NAMESPACE);
        let settings = json!({ "job": { "nodeSelector": { "no-node": "has-this" } } });
        let of_ours = |kind: &str, name: &str| json!({ "apiVersion": "v1", "kind": kind, "metadata": { "name": name, "namespace": NAMESPACE } });
        let mut map = of_ours("ConfigMap", "mosb-config");
        map["data"] = json!({ "config.yaml": settings.to_string() });
        node.apply(&map.to_string());
        for name in ["push", "global-pull-secret-copy"] {
            let mut secret = of_ours("Secret", name);
            secret["type"] = json!("kubernetes.io/dockerconfigjson");
            secret["stringData"] = json!({ ".dockerconfigjson": "{\"auths\":{}}" });
            node.apply(&secret.to_string());
        }
        Self {
            node,
            image: images.digest("image"),
            _registry: registry,
            _lock: lock,
            controller: None,
        }
    }

    pub fn push(&self) -> String {
        format!("{REGISTRY}/upgrade/os")
    }

    /// Gives a pool another rendered config, made of these MachineConfigs.
    pub fn renders(&self, pool: &str, number: u32, image: Option<&str>, sources: &[&str]) {
        let rendered = format!("rendered-{pool}-{number:032x}");
        let base = format!("{REGISTRY}/upgrade/base:1");
        let file =
            json!({ "path": "/etc/story", "contents": { "source": format!("data:,{number}") } });
        let config = json!({ "ignition": { "version": "3.5.0" }, "storage": { "files": [file] } });
        self.apply(&json!({ "kind": "MachineConfig",
            "metadata": { "name": rendered, "annotations": {
                format!("{M}/generated-by-controller-version"): "test",
                format!("{M}/release-image-version"): "4.20.0" } },
            "spec": { "osImageURL": image.unwrap_or(&base), "config": config, "kernelArguments": [], "extensions": [], "fips": false,
                "kernelType": "default", "baseOSExtensionsContainerImage": "" } }));
        let sources: Vec<Value> = sources
            .iter()
            .map(|name| json!({ "apiVersion": API, "kind": "MachineConfig", "name": name }))
            .collect();
        let configuration = json!({ "name": rendered, "source": sources });
        self.apply(&json!({ "kind": "MachineConfigPool", "metadata": { "name": pool }, "spec": {
            "nodeSelector": { "matchLabels": { "kubernetes.io/os": "linux" } }, "configuration": configuration } }));
    }

    /// One of the machine configuration's API.
    pub fn apply(&self, object: &Value) {
        let mut object = object.clone();
        object["apiVersion"] = json!(API);
        self.node.apply(&object.to_string());
    }

    #[track_caller]
    pub fn all(&self, kind: &str) -> Vec<Value> {
        self.node.api().list(Some(NAMESPACE), kind, "")
    }

    #[track_caller]
    pub fn get(&self, kind: &str, name: &str) -> Value {
        let found = self.node.api().find(Some(NAMESPACE), kind, name);
        found.unwrap_or_else(|| panic!("{kind} {name}: there is none"))
    }

    /// `kubectl patch`, of an object or of its status.
    pub fn patch(&self, kind: &str, name: &str, status: bool, change: &Value) -> Finished {
        let change = change.to_string();
        let mut words = vec!["patch", kind, name, "--namespace", NAMESPACE, "--type=merge"];
        words.extend(status.then_some("--subresource=status"));
        words.extend(["--patch", &change]);
        self.node.kubectl(&words)
    }

    pub fn annotate(&self, kind: &str, name: &str, key: &str, value: &str) {
        let change = json!({ "metadata": { "annotations": { key: value } } });
        self.patch(kind, name, false, &change).ok();
    }

    pub fn start(&mut self) {
        let mut command = lasting(mosb_tests::program());
        command
            .args(["controller", "--listen", "127.0.0.1:0"])
            .args(["--builder-image", "mosb.test/none:1"])
            .args(["--namespace", NAMESPACE, "--kubeconfig"])
            .arg(self.node.kubeconfig())
            .env_clear()
            .env("PATH", "/usr/bin:/bin");
        let acts = |line: &str| line.contains("the lease is held; reconciling").then_some(());
        self.controller = Some(Daemon::start(command, acts).0);
    }

    pub fn stop(&mut self) {
        let controller = self.controller.take().expect("it was started");
        run("kill", ["-TERM", &controller.pid.to_string()]);
        let stat = || std::fs::read_to_string(format!("/proc/{}/stat", controller.pid));
        let has_ended = || stat().map_or(true, |stat| stat.contains(") Z"));
        wait("the controller's end", LONG, || has_ended().then_some(()));
    }

    pub fn log(&self) -> String {
        self.controller.as_ref().map(Daemon::log).unwrap_or_default()
    }

    /// What `mosb status` says of each pool.
    fn codes(&self) -> BTreeMap<String, String> {
        let mut command = limited(mosb_tests::program());
        command
            .args(["status", "-o", "json", "--namespace", NAMESPACE, "--kubeconfig"])
            .arg(self.node.kubeconfig())
            .env_clear()
            .env("PATH", "/usr/bin:/bin");
        let status = finish(&mut command, &[]).ok().json();
        let pools = status["pools"].as_array().unwrap().iter();
        pools
            .map(|pool| (text(&pool["pool"]).to_owned(), text(&pool["reason"]["code"]).to_owned()))
            .collect()
    }

    /// Waits until the controller has logged something about each pool, and each is as its story
    /// ends; the one that is building says this.
    #[track_caller]
    pub fn until_all_are(&self, building: &str) {
        let want: BTreeMap<String, String> = POOLS
            .iter()
            .map(|(pool, code)| match *pool {
                "building" => ((*pool).to_owned(), building.to_owned()),
                _ => ((*pool).to_owned(), (*code).to_owned()),
            })
            .collect();
        let mut last = BTreeMap::new();
        let done = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            wait("all pools", LONG, || {
                last = self.codes();
                // The scheduler may say again that no node takes it.
                let is_pending = last.get("building").is_some_and(|code| code == "pending");
                if building == "building" && is_pending {
                    self.run(&self.pod_of("building").1);
                }
                let log = self.log();
                let is_logged = |pool: &&String| {
                    let begin = format!("{pool}: ");
                    log.lines().any(|line| line.starts_with(&begin))
                };
                (last == want && want.keys().filter(is_logged).count() == want.len()).then_some(())
            });
        }));
        if done.is_err() {
            panic!("want {want:?}, got {last:?}; log of the controller:\n{}", self.log());
        }
    }

    /// Jobs that have a pod which has not ended, with its name.
    pub fn running(&self) -> Vec<(Value, String)> {
        let pods = self.all("pods");
        let jobs = self.all("jobs").into_iter();
        let pod_of = |job: &Value| {
            let uid = &job["metadata"]["uid"];
            let is_its = |pod: &&Value| pod["metadata"]["ownerReferences"][0]["uid"] == *uid;
            let pod = pods.iter().find(is_its)?;
            Some(text(&pod["metadata"]["name"]).to_owned())
        };
        jobs.filter(|job| job["status"]["active"] == 1)
            .filter_map(|job| {
                let pod = pod_of(&job)?;
                Some((job, pod))
            })
            .collect()
    }

    /// The pod of the Job of a pool's build, once it is there.
    #[track_caller]
    pub fn pod_of(&self, pool: &str) -> (Value, String) {
        wait(&format!("a pod for {pool}"), LONG, || {
            let mut running = self.running().into_iter();
            let is_its =
                |job: &Value| text(&job["metadata"]["name"]).starts_with(&format!("build-{pool}-"));
            running.find(|(job, _)| is_its(job))
        })
    }

    /// A container of the pod runs.
    pub fn run(&self, pod: &str) {
        let container = json!({ "name": "image-build", "image": "mosb.test/none:1", "imageID": "", "ready": false, "restartCount": 0,
            "started": true, "state": { "running": { "startedAt": "2026-01-01T00:00:00Z" } } });
        let scheduled = json!({ "type": "PodScheduled", "status": "True" });
        let status = json!({ "phase": "Running", "initContainerStatuses": [container], "conditions": [scheduled] });
        self.patch("pod", pod, true, &json!({ "status": status })).ok();
    }

    /// The pod tells that the image is there.
    pub fn succeed(&self, job: &Value, pod: &str) {
        let digest = &self.image;
        let result = json!({ "outcome": "Succeeded", "digest": digest, "method": "direct" });
        self.report(job, result, json!({ "digest": digest }));
        // Job and pod may be gone by now, since the result is reported.
        self.patch("pod", pod, true, &json!({ "status": { "phase": "Succeeded" } }));
    }

    /// The pod tells that it failed.
    pub fn fail(&self, job: &Value, pod: &str) {
        let result = json!({ "outcome": "Failed", "step": "image-build", "class": "user-input",
            "reason": "bad-config", "message": "a test wants it to fail" });
        self.report(job, result, json!({}));
        self.end_badly(job, pod);
    }

    /// The pod has failed, and so has its Job.
    pub fn end_badly(&self, job: &Value, pod: &str) {
        self.patch("pod", pod, true, &json!({ "status": { "phase": "Failed" } })).ok();
        let name = text(&job["metadata"]["name"]);
        wait(&format!("the end of {name}"), LONG, || {
            let job = self.get("job", name);
            let conditions = job["status"]["conditions"].as_array().cloned();
            let mut conditions = conditions.into_iter().flatten();
            conditions.any(|one| one["type"] == "Failed" && one["status"] == "True").then_some(())
        });
    }

    fn report(&self, job: &Value, mut result: Value, mut data: Value) {
        let metadata = &job["metadata"];
        result["jobUid"] = metadata["uid"].clone();
        result["build"] = metadata["annotations"][format!("{M}/machine-os-build")].clone();
        data["result.json"] = json!(result.to_string());
        let needs = text(&metadata["annotations"]["mosb.dev/needs"]).split(' ');
        let mut maps = needs.filter_map(|need| need.strip_prefix("ConfigMap/"));
        let map = maps.find(|name| name.starts_with("digest-")).unwrap();
        self.patch("configmap", map, false, &json!({ "data": data })).ok();
    }
}

pub fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}
